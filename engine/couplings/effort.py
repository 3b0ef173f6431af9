"""What a coupling that is no link costs, for those who count it.

Kinds of events have the names of `hw_sim`: `mac`, `activation` (an exponential), `divide`,
`weight_read`, `state_read` and `state_write` (words of units, and of results in between),
`trace_read` and `trace_write`. A word that is sent to many is read once. What a link costs follows
from its shape, so only couplings without one say it themselves, in a method `effort(shapes)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.couplings.link import FORMS, Shapes, says_itself


@dataclass(frozen=True)
class Effort:
    """Events of one sample: of one `drive`, and of one `correlate`, which starts from the state."""

    drive: Mapping[str, int]
    correlate: Mapping[str, int]
    words: int = 0
    """Results in between that are held, beside the states."""


def effort_of(coupling: Any, shapes: Shapes) -> Effort | None:
    """Return what a coupling costs, or `None` if it does not say it of its own closed forms."""
    return coupling.effort(shapes) if says_itself(coupling, "effort", FORMS) else None


def summed(*parts: Mapping[str, int]) -> dict[str, int]:
    """Return events that happen one after the other."""
    total: dict[str, int] = {}
    for part in parts:
        for kind, count in part.items():
            total[kind] = total.get(kind, 0) + count
    return total
