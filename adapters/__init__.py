"""Other executions of the contract; each module imports its own library."""
