"""Sums as tokens, the hold-out split of a seed, and batches for training that avoid it.

A row is `d d d d d d d d d d + d d d d d d d d d d = s s s s s s s s s s s <eos>`: both operands
with the most significant digit first, the sum with the least significant first. Its first 33
tokens are what the model reads, the last 12 are what it must say.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from adapters.torch_arrays import torch
from experiments.addition.sums import (
    DIGITS,
    EOS,
    EQUALS,
    LIMIT,
    PLUS,
    POSITIONS,
    PROMPT,
    SUM_DIGITS,
    TEST_SIZE,
    VALIDATION_SIZE,
)

Tokens = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]

_POWERS = 10 ** np.arange(SUM_DIGITS, dtype=np.int64)


@dataclass(frozen=True)
class Pairs:
    """Operands of sums, `(n,)` each."""

    a: Numbers
    b: Numbers

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: slice) -> "Pairs":
        return Pairs(self.a[rows], self.b[rows])


@dataclass(frozen=True)
class Holdout:
    """What training never sees."""

    validation: Pairs
    test: Pairs


def encode(pairs: Pairs) -> Tokens:
    """Return whole rows `(n, 34)`: prompt, reversed sum, eos."""
    rows = np.empty((len(pairs), POSITIONS + 1), np.int64)
    _write_rows(pairs.a, pairs.b, rows)
    return rows


def prompts(pairs: Pairs) -> Tokens:
    """Return what the model is asked, `(n, 22)`."""
    return np.ascontiguousarray(encode(pairs)[:, :PROMPT])


def decode(answers: Tokens) -> list[int | None]:
    """Return the numbers that answers `(n, 12)` spell; `None` for one that is no number."""
    whole = (answers[:, :SUM_DIGITS] < 10).all(axis=1) & (answers[:, -1] == EOS)
    values = answers[:, :SUM_DIGITS] @ _POWERS
    return [int(value) if good else None for value, good in zip(values, whole, strict=True)]


def right_digits(answers: Tokens, pairs: Pairs) -> npt.NDArray[np.bool_]:
    """Say which of the 11 digits of each answer are right, `(n, 11)`; all of a row is exact."""
    right: npt.NDArray[np.bool_] = answers[:, :SUM_DIGITS] == encode(pairs)[:, PROMPT:-1]
    return right


def holdout(seed: int) -> Holdout:
    """Draw the validation and test pairs of a seed, as the published code does.

    The stream is that of a torch generator, so that the test sets are the published ones.
    """
    generator = torch.Generator().manual_seed(seed)
    wanted = VALIDATION_SIZE + TEST_SIZE
    found: dict[tuple[int, int], None] = {}  # keeps the order in which pairs were first drawn
    while len(found) < wanted:
        count = max(2 * (wanted - len(found)), 4096)
        a, b = (
            torch.randint(LIMIT, (count,), generator=generator, dtype=torch.int64).tolist()
            for _ in range(2)
        )
        found |= dict.fromkeys(zip(a, b, strict=True))
    pairs = np.array(list(found)[:wanted], np.int64)
    both = Pairs(pairs[:, 0].copy(), pairs[:, 1].copy())
    return Holdout(both[:VALIDATION_SIZE], both[VALIDATION_SIZE:])


class Sampler:
    """Random batches of sums of at most so many digits, never one that is held out.

    The number of digits is uniform, and both operands are uniform below that power of ten. A share
    of the sums can be thinned, and another can carry on purpose: see `_thin` and `_carry`.
    """

    def __init__(self, seed: int, held_out: Holdout) -> None:
        self.rng = np.random.default_rng(np.random.SeedSequence([seed, 1337]))
        parts = (held_out.validation, held_out.test)
        self._reserved = np.sort(np.concatenate([_keys(part.a, part.b) for part in parts]))

    def draw(
        self, count: int, most_digits: int, carrying: float = 0.0, sparse: float = 0.0
    ) -> Pairs:
        """Return `count` new pairs, a share `carrying` of them with a long carry.

        With a share `sparse` above zero, every number of digits is the largest one, and the digits
        of that share are thinned instead: see `_thin`.
        """
        digits = self.rng.integers(1, most_digits + 1, count)
        if sparse > 0.0:
            digits[:] = most_digits
        limits = _POWERS[digits]
        a, b = self.rng.integers(0, limits), self.rng.integers(0, limits)
        thinned = round(sparse * count)
        if thinned > 0:
            a[-thinned:], b[-thinned:] = self._thin(a[-thinned:], b[-thinned:])
        chosen = round(carrying * count)
        if chosen > 0:
            a[:chosen], b[:chosen] = self._carry(digits[:chosen])
        while (taken := self.is_held_out(a, b)).any():
            again = limits[taken]
            a[taken], b[taken] = self.rng.integers(0, again), self.rng.integers(0, again)
        return Pairs(a, b)

    def _thin(self, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        """Return the operands with digits put to zero, by a probability drawn for each sum.

        A sum is then easier the more of its digits are zero, and no place is easier than another:
        where short numbers are drawn instead, the lowest places are never zero.
        """
        kept = self.rng.random((2, len(a), DIGITS)) < self.rng.random((len(a), 1))
        powers = _POWERS[:DIGITS]
        first, second = (x[:, None] // powers % 10 for x in (a, b))
        return (first * kept[0]) @ powers, (second * kept[1]) @ powers

    def _carry(self, digits: Numbers) -> tuple[Numbers, Numbers]:
        """Return operands of so many `digits (n,)` with a carry that runs on.

        It starts at a random place, where the digits sum to ten or more, and passes through a
        random number of places, where they sum to nine. Elsewhere the digits are random; in half
        of the sums those of the second operand are zero, so that nothing else carries.
        """
        rng, count = self.rng, len(digits)
        places = np.arange(DIGITS)
        start = rng.integers(0, digits)[:, None]
        end = start + rng.integers(0, digits - start[:, 0])[:, None]
        first, second = rng.integers(0, 10, (2, count, DIGITS))
        second *= rng.integers(0, 2, (count, 1))
        second = np.where((start < places) & (places <= end), 9 - first, second)
        first = np.where(places == start, np.maximum(first, 1), first)  # one can be made up to ten
        second = np.where(places == start, rng.integers(10 - np.maximum(first, 1), 10), second)
        inside = places < digits[:, None]
        powers = _POWERS[:DIGITS]
        return (first * inside) @ powers, (second * inside) @ powers

    def is_held_out(self, a: Numbers, b: Numbers) -> npt.NDArray[np.bool_]:
        """Say which pairs are held out.

        A key is unique but for a wrap at 2^64, so a free pair may be refused by accident (once in
        10^15 pairs); a held-out one never passes.
        """
        keys = _keys(a, b)
        place = np.minimum(np.searchsorted(self._reserved, keys), len(self._reserved) - 1)
        found: npt.NDArray[np.bool_] = self._reserved[place] == keys
        return found


@njit(cache=True)
def _write_rows(first: Numbers, second: Numbers, rows: Tokens) -> None:
    for n in range(len(rows)):
        row, a, b = rows[n], first[n], second[n]
        total = a + b
        row[DIGITS], row[PROMPT - 1], row[POSITIONS] = PLUS, EQUALS, EOS
        for place in range(DIGITS):
            row[DIGITS - 1 - place], row[PROMPT - 2 - place] = a % 10, b % 10
            a, b = a // 10, b // 10
        for place in range(SUM_DIGITS):
            row[PROMPT + place] = total % 10
            total //= 10


def _keys(a: Numbers, b: Numbers) -> npt.NDArray[np.uint64]:
    return a.astype(np.uint64) * np.uint64(LIMIT) + b.astype(np.uint64)
