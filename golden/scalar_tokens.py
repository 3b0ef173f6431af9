"""The formulas of tokens for one sample, as loops over scalars; see `golden.scalar`.

A layer of tokens is a flat list, one token after the other, as is the block of an attention.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from engine.couplings.attention import Attention, Hopfield
from engine.couplings.tokens import Embedding

Vector: TypeAlias = list[float]
Matrix: TypeAlias = Any


def send_embedding(w: Matrix, x: Vector) -> Vector:
    """The row of each token, one after the other."""
    return [value for token in x for value in w[int(token)]]


def correlate_embedding(coupling: Embedding, x: Vector, s: Vector) -> Vector:
    """What each row of the table has seen at the positions of its token."""
    width = len(s) // len(x)
    rows = [[0.0] * width for _ in range(coupling.vocabulary)]
    for place, token in enumerate(x):
        for c in range(width):
            rows[int(token)][c] += s[place * width + c]
    return [value for row in rows for value in row]


def send_attention(coupling: Attention, w: Vector, s: Vector, count: int) -> Vector:
    """`sum_h Wq' m_i + Wk' n_i`, among `count` tokens."""
    tokens = _cut(s, count)
    width = len(tokens[0])
    drive = [[0.0] * width for _ in tokens]
    for head in _heads(coupling, w, tokens):
        for i in range(len(tokens)):
            for a in range(coupling.head_size):
                for c in range(width):
                    drive[i][c] += head.m[i][a] * head.query[a][c]
                    drive[i][c] += head.n[i][a] * head.key[a][c]
    return [value for row in drive for value in row]


def correlate_attention(coupling: Attention, w: Vector, s: Vector, count: int) -> Vector:
    """`m g'`, `n g'` and `P / sharpness`, in the order in which the block lies in memory."""
    tokens = _cut(s, count)
    heads = list(_heads(coupling, w, tokens))
    query = [_outer(head.m, tokens) for head in heads]
    key = [_outer(head.n, tokens) for head in heads]
    bias = [p / coupling.sharpness for head in heads for row in head.p for p in row]
    return [value for block in query + key for value in block] + bias


def send_memories(coupling: Hopfield, w: Matrix, s: Vector, count: int) -> Vector:
    """`sum_m p_im M_m` to each of `count` tokens."""
    drive = []
    for g in _cut(s, count):
        shares = _recall(coupling, w, g)
        drive += [sum(p * row[c] for p, row in zip(shares, w, strict=True)) for c in range(len(g))]
    return drive


def correlate_memories(coupling: Hopfield, w: Matrix, s: Vector, count: int) -> Vector:
    """`p' g`, summed over `count` tokens."""
    tokens = _cut(s, count)
    return _outer([_recall(coupling, w, g) for g in tokens], tokens)


class _Head:
    """One head on one sample: its matrices, what it attends to, and what it sends."""

    def __init__(self, coupling: Attention, query: Matrix, key: Matrix, bias: Matrix) -> None:
        self.query, self.key, self._bias = query, key, bias
        self._coupling = coupling

    def attend(self, tokens: Sequence[Vector]) -> None:
        """Compute `P`, `m` and `n`."""
        q = [[_dot(row, g) for row in self.query] for g in tokens]
        k = [[_dot(row, g) for row in self.key] for g in tokens]
        count, sizes = range(len(tokens)), range(self._coupling.head_size)
        self.p = [self._row(i, q, k) for i in count]
        self.m = [[sum(self.p[i][j] * k[j][a] for j in count) for a in sizes] for i in count]
        self.n = [[sum(self.p[i][j] * q[i][a] for i in count) for a in sizes] for j in count]

    def _row(self, i: int, q: list[Vector], k: list[Vector]) -> Vector:
        """What token `i` attends to; nothing if it may see no token."""
        seen = [j for j in range(len(k)) if _may_see(self._coupling, i, j)]
        scores = [self._coupling.sharpness * _dot(q[i], k[j]) + self._bias[i][j] for j in seen]
        shares = dict(zip(seen, _softmax(scores), strict=True))
        return [shares.get(j, 0.0) for j in range(len(k))]


def _heads(coupling: Attention, w: Vector, tokens: Sequence[Vector]) -> Iterator[_Head]:
    """Take the flat block apart, head by head."""
    rows, width, count = coupling.head_size, len(tokens[0]), len(tokens)
    matrix = rows * width
    for h in range(coupling.heads):
        query = w[h * matrix : (h + 1) * matrix]
        key = w[(coupling.heads + h) * matrix : (coupling.heads + h + 1) * matrix]
        start = 2 * coupling.heads * matrix + h * count * count
        head = _Head(
            coupling, _cut(query, rows), _cut(key, rows), _cut(w[start : start + count**2], count)
        )
        head.attend(tokens)
        yield head


def _may_see(coupling: Attention, i: int, j: int) -> bool:
    if i == j:
        return coupling.sees_itself
    return j < i or not coupling.causal


def _recall(coupling: Hopfield, w: Matrix, g: Vector) -> Vector:
    return _softmax([coupling.sharpness * _dot(row, g) for row in w])


def _softmax(scores: Vector) -> Vector:
    largest = max(scores, default=0.0)
    odds = [math.exp(score - largest) for score in scores]
    return [part / sum(odds) for part in odds]


def _outer(left: Sequence[Vector], right: Sequence[Vector]) -> Vector:
    """`sum_i left_i right_i'`, row by row."""
    return [
        sum(a[r] * b[c] for a, b in zip(left, right, strict=True))
        for r in range(len(left[0]))
        for c in range(len(right[0]))
    ]


def _cut(values: Vector, count: int) -> list[Vector]:
    """Cut a flat list into `count` equal parts."""
    size = len(values) // count
    return [values[k * size : (k + 1) * size] for k in range(count)]


def _dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
