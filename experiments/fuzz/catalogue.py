"""All properties, in the order in which they are tried."""

from experiments.fuzz import description, equilibrium, learning, symmetry
from experiments.fuzz.theory import THEORIES

MODULES = (equilibrium, symmetry, learning, description)

__all__ = ["MODULES", "THEORIES"]
