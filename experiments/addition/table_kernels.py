"""What depends on a token and its position alone: embedding, norm, queries, keys and values.

Each is a table `(position, feature, token)`, and so is its gradient: all tokens of a position go
side by side in the innermost loop.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from engine.arrays import FloatArray
from experiments.addition.sums import POSITIONS, VOCABULARY

_compiled = njit(cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")


class TableSources(NamedTuple):
    """What the tables are made from, or the gradients by it.

    `d` is the width of the model, `c` that of queries and keys, `e` that of values.
    """

    tokens: FloatArray
    """`(token, d)`."""
    positions: FloatArray
    """`(position, d)`."""
    norm: FloatArray
    """Gain and shift `(2, d)`."""
    to_query: FloatArray
    """`(d, c)`."""
    to_key: FloatArray
    """`(d, c)`."""
    to_value: FloatArray
    """`(d, e)`."""


class TokenTables(NamedTuple):
    """Values by token and position, or the gradients by them."""

    residual: FloatArray
    """`(position, d, token)`."""
    query: FloatArray
    """`(position, c, token)`."""
    key: FloatArray
    """`(position, c, token)`."""
    value: FloatArray
    """`(position, e, token)`."""


class Normed(NamedTuple):
    """What the way back needs again."""

    unit: FloatArray
    """The embedding at mean square one `(position, d, token)`."""
    out: FloatArray
    """With gain and shift `(position, d, token)`."""
    scale: FloatArray
    """`(position, token)`: what made it so."""
    slope: FloatArray
    """Working memory of a position `(d, token)`."""


def gradients(embedding: TableSources) -> TableSources:
    """Allocate gradients of zero."""
    return TableSources(*(np.zeros_like(array) for array in embedding))


def tables(embedding: TableSources) -> TokenTables:
    """Allocate tables."""
    d, c = embedding.to_query.shape
    widths = d, c, c, embedding.to_value.shape[1]
    dtype = embedding.tokens.dtype
    return TokenTables(*(np.zeros((POSITIONS, width, VOCABULARY), dtype) for width in widths))


def normed(embedding: TableSources) -> Normed:
    """Allocate what goes between."""
    width, dtype = embedding.tokens.shape[1], embedding.tokens.dtype
    whole = POSITIONS, width, VOCABULARY
    shapes = whole, whole, (POSITIONS, VOCABULARY), whole[1:]
    return Normed(*(np.zeros(shape, dtype) for shape in shapes))


@_compiled
def fill(embedding, centred, eps, into, between):
    """Compute the tables; a LayerNorm is `centred`, an RMSNorm is not."""
    width = embedding.tokens.shape[1]
    for p in range(POSITIONS):
        x, unit, out, scale = into.residual[p], between.unit[p], between.out[p], between.scale[p]
        for k in range(width):
            for t in range(VOCABULARY):
                x[k, t] = embedding.tokens[t, k] + embedding.positions[p, k]
        _normalise(x, centred, eps, unit, scale)
        for k in range(width):
            gain, shift = embedding.norm[0, k], embedding.norm[1, k]
            for t in range(VOCABULARY):
                out[k, t] = gain * unit[k, t] + shift
        _map(embedding.to_query, out, into.query[p])
        _map(embedding.to_key, out, into.key[p])
        _map(embedding.to_value, out, into.value[p])


@_compiled
def pull_back(embedding, centred, by, between, grads):
    """Add the gradients by the embedding, from those `by` the tables."""
    width = embedding.tokens.shape[1]
    slope = between.slope
    for p in range(POSITIONS):
        out, unit, scale = between.out[p], between.unit[p], between.scale[p]
        slope[:] = 0
        _map_back(embedding.to_query, out, by.query[p], slope, grads.to_query)
        _map_back(embedding.to_key, out, by.key[p], slope, grads.to_key)
        _map_back(embedding.to_value, out, by.value[p], slope, grads.to_value)
        for k in range(width):
            gain = embedding.norm[0, k]
            for t in range(VOCABULARY):
                grads.norm[0, k] += slope[k, t] * unit[k, t]
                grads.norm[1, k] += slope[k, t]
                slope[k, t] *= gain
        _normalise_back(unit, scale, centred, slope)
        for k in range(width):
            for t in range(VOCABULARY):
                change = by.residual[p, k, t] + slope[k, t]
                grads.tokens[t, k] += change
                grads.positions[p, k] += change


@_compiled
def _normalise(x, centred, eps, unit, scale):
    width = x.shape[0]
    for t in range(VOCABULARY):
        mean = scale[t] * 0
        if centred:
            for k in range(width):
                mean += x[k, t]
            mean /= width
        square = scale[t] * 0
        for k in range(width):
            unit[k, t] = x[k, t] - mean
            square += unit[k, t] * unit[k, t]
        scale[t] = 1 / np.sqrt(square / width + eps)
        for k in range(width):
            unit[k, t] *= scale[t]


@_compiled
def _normalise_back(unit, scale, centred, slope):
    """Turn the gradient by `unit` into that by its input."""
    width = unit.shape[0]
    for t in range(VOCABULARY):
        mean = along = scale[t] * 0
        for k in range(width):
            mean += slope[k, t]
            along += slope[k, t] * unit[k, t]
        mean = mean / width if centred else mean * 0
        along /= width
        for k in range(width):
            slope[k, t] = scale[t] * (slope[k, t] - mean - unit[k, t] * along)


@_compiled
def _map(matrix, x, out):
    """`out = matrix' x`, token by token."""
    for j in range(out.shape[0]):
        for t in range(VOCABULARY):
            out[j, t] = matrix[0, j] * x[0, t]
        for k in range(1, x.shape[0]):
            for t in range(VOCABULARY):
                out[j, t] += matrix[k, j] * x[k, t]


@_compiled
def _map_back(matrix, x, by_out, by_x, by_matrix):
    """Add the gradients by the input and by the matrix."""
    for k in range(x.shape[0]):
        for j in range(by_out.shape[0]):
            total = by_matrix[k, j]
            for t in range(VOCABULARY):
                total += x[k, t] * by_out[j, t]
                by_x[k, t] += matrix[k, j] * by_out[j, t]
            by_matrix[k, j] = total
