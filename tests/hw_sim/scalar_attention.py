"""Attention and memory word by word, in plain loops that count what they do.

Written from the formulas of `docs/maths.md`; nothing is shared with the couplings but the numbers.
States, results in between, weights and traces live in a `Store` each: every access is an event, and
so is every product, exponential and quotient.
"""

from collections import Counter
from math import exp
from typing import Any

import numpy as np

Ledger = Counter[str]


class Store:
    """An array of words whose reads and writes are events."""

    def __init__(self, ledger: Ledger, kind: str, values: Any = None) -> None:
        self.ledger, self.kind, self.words = ledger, kind, {}
        for index, value in values or ():
            self.words[index] = float(value)

    def read(self, *index: int) -> float:
        self.ledger[f"{self.kind}_read"] += 1
        return self.words[index]

    def write(self, value: float, *index: int) -> None:
        self.ledger[f"{self.kind}_write"] += 1
        self.words[index] = value

    def add(self, value: float, *index: int) -> None:
        self.words.setdefault(index, 0.0)
        self.write(self.read(*index) + value, *index)


class ScalarAttention:
    """`Wq`, `Wk (heads, size, width)`, `R (heads, tokens, tokens)`, states `(tokens, width)`."""

    def __init__(self, query: Any, key: Any, bias: Any, sharpness: float, allowed: Any) -> None:
        self.ledger, self.sharpness, self.allowed = Ledger(), sharpness, allowed
        self.query, self.key, self.bias = (
            Store(self.ledger, "weight", _entries(block)) for block in (query, key, bias)
        )
        self.heads, self.size, self.width = query.shape
        self.tokens = range(len(allowed))

    def drive(self, s: Any) -> dict[tuple[int, ...], float]:
        m, n, _ = self._messages(Store(self.ledger, "state", _entries(s)))
        total: dict[tuple[int, ...], float] = {}
        for matrix, message in ((self.query, m), (self.key, n)):
            for i in self.tokens:
                for h in range(self.heads):
                    for d in range(self.size):
                        word = message.read(i, h, d)  # once, for all that listen
                        for c in range(self.width):
                            product = self._product(matrix.read(h, d, c), word)
                            total[i, c] = total.get((i, c), 0.0) + product
        return total

    def correlate(self, s: Any) -> tuple[Store, Store, Store]:
        states = Store(self.ledger, "state", _entries(s))
        m, n, p = self._messages(states)
        slopes = tuple(Store(self.ledger, "trace") for _ in range(3))
        for slope, message in zip(slopes, (m, n), strict=False):
            for i in self.tokens:
                seen = [states.read(i, c) for c in range(self.width)]
                for h in range(self.heads):
                    for d in range(self.size):
                        word = message.read(i, h, d)
                        for c in range(self.width):
                            slope.add(self._product(word, seen[c]), h, d, c)
        for index in list(p.words):
            slopes[2].add(p.read(*index) / self.sharpness, *index)  # a constant of the design
        return slopes  # type: ignore[return-value]

    def _messages(self, states: Store) -> tuple[Store, Store, Store]:
        q, k = self._projected(self.query, states), self._projected(self.key, states)
        p = self._shares(q, k)
        return self._gathered(p, k, 1), self._gathered(p, q, 2), p

    def _projected(self, matrix: Store, states: Store) -> Store:
        found = Store(self.ledger, "state")
        for i in self.tokens:
            seen = [states.read(i, c) for c in range(self.width)]
            for h in range(self.heads):
                for d in range(self.size):
                    total = 0.0
                    for c in range(self.width):
                        total += self._product(matrix.read(h, d, c), seen[c])
                    found.write(total, i, h, d)
        return found

    def _shares(self, q: Store, k: Store) -> Store:
        p = Store(self.ledger, "state")
        for h in range(self.heads):
            for i in self.tokens:
                asked = [q.read(i, h, d) for d in range(self.size)]
                heard = [j for j in self.tokens if self.allowed[i][j]]
                for j in heard:
                    score = self.bias.read(h, i, j)  # where the sum begins
                    for d in range(self.size):
                        product = self._product(asked[d], k.read(j, h, d))
                        score += self.sharpness * product  # folded into Wq on a chip
                    self.ledger["activation"] += 1
                    p.write(exp(score), h, i, j)
                norm = sum(p.words[h, i, j] for j in heard)  # summed as they are written
                for j in heard:
                    self.ledger["divide"] += 1
                    p.write(p.read(h, i, j) / norm, h, i, j)
        return p

    def _gathered(self, p: Store, words: Store, end: int) -> Store:
        """`m_i = sum_j P_ij k_j`, or `n_j = sum_i P_ij q_i`."""
        found = Store(self.ledger, "state")
        for h in range(self.heads):
            for here in self.tokens:
                totals = [0.0] * self.size
                for there in self.tokens:
                    i, j = (here, there) if end == 1 else (there, here)
                    if self.allowed[i][j]:
                        share = p.read(h, i, j)
                        for d in range(self.size):
                            totals[d] += self._product(share, words.read(there, h, d))
                for d in range(self.size):
                    found.write(totals[d], here, h, d)
        return found

    def _product(self, a: float, b: float) -> float:
        self.ledger["mac"] += 1
        return a * b


class ScalarMemory:
    """`M (memories, width)` recalled by tokens `(tokens, width)`."""

    def __init__(self, memory: Any, sharpness: float) -> None:
        self.ledger, self.sharpness = Ledger(), sharpness
        self.memory = Store(self.ledger, "weight", _entries(memory))
        self.memories, self.width = map(range, memory.shape)

    def drive(self, s: Any) -> dict[tuple[int, ...], float]:
        states, total = Store(self.ledger, "state", _entries(s)), {}
        shares = self._shares(states, len(s))
        for i in range(len(s)):
            for m in self.memories:
                share = shares.read(i, m)
                for c in self.width:
                    self.ledger["mac"] += 1
                    total[i, c] = total.get((i, c), 0.0) + share * self.memory.read(m, c)
        return total

    def correlate(self, s: Any) -> Store:
        states, slope = Store(self.ledger, "state", _entries(s)), Store(self.ledger, "trace")
        shares = self._shares(states, len(s))
        for i in range(len(s)):
            seen = [states.read(i, c) for c in self.width]
            for m in self.memories:
                share = shares.read(i, m)
                for c in self.width:
                    self.ledger["mac"] += 1
                    slope.add(share * seen[c], m, c)
        return slope

    def _shares(self, states: Store, tokens: int) -> Store:
        shares = Store(self.ledger, "state")
        for i in range(tokens):
            seen = [states.read(i, c) for c in self.width]
            for m in self.memories:
                score = 0.0
                for c in self.width:
                    self.ledger["mac"] += 1
                    score += self.memory.read(m, c) * seen[c]
                self.ledger["activation"] += 1
                shares.write(exp(self.sharpness * score), i, m)
            norm = sum(shares.words[i, m] for m in self.memories)
            for m in self.memories:
                self.ledger["divide"] += 1
                shares.write(shares.read(i, m) / norm, i, m)
        return shares


def _entries(values: Any) -> list[tuple[tuple[int, ...], float]]:
    return list(np.ndenumerate(np.asarray(values)))
