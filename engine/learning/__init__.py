"""How a network learns: estimators, optimizers, the cap, training, files of a run."""
