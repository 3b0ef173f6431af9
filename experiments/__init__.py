"""The commands: tasks, training runs, tables."""
