"""Fair timing: in every round each contestant does the same work once, in turn.

A busy moment of the machine then hits all alike, and a ratio of two contestants is taken within a
round. The first call of each, which compiles and fills caches, is timed apart.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from engine.arrays import FloatArray

Contestant = Callable[[], object]

REST = 0.15
"""Seconds after which an idle thread of a library sleeps. Until then it looks for work on a core
that the next contestant, with threads of its own, would have to share with it."""
WAKE = 0.03
"""Seconds of untimed runs after a rest: the system then has found a core for each thread."""


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """Return `1.14 (1.12 to 1.17)`, with a place to break the line."""
        low, high = f"{self.low:.{digits}f}", f"{self.high:.{digits}f}"
        return f"{self.median:.{digits}f}\n({low} to {high})"


@dataclass(frozen=True)
class TimingEffort:
    """How long to measure: rounds until `seconds` have passed, within the limits."""

    seconds: float
    fewest: int
    most: int


@dataclass(frozen=True)
class Times:
    """Seconds of a contestant: of its first call, and of every round after it."""

    first: float
    rounds: FloatArray

    def over(self, other: "Times") -> Spread:
        """Return the ratio to another contestant of the same rounds."""
        return spread(self.rounds / other.rounds)


def spread(values: Sequence[float] | FloatArray) -> Spread:
    """Return median and quartiles."""
    low, median, high = np.percentile(values, (25, 50, 75))
    return Spread(float(median), float(low), float(high))


def interleave(
    contestants: Mapping[str, Contestant], effort: TimingEffort, threads: int = 1
) -> dict[str, Times]:
    """Time all contestants round by round.

    With several threads each one waits until those of the others sleep, and wakes its own.
    """
    first = {name: seconds_of(run) for name, run in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    began = time.perf_counter()
    for done in range(effort.most):
        if done >= effort.fewest and time.perf_counter() - began > effort.seconds:
            break
        for name, run in contestants.items():
            if threads > 1:
                time.sleep(REST)
                _wake(run)
            seconds[name].append(seconds_of(run))
    return {name: Times(first[name], np.array(taken)) for name, taken in seconds.items()}


def _wake(run: Contestant) -> None:
    """Run untimed, once or as often as it takes to be awake."""
    began = time.perf_counter()
    run()
    while time.perf_counter() - began < WAKE:
        run()


def seconds_of(run: Contestant) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """Give BLAS and torch that many threads, and then what they had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
