"""The kernels of attention.

Weights hold the queries of all heads, then their keys, `(features, width)`. What is projected from
the states is laid out by feature, `(features, tokens, rows)`: loops over rows are the inner ones,
so that attention runs on as many samples at once as a vector register holds.
"""

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled
from engine.compiled.functions import softmax_columns
from engine.compiled.products import DEPTH, TILE_BYTES, TILE_ROWS, add_product, pack, packed_size
from engine.couplings.attention import FORBIDDEN, Attention
from engine.couplings.link import Shapes

BESIDE = 16
"""Rows that are turned side by side: each is a stream of its own."""


def sizes(attention: Attention, shapes: Shapes) -> tuple[int, ...]:
    """Tokens, width, heads and the size of a head."""
    return (*shapes[attention.layer], attention.heads, attention.head_size)


def constants(attention: Attention, shapes: Shapes, w: FloatArray) -> FloatArray:
    """Weights, the same turned, the bias with what is forbidden, who sees any, the sharpness."""
    tokens, width = shapes[attention.layer]
    heads = attention.split(w, tokens)
    weights = w[: w.size - heads.bias.size].reshape(-1, width)
    allowed = attention.allowed(tokens)
    bias = heads.bias + FORBIDDEN * (1 - allowed)
    parts = (weights, weights.T, bias, allowed.max(-1), np.array(attention.sharpness))
    flat: FloatArray = np.concatenate([part.ravel() for part in parts]).astype(w.dtype)
    return flat


def macs(sizes: tuple[int, ...]) -> int:
    """Multiply-adds of one row: projections there and back, scores, and what they send."""
    tokens, width, heads, head_size = sizes
    return 2 * heads * head_size * tokens * (2 * width + 2 * tokens)


def scratch(sizes: tuple[int, ...], rows: int, itemsize: int) -> int:
    """Numbers that either kernel needs for so many rows."""
    tokens, width, heads, head_size = sizes
    features, columns, edge = (
        2 * heads * head_size,
        tokens * rows,
        TILE_ROWS * TILE_BYTES // itemsize,
    )
    packed = packed_size((max(width, features), columns), itemsize)
    packed = max(packed, packed_size((columns, width), itemsize))
    projected, attended = 2 * features * columns, heads * tokens**2
    return packed + edge + attended + projected + (width + tokens) * columns + rows


@compiled
def pack_states(state, rows, tokens, width, packed):
    """Lay states `(rows, tokens, width)` out as `pack` would their turned matrix.

    Its columns are those of the tokens, each with all rows: `(width, tokens * rows)`.
    """
    size, columns, lanes = tokens * width, tokens * rows, TILE_BYTES // state.itemsize
    padded = -(-columns // lanes) * lanes
    for top in range(0, width, DEPTH):
        depth = min(DEPTH, width - top)
        for c in range(padded):
            tile = c // lanes * lanes
            place = top * padded + tile * depth + c - tile
            if c >= columns:
                for w in range(depth):
                    packed[place + w * lanes] = 0
                continue
            token, row = divmod(c, rows)
            from_ = row * size + token * width + top
            for w in range(depth):
                packed[place + w * lanes] = state[from_ + w]


@compiled
def _score(odds, query, key):
    """Write `q_i . k_j` of `query` and `key (head_size, tokens, rows)` to `odds[i, j]`.

    Four features at a time, so that a score is read and written a quarter as often.
    """
    size, tokens, rows = query.shape
    whole = size - size % 4
    odds[:] = 0
    for i in range(tokens):
        for j in range(tokens):
            for a in range(0, whole, 4):
                for b in range(rows):
                    odds[i, j, b] += (
                        query[a, i, b] * key[a, j, b]
                        + query[a + 1, i, b] * key[a + 1, j, b]
                        + query[a + 2, i, b] * key[a + 2, j, b]
                        + query[a + 3, i, b] * key[a + 3, j, b]
                    )
            for a in range(whole, size):
                for b in range(rows):
                    odds[i, j, b] += query[a, i, b] * key[a, j, b]


@compiled
def _send(odds, query, key, to_query, to_key):
    """Add `sum_j P_ij k_j` to `to_query[:, i]` and `sum_i P_ij q_i` to `to_key[:, j]`."""
    size, tokens, rows = query.shape
    whole = tokens - tokens % 4
    for a in range(size):
        for i in range(tokens):
            for j in range(0, whole, 4):
                for b in range(rows):
                    to_query[a, i, b] += (
                        odds[i, j, b] * key[a, j, b]
                        + odds[i, j + 1, b] * key[a, j + 1, b]
                        + odds[i, j + 2, b] * key[a, j + 2, b]
                        + odds[i, j + 3, b] * key[a, j + 3, b]
                    )
                for b in range(rows):
                    to_key[a, i, b] += (
                        odds[j, i, b] * query[a, j, b]
                        + odds[j + 1, i, b] * query[a, j + 1, b]
                        + odds[j + 2, i, b] * query[a, j + 2, b]
                        + odds[j + 3, i, b] * query[a, j + 3, b]
                    )
            for j in range(whole, tokens):
                for b in range(rows):
                    to_query[a, i, b] += odds[i, j, b] * key[a, j, b]
                    to_key[a, i, b] += odds[j, i, b] * query[a, j, b]


@compiled
def _weigh(odds, bias, seeing, sharpness, peak):
    """Turn the scores of a head in `odds` into what each token attends to, `P`."""
    tokens, _, rows = odds.shape
    for i in range(tokens):
        for j in range(tokens):
            for b in range(rows):
                odds[i, j, b] = sharpness * odds[i, j, b] + bias[i, j]
        softmax_columns(odds[i], peak)
        if seeing[i] == 0:
            odds[i] = 0


@compiled
def _attend(state, rows, sizes, constants, scratch, attended):
    """Write what arrives at queries and keys, `m` and `n (features, tokens * rows)`, to `scratch`.

    Adds `P`, summed over the rows, to `attended (heads, tokens, tokens)`, unless that is empty.
    Returns what is written, and the rest of `scratch`.
    """
    tokens, width, heads, head_size = sizes[0], sizes[1], sizes[2], sizes[3]
    features, columns, lanes = 2 * heads * head_size, tokens * rows, TILE_BYTES // state.itemsize
    count = features * columns
    arrived, projected, rest = scratch[:count], scratch[count : 2 * count], scratch[2 * count :]
    odds, rest = rest[: tokens * columns], rest[tokens * columns :]
    peak, rest = rest[:rows], rest[rows:]
    edge = rest[: TILE_ROWS * lanes].reshape((TILE_ROWS, lanes))
    packed = rest[TILE_ROWS * lanes :]
    pack_states(state, rows, tokens, width, packed)
    scratch[: 2 * count] = 0
    add_product(constants, features, width, packed, projected, columns, columns, edge)
    first = 2 * features * width
    bias = constants[first : first + heads * tokens * tokens].reshape((heads, tokens, tokens))
    seeing = constants[first + bias.size : first + bias.size + tokens]
    sharpness = constants[first + bias.size + tokens]
    shape = (2, heads, head_size, tokens, rows)
    ends, messages = projected.reshape(shape), arrived.reshape(shape)
    scores = odds.reshape((tokens, tokens, rows))
    for h in range(heads):
        _score(scores, ends[0, h], ends[1, h])
        _weigh(scores, bias[h], seeing, sharpness, peak)
        _send(scores, ends[0, h], ends[1, h], messages[0, h], messages[1, h])
        if attended.size > 0:
            for i in range(tokens):
                for j in range(tokens):
                    for b in range(rows):
                        attended[h, i, j] += scores[i, j, b]
    return arrived, scratch[count:], sharpness


@compiled
def _add_turned(turned, rows, tokens, width, into):
    """Add `turned (width, tokens * rows)` to `into (rows, tokens, width)`."""
    size, columns = tokens * width, tokens * rows
    for token in range(tokens):
        for first in range(0, rows, BESIDE):
            for w in range(width):
                from_, to = w * columns + token * rows, token * width + w
                for b in range(first, min(rows, first + BESIDE)):
                    into[b * size + to] += turned[from_ + b]


@compiled
def drive(state, starts, rows, sizes, constants, scratch, into):
    """Add `sum_h Wq' m_i + Wk' n_i` of every token."""
    tokens, width, heads, head_size = sizes[0], sizes[1], sizes[2], sizes[3]
    features, columns, lanes = 2 * heads * head_size, tokens * rows, TILE_BYTES // state.itemsize
    nothing = constants[:0].reshape((0, 0, 0))
    arrived, rest, _ = _attend(state[starts[0] :], rows, sizes, constants, scratch, nothing)
    turned, rest = rest[: width * columns], rest[width * columns :]
    edge = rest[: TILE_ROWS * lanes].reshape((TILE_ROWS, lanes))
    packed = rest[TILE_ROWS * lanes :]
    pack(arrived.reshape((features, columns)), packed)
    turned[:] = 0
    weights = constants[features * width :]
    add_product(weights, width, features, packed, turned, columns, columns, edge)
    _add_turned(turned, rows, tokens, width, into[starts[0] :])


@compiled
def correlate(state, starts, rows, sizes, constants, scratch, into):
    """Add `m g'` to `Wq`, `n g'` to `Wk` and `P / sharpness` to `R`."""
    tokens, width, heads, head_size = sizes[0], sizes[1], sizes[2], sizes[3]
    features, columns, lanes = 2 * heads * head_size, tokens * rows, TILE_BYTES // state.itemsize
    states, weights = state[starts[0] :], features * width
    bias = into[weights : weights + heads * tokens * tokens]
    attended = scratch[: bias.size]
    attended[:] = 0
    shaped = attended.reshape((heads, tokens, tokens))
    room = scratch[bias.size :]
    arrived, rest, sharpness = _attend(states, rows, sizes, constants, room, shaped)
    for j in range(bias.size):
        bias[j] += attended[j] / sharpness
    by_token, rest = rest[: columns * width], rest[columns * width :]
    edge = rest[: TILE_ROWS * lanes].reshape((TILE_ROWS, lanes))
    packed = rest[TILE_ROWS * lanes :]
    for token in range(tokens):
        for b in range(rows):
            from_, to = (b * tokens + token) * width, (token * rows + b) * width
            for w in range(width):
                by_token[to + w] = states[from_ + w]
    pack(by_token.reshape((columns, width)), packed)
    add_product(arrived, features, columns, packed, into, width, width, edge)
