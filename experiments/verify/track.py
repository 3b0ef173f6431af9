"""What a track is: a claim, an experiment that could refute it, and the rules that judge both.

A check compares one measured number with a limit that stands in the code. The status, the score
and the level of evidence follow from the checks and from the size of the experiment by the three
functions at the end, and from nothing else.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import numpy as np

from experiments.reporting.document import Table
from experiments.reporting.picture import Picture

FULL_SEEDS, SOME_SEEDS = 5, 3
SOME_AMOUNT = 0.2
"""Share of the full amount below which evidence is no more than a smoke test."""

RULES = (
    "A check holds or it does not: a measured number against a limit that was written down before. "
    "What is not a number never holds.",
    "Status: failed if an essential check does not hold, partial if only others do not, passed if "
    "all hold. A track that stops with an error has failed.",
    "Score: 100 times the share of checks that hold, and 0 if the track failed.",
    f"Evidence: full with at least {FULL_SEEDS} seeds at the full amount, intermediate with at "
    f"least {SOME_SEEDS} seeds at {SOME_AMOUNT:.0%} of it, otherwise smoke. It does not enter the "
    "score.",
)


class VerifyError(ValueError):
    """A request or a track file that cannot be used, as one sentence."""


class TrackSize(StrEnum):
    """How much to spend."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


class Status(StrEnum):
    """What a track showed."""

    PASSED = "passed"
    PARTIAL = "partial"
    FAILED = "failed"


class Level(StrEnum):
    """How much evidence there is."""

    SMOKE = "smoke"
    INTERMEDIATE = "intermediate"
    FULL = "full"


@dataclass(frozen=True)
class Size:
    """Size of an experiment; `amount` counts what `Track.unit` names."""

    seeds: int
    amount: int

    @property
    def repeats(self) -> str:
        """The number of seeds in words."""
        return f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"


Relation: TypeAlias = Literal["<=", "<", ">=", ">", "="]

HOLDS: dict[Relation, Callable[[float, float], bool]] = {
    "<=": lambda measured, limit: measured <= limit,
    "<": lambda measured, limit: measured < limit,
    ">=": lambda measured, limit: measured >= limit,
    ">": lambda measured, limit: measured > limit,
    "=": lambda measured, limit: measured == limit,
}


@dataclass(frozen=True)
class Check:
    """A measured number and what it has to be; an essential one decides about the claim."""

    name: str
    measured: float
    relation: Relation
    limit: float
    essential: bool = True

    @classmethod
    def of_all(
        cls,
        name: str,
        values: Iterable[float],
        relation: Relation,
        limit: float,
        essential: bool = True,
    ) -> "Check":
        """Return the check of the value furthest from holding; one that is no number is that."""
        found = np.array([*values], np.float64)
        distance = {"<": found - limit, ">": limit - found, "=": np.abs(found - limit)}[relation[0]]
        worst = float(found[np.argmax(distance)]) if len(found) else math.nan
        return cls(name, worst, relation, limit, essential)

    @property
    def held(self) -> bool:
        """Whether the number is as required; NaN never is."""
        return not math.isnan(self.measured) and HOLDS[self.relation](self.measured, self.limit)


@dataclass(frozen=True)
class Finding:
    """What one experiment measured."""

    experiment: str
    """What was done, in a paragraph."""
    checks: tuple[Check, ...]
    tables: tuple[Table, ...]
    limits: tuple[str, ...]
    """What the claim does not say, even where every check holds."""
    pictures: tuple[Picture, ...] = ()
    measurements: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind the tables, for the JSON file."""


@dataclass(frozen=True)
class Track:
    """A claim, and the one function that puts it to the test at a given size."""

    number: int
    title: str
    claim: str
    unit: str
    sizes: Mapping[TrackSize, Size]
    verify: Callable[[Size], Finding]

    def level(self, effort: TrackSize) -> Level:
        """Return how much evidence an experiment of this effort is."""
        return level_of(self.sizes[effort], self.sizes[TrackSize.FULL])


def status_of(checks: Sequence[Check]) -> Status:
    """Judge a claim by its checks; without any it has failed."""
    if not checks or any(check.essential and not check.held for check in checks):
        return Status.FAILED
    return Status.PASSED if all(check.held for check in checks) else Status.PARTIAL


def score_of(checks: Sequence[Check]) -> float:
    """Return 100 times the share of checks that hold, 0 if the claim failed."""
    if status_of(checks) is Status.FAILED:
        return 0.0
    return 100.0 * sum(check.held for check in checks) / len(checks)


def level_of(size: Size, full: Size) -> Level:
    """Return the level of evidence of an experiment, by seeds and size."""
    if size.seeds >= FULL_SEEDS and size.amount >= full.amount:
        return Level.FULL
    if size.seeds >= SOME_SEEDS and size.amount >= SOME_AMOUNT * full.amount:
        return Level.INTERMEDIATE
    return Level.SMOKE
