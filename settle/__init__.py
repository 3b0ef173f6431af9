"""The `settle` command: one name for all commands, and a doctor that says what is installed."""
