"""Pooling: four pixels of a convolution become one, their mean or the largest of them.

A pool is 2 x 2 pixels. A last row or column that fills no pool is dropped: it sends nothing, and
nothing is sent to it. Of equal pixels the first in reading order is the largest.
"""

from collections.abc import Iterator
from typing import Literal

from engine.arrays import Array, namespace
from engine.errors import EngineError

Pooling = Literal["none", "mean", "max"]
SIDE = 2
"""Pixels along a side of a pool."""
KINDS = ("none", "mean", "max")


def check_pooling(what: str, pooling: str) -> None:
    """Refuse a kind of pooling that there is not."""
    if pooling not in KINDS:
        known = ", ".join(KINDS)
        raise EngineError(f"{what} has unknown pooling '{pooling}'; known: {known}.")


def pooled_size(pooling: Pooling, size: int) -> int:
    """Return how many pixels a side of so many has after pooling."""
    return size if pooling == "none" else size // SIDE


def pooled(pooling: Pooling, z: Array) -> Array:
    """Return the pools of `z (samples, height, width, channels)`."""
    if pooling == "none":
        return z
    parts = [z[:, rows, columns] for rows, columns in _corners(z)]
    if pooling == "mean":
        return sum(parts) / SIDE**2
    return sum(won * part for won, part in zip(_winners(z), parts, strict=True))


def unpooled(pooling: Pooling, z: Array, b: Array) -> Array:
    """Return what the pixels of `z` hear from their pools: `d(b . pooled(z)) / dz`."""
    if pooling == "none":
        return b
    heard = namespace(z).zeros(z.shape, dtype=z.dtype, device=z.device)
    shares = [1 / SIDE**2] * SIDE**2 if pooling == "mean" else _winners(z)
    for share, (rows, columns) in zip(shares, _corners(z), strict=True):
        heard[:, rows, columns] += share * b
    return heard


def _corners(z: Array) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of the first pixel of every pool, of the second, and so on."""
    height, width = (SIDE * (size // SIDE) for size in z.shape[1:3])
    for i in range(SIDE):
        for j in range(SIDE):
            yield slice(i, height, SIDE), slice(j, width, SIDE)


def _winners(z: Array) -> list[Array]:
    """Tell for each corner in which pools it is the largest; each pool has one such."""
    parts = [z[:, rows, columns] for rows, columns in _corners(z)]
    best, winners = parts[0], [parts[0] == parts[0]]
    for part in parts[1:]:
        above = part > best
        winners = [*(won & ~above for won in winners), above]
        best = namespace(z).where(above, part, best)
    return winners
