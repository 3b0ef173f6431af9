"""How accuracy grew while a run was watched, and what it had done when it reached a target.

Accuracies of a finite validation part jump up and down. What they say of a run that learns is a
curve that does not fall: their isotonic regression (least squares), each of its flat pieces one
point at its centre, with straight lines between (centred isotonic regression, Oron and Flournoy
2017). A run has reached a target where this curve does, and everything that it counted lies on
straight lines between two looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from engine.arrays import FloatArray
from hw_sim.counts import Amounts, OpCounts


@dataclass(frozen=True)
class Point:
    """One look at the validation part, and all counts since the start."""

    update: int
    epoch: float
    """Passes over the training part."""
    accuracy: float
    unsettled: float
    """This and the steps are means since the look before."""
    free_steps: float
    nudged_steps: float
    most_writes: int
    counts: list[list[Any]]

    @property
    def done(self) -> OpCounts:
        """Everything that training did up to here."""
        return OpCounts.from_rows(tuple(row) for row in self.counts)


Curve = Sequence[Point]
"""The looks at a run, in order; there is at least one."""


def look_times(updates: int, looks: int) -> list[int]:
    """Return after which of so many updates to look: evenly, and after the last; none twice."""
    times = np.linspace(0, updates, min(looks, updates) + 1)[1:].round()
    return [int(time) for time in times]


def rising(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return updates and accuracies of the corners of the curve that does not fall, ascending."""
    fitted = isotonic_regression([point.accuracy for point in curve]).x
    levels, piece = np.unique(fitted, return_inverse=True)
    updates = np.bincount(piece, [point.update for point in curve]) / np.bincount(piece)
    return updates, levels


def level_reached(curve: Curve) -> float:
    """Return the accuracy that a run reached and kept: the last of its rising curve."""
    return float(rising(curve)[1][-1])


def reached_at(curve: Curve, target: float) -> float | None:
    """Return the update, with its fraction, at which a run reached an accuracy; `None` if never.

    What was reached before the first look counts as reached there.
    """
    updates, levels = rising(curve)
    if target > levels[-1]:
        return None
    if target <= levels[0]:
        return float(curve[0].update)
    return float(np.interp(target, levels, updates))


def epochs_to(curve: Curve, target: float) -> float:
    """Return how many passes over the training part it took to a target; NaN if never reached."""
    update = reached_at(curve, target)
    return np.nan if update is None else update * curve[-1].epoch / curve[-1].update


def first_look(curve: Curve, target: float) -> Point:
    """Return the first look after a target was reached; the last, if it never was."""
    update = reached_at(curve, target)
    return next((p for p in curve if update is not None and p.update >= update), curve[-1])


def counts_until(curve: Curve, update: float) -> Amounts:
    """Return what training did up to an update between two looks."""
    after = int(np.searchsorted([point.update for point in curve], update))
    begun, before = (curve[after - 1].update, curve[after - 1].done) if after else (0, OpCounts())
    share = (update - begun) / (curve[after].update - begun)
    return Amounts.between(before, curve[after].done, share)


def writes_until(curve: Curve, update: float) -> float:
    """Return the writes of the weight cell that was written most up to an update."""
    return float(np.interp(update, [p.update for p in curve], [p.most_writes for p in curve]))


def steps_until(curve: Curve, update: float) -> float:
    """Return the mean steps of a sample, of the free and both nudged phases together."""
    spans = np.diff(np.minimum([p.update for p in curve], update), prepend=0.0)
    return float(np.average([p.free_steps + 2 * p.nudged_steps for p in curve], weights=spans))
