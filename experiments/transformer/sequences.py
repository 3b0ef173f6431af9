"""Sequence tasks, and sequences that are held out for certain.

A hash of its tokens puts every possible sequence into one part, once and for all. Training draws
from the training part only, so a test sequence cannot have been seen, whatever was drawn before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
"""As in `engine.arrays`, which brings the compiler along: the command names its tasks at once."""
SEEDS = 3
"""Of the kinds that are compared, unless the command is told."""
TEST, VALIDATION, TRAINING = "test", "validation", "training"
SHARES = {0: TEST, 1: VALIDATION}
"""Of ten equal parts by hash; the others are for training."""
PARTS = 10
PATIENCE = 200
"""Draws after which a part is taken to be empty."""


class SequenceError(ValueError):
    """A task or a kind of sequence that cannot be used, as one sentence."""


@dataclass(frozen=True)
class SequenceTask:
    """What has to be answered, token by token, to sequences `(samples, length)`."""

    name: str
    title: str
    answer: Callable[[IntArray], IntArray]


def _reverse(x: IntArray) -> IntArray:
    return x[:, ::-1]


def _copy(x: IntArray) -> IntArray:
    return x


def _shift(x: IntArray) -> IntArray:
    return np.roll(x, 1, axis=1)


def _sort(x: IntArray) -> IntArray:
    return np.sort(x, axis=1)


TASKS = {
    task.name: task
    for task in (
        SequenceTask("reversal", "Reversal", _reverse),
        SequenceTask("copy", "Copy", _copy),
        SequenceTask("shift", "Shift by one", _shift),
        SequenceTask("sort", "Sort", _sort),
    )
}


def parts_of(x: IntArray) -> npt.NDArray[np.str_]:
    """Return the part that each sequence `(samples, length)` belongs to."""
    mixed = np.full(len(x), x.shape[1], np.uint64)
    for column in x.T.astype(np.uint64):
        mixed = _mix(mixed * np.uint64(0x100000001B3) + column + np.uint64(1))
    number = mixed % np.uint64(PARTS)
    names = np.array([SHARES.get(k, TRAINING) for k in range(PARTS)])
    found: npt.NDArray[np.str_] = names[number]
    return found


def draw_sequences(
    rng: np.random.Generator, part: str, count: int, vocabulary: int, length: int
) -> IntArray:
    """Draw `count` random sequences of a part, `(count, length)`."""
    kept: list[IntArray] = []
    missing, fruitless = count, 0
    while missing > 0:
        drawn = rng.integers(vocabulary, size=(2 * missing + 8, length))
        found = drawn[parts_of(drawn) == part][:missing]
        fruitless = 0 if len(found) else fruitless + 1
        if fruitless == PATIENCE:
            raise SequenceError(
                f"of length {length} over {vocabulary} tokens there is no sequence for the "
                f"{part} part: use a longer one or more tokens."
            )
        kept.append(found)
        missing -= len(found)
    return np.concatenate(kept)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the result depends on every bit of `z`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
