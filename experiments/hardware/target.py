"""The accuracy to which all learners of a seed are trained on a substrate."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TypeAlias

from experiments.hardware.curve import level_reached, reached_at
from experiments.hardware.job import Outcome

Targets: TypeAlias = Mapping[tuple[str, int], float]
"""By substrate and seed."""


def common_targets(outcomes: Sequence[Outcome]) -> Targets:
    """Return the accuracy on the validation part to which the learners of each seed are trained.

    `p - sqrt(p (1 - p) / samples)`: the lowest level `p` that one of them reached and kept, less
    the standard error of an accuracy of that many samples. A seed has a split of its own, and some
    are harder: one target for all would be what the worst of all runs reached.
    """
    found: dict[tuple[str, int], float] = {}
    for outcome in outcomes:
        level = level_reached(outcome.curve)
        safe = level - sqrt(level * (1.0 - level) / outcome.n_valid)
        key = outcome.substrate, outcome.seed
        found[key] = min(safe, found.get(key, 1.0))
    return found


def target_of(outcome: Outcome, targets: Targets) -> float:
    """Return the accuracy to which a run is priced."""
    return targets[outcome.substrate, outcome.seed]


def update_reached(outcome: Outcome, targets: Targets) -> float | None:
    """Return the update at which a run reached its target; `None` if never."""
    return reached_at(outcome.curve, target_of(outcome, targets))
