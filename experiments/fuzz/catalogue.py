"""All properties there are: importing a module enters those in it."""

from experiments.fuzz import description, equilibrium, hardware, learning, phases, symmetry
from experiments.fuzz.theory import THEORIES

MODULES = (equilibrium, phases, symmetry, learning, description, hardware)

__all__ = ["MODULES", "THEORIES"]
