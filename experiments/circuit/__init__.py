"""From a trained network to a circuit: the commands `python -m experiments.circuit ...`."""
