"""Where EqProp starts to need less than a rival along an axis, or stops to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.benchmark.growth import GrowthPoint
from experiments.benchmark.probe import LearnerName

QUANTITIES = {"extra": "memory", "seconds": "time"}
"""Fields of a footprint, and what they are called."""
RIVALS: tuple[LearnerName, ...] = ("backprop", "bptt")


@dataclass(frozen=True)
class Crossing:
    """EqProp against a rival along an axis.

    `values` are where their curves cross, on straight lines between the logarithms of the measured
    points; `first` and `last` are the ratios EqProp / rival at the ends of the axis.
    """

    axis: str
    rival: str
    quantity: str
    values: tuple[float, ...]
    first: float
    last: float

    def text(self) -> str:
        """Say where EqProp needs less."""
        if not self.values:
            return "everywhere" if self.first < 1.0 else "nowhere"
        if len(self.values) > 1:
            places = ", ".join(f"{value:.3g}" for value in self.values)
            return f"it changes at {self.axis} {places}"
        (value,) = self.values
        return f"{self.axis} {'above' if self.last < 1.0 else 'below'} {value:.3g}"


def find_crossings(points: Sequence[GrowthPoint]) -> list[Crossing]:
    """Compare EqProp with every rival along every axis."""
    found = []
    for axis in dict.fromkeys(point.axis for point in points):
        lines = {
            learner: {p.value: p.footprint for p in points if _is_on(p, axis, learner)}
            for learner in ("eqprop", *RIVALS)
        }
        for rival in RIVALS:
            values = sorted(lines["eqprop"].keys() & lines[rival].keys())
            for field, quantity in QUANTITIES.items():
                ratios = [
                    max(getattr(lines["eqprop"][value], field), 1e-9)
                    / max(getattr(lines[rival][value], field), 1e-9)
                    for value in values
                ]
                if ratios:
                    places = _crossings(values, ratios)
                    found.append(Crossing(axis, rival, quantity, places, ratios[0], ratios[-1]))
    return found


def _is_on(point: GrowthPoint, axis: str, learner: str) -> bool:
    return point.axis == axis and point.setting.learner == learner


def _crossings(values: Sequence[int], ratios: Sequence[float]) -> tuple[float, ...]:
    """Return where the ratio passes one, on straight lines between the logarithms."""
    x, y = np.log(values), np.log(ratios)
    apart = np.flatnonzero((y[:-1] < 0.0) != (y[1:] < 0.0))
    places = x[apart] + (x[apart + 1] - x[apart]) * y[apart] / (y[apart] - y[apart + 1])
    return tuple(np.exp(places).tolist())
