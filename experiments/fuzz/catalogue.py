"""All properties there are: importing a module enters those in it."""

from experiments.fuzz import (
    circuits,
    description,
    equilibrium,
    hardware,
    learning,
    phases,
    symmetry,
)
from experiments.fuzz.theory import THEORIES

MODULES = (equilibrium, phases, symmetry, learning, description, hardware, circuits)

__all__ = ["MODULES", "THEORIES"]
