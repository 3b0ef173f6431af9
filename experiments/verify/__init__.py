"""Every claim of the project, established again by one command: python -m experiments.verify."""
