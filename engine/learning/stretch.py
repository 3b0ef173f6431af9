"""The direction that a link stretches most, found from a vector that is kept between steps.

A link stretches a unit vector `v` of its source to `|link v|`; the largest of all is its norm. One
that is near the best is turned towards it by sending it there and back a few times.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from engine.arrays import Array, namespace
from engine.compiled.windows import both_ways
from engine.couplings.link import Link

TOGETHER = 5
"""Steps of a power iteration that are searched together for the best direction."""
LEADING, MIXED = 10, 1
"""How often eigenvalues are raised to the fourth power, so that one direction is left, or all that
are within some percent of it."""
TINY = float(np.finfo(np.float32).tiny)
ROUNDS = 2
"""Directions of a link with windows that a step lowers one after the other, before it scales."""


def lower(link: Link, block: Array, limit: float, vector: Array, iterations: int) -> Any:
    """Lower the stretch of the leading directions to the limit; return what is left of the norm.

    With unit vectors `v` of the source and `u` of the target, the block `W` stretches `v` to `u` by
    `sum_p v[gather[p]]' W u[p]`, which is linear in `W`: its slope, `sum_p v[gather[p]] u[p]'`, is
    the shortest way to change it. Scaling would shrink all directions for the sake of one.
    """
    for _ in range(ROUNDS):
        _take_back(link, block, limit, find_direction(link, block, vector, iterations))
    return find_direction(link, block, vector, iterations).stretch


def _take_back(link: Link, block: Array, limit: float, leading: "Direction") -> None:
    """Change the block in place, the least that stretches a direction to the limit at most."""
    xp, stretch = namespace(block), leading.stretch
    reads, _ = _reading_tables(link, xp, block.device)
    reached = (leading.image / stretch).reshape(-1, link.fan_out)
    slope = _picked(xp, leading.unit, reads).T @ reached
    change = (stretch - limit) / (slope * slope).sum() * slope
    lowered = block - change.reshape(block.shape)
    block[...] = xp.where((stretch > limit) & xp.isfinite(stretch), lowered, block)


class Direction(NamedTuple):
    """A direction of the source, what a link makes of it, and how long that is."""

    unit: Array
    image: Array
    stretch: Any


def find_direction(link: Link, block: Array, vector: Array, iterations: int) -> Direction:
    """Turn the vector of a link; return the direction that is stretched most.

    It is the best of the space of the vector's images under five steps. Several directions may be
    at the limit, and a vector that is one of them leads to no other: what is kept is a mixture of
    all that are stretched nearly as much.
    """
    xp = namespace(block)
    send, send_back = _ways(link, block)
    start = xp.asarray(vector, dtype=block.dtype) if link.whole else vector
    for done in range(0, iterations, TOGETHER):
        basis, images = _krylov(xp, send, send_back, start, min(TOGETHER, iterations - done))
        gram = images @ images.T
        best = _weights(xp, gram, LEADING)
        image = best @ images
        mixture = _weights(xp, gram, MIXED) @ basis
        stretch = xp.linalg.norm(image)
        start = xp.where(stretch > 0.0, mixture, start)
    vector[...] = start
    return Direction(best @ basis, image, stretch)


def _krylov(xp: Any, send: Any, send_back: Any, vector: Array, steps: int) -> tuple[Array, Array]:
    """Return an orthonormal basis of what `steps` there and back reach, and what it sends on."""
    unit = vector / _length(xp, vector)
    first = send(unit).reshape(-1)
    basis, images = (xp.stack([begin] * (steps + 1)) for begin in (unit, first))
    for k in range(1, steps + 1):
        known, last = basis[:k], images[k - 1]
        unit = send_back(last / _length(xp, last))
        for _ in range(2):  # once is not enough, where little that is new is left
            unit = unit - (known @ unit) @ known
            unit = unit / _length(xp, unit)
        basis[k] = unit
        images[k] = send(unit).reshape(-1)
    return basis, images


def _weights(xp: Any, gram: Array, powers: int) -> Array:
    """Return weights of unit length that favour directions by a power of their eigenvalues.

    By squaring a small positive matrix, so that no number is read from it: after many squarings
    only the direction of the largest eigenvalue is left.
    """
    for _ in range(powers):
        gram = gram / (gram.trace() + TINY)
        gram = gram @ gram
        gram = gram @ gram
    weights = gram.sum(-1) + gram[0]  # any of its columns; not one that happens to be zero
    return weights / _length(xp, weights)


def _length(xp: Any, vector: Array) -> Any:
    """Return the norm of a vector; of one that is zero, the least number above it."""
    return xp.linalg.norm(vector) + TINY


def _ways(link: Link, block: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return what a link sends on of a vector `(size,)`, and what it sends back, as functions."""
    matrix, xp = block.reshape(link.fan_in, link.fan_out), namespace(block)
    if link.whole:
        return (lambda v: v @ matrix), (lambda u: matrix @ u)
    if isinstance(block, np.ndarray):
        return both_ways(link, block)
    reads, readers = _reading_tables(link, xp, block.device)

    def send(v: Array) -> Array:
        return _picked(xp, v, reads) @ matrix

    def send_back(u: Array) -> Array:
        sent = (u.reshape(-1, link.fan_out) @ matrix.T).reshape(-1)
        return _picked(xp, sent, readers).sum(-1)

    return send, send_back


def _picked(xp: Any, values: Array, places: Array) -> Array:
    """Return the values at places of which the one after the last is zero."""
    return xp.concatenate([values, xp.zeros_like(values[:1])])[places]


@lru_cache(maxsize=64)
def _reading_tables(link: Link, xp: Any, device: Any) -> tuple[Array, Array]:
    """Return on a device what each place reads, and at which places of all each unit is read.

    Both name the place after the last one where there is nothing.
    """
    flat = link.gather.ravel()
    (used,) = np.nonzero(flat >= 0)
    used = used[np.argsort(flat[used], kind="stable")]
    units, times = flat[used], np.bincount(flat[used], minlength=link.size)
    turn = np.arange(len(used)) - (np.cumsum(times) - times)[units]
    readers = np.full((link.size, times.max(initial=1)), flat.size)
    readers[units, turn] = used
    reads = np.where(link.gather < 0, link.size, link.gather)
    return xp.asarray(reads, device=device), xp.asarray(readers, device=device)
