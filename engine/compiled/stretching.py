"""The direction that a matrix stretches most, found in one call (see `engine.learning.stretch`)."""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# mypy: disable-error-code="call-arg"

import math
from functools import partial

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled, inner
from engine.compiled.parts import copy, flat, part_of_row

TINY = float(np.finfo(np.float32).tiny)


def turn_towards(
    matrix: FloatArray, vector: FloatArray, steps: int, leading: int, mixed: int
) -> float:
    """Turn `vector (rows,)` of a `matrix` by so many steps of a power iteration; see `turn`."""
    rows, columns = matrix.shape
    basis, images = (np.empty((steps + 1, size), matrix.dtype) for size in (rows, columns))
    basis[0] = vector
    powers = np.empty((3, steps + 1, steps + 1))
    stretch: float = turn(matrix, basis, images, powers, leading, mixed)
    if stretch > 0.0:
        vector[...] = basis[0]
    return stretch


@partial(compiled, allocates=True)  # no array, but what returns one, as a product does
def turn(matrix, basis, images, powers, leading, mixed):
    """Return how much the best direction of the space is stretched that a vector reaches.

    The vector is the first of the `basis`, and becomes a mixture of all that are stretched nearly
    as much as the best. `leading` and `mixed` say how often eigenvalues are raised to the fourth
    power for one and for the other.
    """
    size, reach, count = basis.shape[1], images.shape[1], len(basis)
    gram = powers[0]
    _shorten(part_of_row(basis, 0, 0, size))
    for k in range(count):
        unit, image = part_of_row(basis, k, 0, size), part_of_row(images, k, 0, reach)
        if k > 0:
            copy(part_of_row(images, k - 1, 0, reach), image)
            _shorten(image)
            np.dot(matrix, image, unit)
            for _ in range(2):  # once is not enough, where little that is new is left
                for i in range(k):
                    known = part_of_row(basis, i, 0, size)
                    _add(known, -np.dot(known, unit), unit)
                _shorten(unit)
        np.dot(unit, matrix, image)
        for i in range(k + 1):
            gram[i, k] = np.dot(part_of_row(images, i, 0, reach), image)
            gram[k, i] = gram[i, k]
    weights = powers[2, 0]
    _weigh(powers, leading)
    stretched = 0.0
    for i in range(count):
        for k in range(count):
            stretched += weights[i] * gram[i, k] * weights[k]
    _weigh(powers, mixed)
    begin = part_of_row(basis, 0, 0, size)
    for j in range(size):
        begin[j] *= weights[0]
    for i in range(1, count):
        _add(part_of_row(basis, i, 0, size), weights[i], begin)
    return math.sqrt(stretched)


@inner
def _shorten(vector):
    """Divide a vector by its length; one that is zero stays so."""
    length = math.sqrt(np.dot(vector, vector)) + TINY
    for j in range(vector.size):
        vector[j] /= length


@inner
def _add(vector, factor, into):
    """Add a multiple of a vector to another."""
    for j in range(into.size):
        into[j] += factor * vector[j]


@inner
def _weigh(powers, times):
    """Write weights of unit length, which favour directions by a power of their eigenvalues.

    They go to the first row of the last of the `powers`, by squaring the matrix that is the first:
    after many times only the direction of its largest eigenvalue is left.
    """
    count = len(powers[0])
    copy(flat(powers[0]), flat(powers[1]))
    for _ in range(times):
        trace = TINY
        for i in range(count):
            trace += powers[1, i, i]
        for i in range(count):
            for k in range(count):
                powers[1, i, k] /= trace
        for _ in range(2):
            for i in range(count):
                for k in range(count):
                    total = 0.0
                    for j in range(count):
                        total += powers[1, i, j] * powers[1, j, k]
                    powers[2, i, k] = total
            copy(flat(powers[2]), flat(powers[1]))
    length = 0.0
    for i in range(count):
        total = powers[1, 0, i]  # any of its columns; not one that happens to be zero
        for k in range(count):
            total += powers[1, i, k]
        powers[2, 0, i] = total
        length += total * total
    length = math.sqrt(length) + TINY
    for i in range(count):
        powers[2, 0, i] /= length
