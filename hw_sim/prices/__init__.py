"""What events cost: technologies, bills, and where the balance tips."""
