"""One file for each track; a file with a `TRACK` is found without being named anywhere else."""
