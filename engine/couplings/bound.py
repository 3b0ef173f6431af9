"""What bounds the norm of a coupling, for those who cap it.

A link is its own bound. A coupling that is none may still be known not to amplify more than a link
does: then it says so itself, in a method `bound(shapes)`.
"""

from dataclasses import dataclass
from typing import Any

from engine.arrays import Array
from engine.couplings.link import FORMS, Link, Shapes, says_itself


@dataclass(frozen=True)
class Bound:
    """The norm of a coupling is at most `factor` times the largest norm of its parts.

    The block is `parts` matrices one after the other. Each is read as `link` says, and joins units
    that no other part touches.
    """

    link: Link
    parts: int = 1
    factor: float = 1.0
    bilinear: bool = True
    """Whether the coupling is a product of its two states with some matrix."""

    def part(self, block: Array, k: int) -> Array:
        """View the matrix of part `k`."""
        return block if self.parts == 1 else block.reshape(self.parts, self.link.fan_in, -1)[k]

    def direction(self, vector: Array, k: int) -> Array:
        """View what belongs to part `k` of a vector with a number for each unit of the source."""
        return vector if self.parts == 1 else vector.reshape(self.parts, -1)[k]


def bound_of(coupling: Any, shapes: Shapes) -> Bound | None:
    """Return what a coupling that is no link says of its norm, if it does of its own forms."""
    return coupling.bound(shapes) if says_itself(coupling, "bound", FORMS) else None
