"""What experiments that compare learning rules share: jobs, statistics, tables, plots, files."""
