"""Epochs in turns: every contestant trains one, then all the next."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from experiments.benchmark.timing import Contestant, Spread, spread


class EpochLearner(Protocol):
    """Something that trains epoch by epoch."""

    @property
    def note(self) -> str:
        """What is worth saying about how it trained."""

    def train_epoch(self) -> None:
        """Go once through the training part."""

    def accuracy(self) -> float:
        """Return the share of right answers on the validation part."""


@dataclass(frozen=True)
class Course:
    """What one learner took and reached, epoch by epoch."""

    seconds: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def over(self, other: "Course") -> Spread:
        """Return the ratio to another one of the same rounds, which may have gone on."""
        own = np.array(self.seconds)
        return spread(own / np.array(other.seconds)[: len(own)])


def train_in_turns(
    learners: Mapping[str, EpochLearner],
    epochs: int,
    threads: int,
    on_round: Callable[[str], None],
    is_done: Callable[[str, Mapping[str, Course]], bool] | None = None,
) -> dict[str, Course]:
    """Train all learners; one that `is_done`, by what all have reached, misses the next round."""
    courses = {name: Course() for name in learners}
    for number in range(epochs):
        moving = {
            name: learner
            for name, learner in learners.items()
            if is_done is None or not is_done(name, courses)
        }
        for name, learner in moving.items():
            on_round(f"epoch {number + 1}, {threads} thread(s): {name}")
            courses[name].seconds.append(epoch_seconds(learner.train_epoch, threads))
            courses[name].accuracies.append(learner.accuracy())
    return courses


def epoch_seconds(run: Contestant, threads: int) -> float:
    """Return CPU seconds with one thread, else those on the clock.

    On a busy machine only the first are those of the work; with more threads they would count
    those that wait.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    began = clock()
    run()
    return clock() - began
