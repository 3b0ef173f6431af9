"""What the shared code has to know of an experiment: who takes part, on what, and for what goal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.contest.metrics import ACCURACY, Metric


@dataclass(frozen=True)
class TaskGoal:
    """What EqProp is to reach on a task, as fractions.

    `margin` is both the goal for the size of the gap and the margin of the equivalence test.
    """

    accuracy: float | None
    """Where it hangs on another run, it is not known before that."""
    margin: float


@dataclass(frozen=True)
class Look:
    """How a contestant is drawn."""

    colour: str
    dashes: Any = "-"


@dataclass(frozen=True)
class Roster:
    """An experiment: contestants and tasks in the order of the report, and what they are to reach.

    The first EqProp contestant is the one that goals are about; `same_network` is the baseline
    that trains its very network by another gradient.
    """

    title: str
    titles: Mapping[str, str]
    """Of everyone who takes part."""
    short: Mapping[str, str]
    """Names where a column is narrow, of EqProp and of the baselines."""
    eqprop: tuple[str, ...]
    baselines: tuple[str, ...]
    same_network: str
    claim: str
    """What the verdicts are about, as the beginning of a sentence."""
    rival_title: str
    """What the gap is measured to."""
    tasks: Mapping[str, str]
    """Titles of the tasks that the experiment knows."""
    goals: Mapping[str, TaskGoal]
    looks: Mapping[str, Look]
    rival: str | None = None
    """The baseline of every gap; where there is none, the best one on the validation part."""
    optional: frozenset[str] = frozenset()
    """Contestants whom nobody misses where they do not run at all."""
    margin: float | None = None
    """Of tasks without a goal, where the user states one."""
    unused: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Settings that a record carries although its contestant has no use for them."""

    @property
    def main(self) -> str:
        """The EqProp contestant that goals are about."""
        return self.eqprop[0]

    @property
    def contestants(self) -> tuple[str, ...]:
        """EqProp and the baselines, without controls."""
        return self.eqprop + self.baselines

    def margin_of(self, task: str, metric: Metric = ACCURACY) -> float:
        """Return how large a gap may be and still not matter."""
        if task in self.goals:
            return self.goals[task].margin
        return metric.margin if self.margin is None else self.margin
