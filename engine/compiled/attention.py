"""The compiled functions of a layer of tokens. Results are written in place.

The samples that still move, `rows` of them, come first in every buffer. The state is laid out by
token, `(tokens, rows, width)`, what is projected from it by feature, `(features, tokens, rows)`.
Products with weights are then large enough for BLAS, and loops over samples are the inner ones, so
that attention runs on as many samples at once as a vector register holds. `order[b]` is the sample
in row `b`.

The one function from another file is tanh: numba's cache does not see changes there, but its
values are pinned by tests, so that a stale copy is as good as a new one.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from engine.compiled.kernels import _tanh


class Program(NamedTuple):
    """A network of one layer of tokens, and its parameters.

    `weights (2 heads head_size, width)` holds the queries of all heads, then their keys; `bias
    (heads, tokens, tokens)` forbids what the mask does; `seeing (tokens,)` is zero where a token
    sees none. `memories (count, width)` may be empty.
    """

    weights: Any
    bias: Any
    seeing: Any
    sharpness: Any
    memories: Any
    recall: Any
    """Sharpness of the memories."""
    readout: Any
    readout_bias: Any


class Phase(NamedTuple):
    """A batch held fixed: `clamped (samples, units)`, `targets (samples, outputs)`, the nudge."""

    clamped: Any
    targets: Any
    beta: Any


class Work(NamedTuple):
    """Flat buffers of one relaxation, for all samples.

    `projected` holds queries and keys, `arrived` what is sent to them, `odds` what each token
    attends to in one head, `(tokens, tokens, rows)`; `logits` and `back` serve memories and
    read-out, `powers` exponentials and gaps. The `_bits` are integer views of their floats.
    """

    state: Any
    mapped: Any
    projected: Any
    arrived: Any
    odds: Any
    logits: Any
    back: Any
    powers: Any
    power_bits: Any
    order: Any
    residual: Any
    residual_bits: Any


class Ended(NamedTuple):
    """Where each sample ended: `state (samples, units)`, `steps`, `residual`."""

    state: Any
    steps: Any
    residual: Any


# exp x = 2^n exp r with |r| <= ln 2 / 2, and a polynomial in r (Cephes, single precision).
_LOG2E, _LN2_HIGH, _LN2_LOW = (
    np.float32(c) for c in (1.44269504088896341, 0.693359375, -2.12194440e-4)
)
_E0, _E1, _E2, _E3, _E4, _E5 = (
    np.float32(c)
    for c in (
        5.0000001201e-1,
        1.6666665459e-1,
        4.1665795894e-2,
        8.3334519073e-3,
        1.3981999507e-3,
        1.9875691500e-4,
    )
)
_LOWEST, _EXPONENT_ONE, _EXPONENT_UNIT = np.float32(-87.0), np.float32(127.0), np.float32(2.0**23)
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1.0), np.float32(0.0)


@njit(cache=True)
def exponentials(x, powers, power_bits):
    """Replace the vector `x`, at most zero, by its exponentials; `powers` is scratch as long as it.

    In single precision it is a polynomial that vectorises; below -87 the result is zero.
    """
    if x.itemsize == 8:
        for j in range(x.size):
            x[j] = math.exp(x[j])
        return
    for j in range(x.size):
        vanishes = x[j] < _LOWEST
        h = _LOWEST if vanishes else x[j]
        n = np.floor(h * _LOG2E + _HALF)
        r = h - n * _LN2_HIGH - n * _LN2_LOW
        p = ((((_E5 * r + _E4) * r + _E3) * r + _E2) * r + _E1) * r + _E0
        x[j] = p * r * r + r + _ONE
        power_bits[j] = np.int32(_ZERO if vanishes else (n + _EXPONENT_ONE) * _EXPONENT_UNIT)
    for j in range(x.size):
        x[j] *= powers[j]


@njit(cache=True)
def _softmax_rows(scores, work):
    """Turn each row of `scores (rows, columns)` into shares."""
    for row in scores:
        peak = row[0]
        for j in range(1, row.size):
            if not row[j] <= peak:  # a NaN becomes the peak, and then the whole row
                peak = row[j]
        for j in range(row.size):
            row[j] -= peak
    flat = scores.reshape(scores.size)
    exponentials(flat, work.powers[: flat.size], work.power_bits[: flat.size])
    for row in scores:
        total = row[0]
        for j in range(1, row.size):
            total += row[j]
        for j in range(row.size):
            row[j] /= total


@njit(cache=True)
def _softmax_columns(scores, work):
    """Turn `scores (places, rows)` into shares over the places, for each row."""
    places, rows = scores.shape
    peak = work.back[:rows]
    peak[:] = scores[0]
    for j in range(1, places):
        for b in range(rows):
            peak[b] = peak[b] if scores[j, b] <= peak[b] else scores[j, b]
    for j in range(places):
        for b in range(rows):
            scores[j, b] -= peak[b]
    flat = scores.reshape(scores.size)
    exponentials(flat, work.powers[: flat.size], work.power_bits[: flat.size])
    total = peak
    total[:] = scores[0]
    for j in range(1, places):
        for b in range(rows):
            total[b] += scores[j, b]
    for j in range(places):
        for b in range(rows):
            scores[j, b] /= total[b]


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _weigh(net, h, odds, work):
    """Turn the scores of a head in `odds` into what each token attends to, `P`."""
    tokens, rows = odds.shape[0], odds.shape[2]
    for i in range(tokens):
        for j in range(tokens):
            for b in range(rows):
                odds[i, j, b] = net.sharpness * odds[i, j, b] + net.bias[h, i, j]
        _softmax_columns(odds[i], work)
        if net.seeing[i] == 0:
            odds[i] = 0


@njit(cache=True)
def _project(net, work, rows):
    """Write queries and keys, `(features, tokens * rows)`, to `projected`."""
    features, width = net.weights.shape
    columns = net.bias.shape[1] * rows
    state = work.state[: columns * width].reshape((columns, width))
    projected = work.projected[: features * columns].reshape((features, columns))
    np.dot(net.weights, state.T, projected)


@njit(cache=True)
def _attend(net, work, rows, attended):
    """Write what arrives at queries and keys, `m` and `n`, to `arrived`.

    Adds `P`, summed over samples, to `attended (heads, tokens, tokens)`, unless that is empty.
    """
    heads, tokens, features = net.bias.shape[0], net.bias.shape[1], len(net.weights)
    size = features // (2 * heads)
    _project(net, work, rows)
    count = features * tokens * rows
    projected = work.projected[:count].reshape((2, heads, size, tokens, rows))
    arrived = work.arrived[:count].reshape((2, heads, size, tokens, rows))
    odds = work.odds[: tokens * tokens * rows].reshape((tokens, tokens, rows))
    work.arrived[:count] = 0
    for h in range(heads):
        _score(odds, projected[0, h], projected[1, h])
        _weigh(net, h, odds, work)
        _send(odds, projected[0, h], projected[1, h], arrived[0, h], arrived[1, h])
        if attended.size > 0:
            for i in range(tokens):
                for j in range(tokens):
                    for b in range(rows):
                        attended[h, i, j] += odds[i, j, b]


@njit(cache=True)
def _recall(net, work, rows):
    """Add the drive of the memories to `mapped`."""
    width, count = net.weights.shape[1], len(net.memories)
    places = net.bias.shape[1] * rows
    fits = work.logits[: places * count].reshape((places, count))
    back = work.back[: places * width].reshape((places, width))
    np.dot(work.state[: places * width].reshape((places, width)), net.memories.T, fits)
    for j in range(places * count):
        work.logits[j] *= net.recall
    _softmax_rows(fits, work)
    np.dot(fits, net.memories, back)
    for j in range(places * width):
        work.mapped[j] += work.back[j]


@njit(cache=True)
def _nudge(net, phase, work, rows):
    """Subtract `beta dC/ds` from the drive in `mapped`."""
    tokens, width, outputs = net.bias.shape[1], net.weights.shape[1], net.readout.shape[1]
    places = tokens * rows
    error = work.logits[: places * outputs].reshape((places, outputs))
    back = work.back[: places * width].reshape((places, width))
    np.dot(work.state[: places * width].reshape((places, width)), net.readout, error)
    for i in range(places):
        for k in range(outputs):
            error[i, k] += net.readout_bias[k]
    _softmax_rows(error, work)
    for i in range(tokens):
        for b in range(rows):
            target = phase.targets[work.order[b]]
            for k in range(outputs):
                error[i * rows + b, k] -= target[i * outputs + k]
    np.dot(error, net.readout.T, back)
    for j in range(places * width):
        work.mapped[j] -= phase.beta * work.back[j]


@njit(cache=True)
def _map(net, phase, work, rows, attended):
    """Write `T(s)` to `mapped`, and the residual of each row."""
    tokens, width, features = net.bias.shape[1], net.weights.shape[1], len(net.weights)
    places = tokens * rows
    _attend(net, work, rows, attended)
    arrived = work.arrived[: features * places].reshape((features, places))
    mapped = work.mapped[: places * width].reshape((places, width))
    np.dot(arrived.T, net.weights, mapped)
    if len(net.memories) > 0:
        _recall(net, work, rows)
    if phase.beta != 0.0:
        _nudge(net, phase, work, rows)
    state = work.state[: places * width].reshape((places, width))
    work.residual_bits[:rows] = 0
    for b in range(rows):
        clamped = phase.clamped[work.order[b]]
        for i in range(tokens):
            new, old = mapped[i * rows + b], state[i * rows + b]
            for j in range(width):
                new[j] = _tanh(new[j] + clamped[i * width + j])
            work.residual_bits[b] = _largest_gap(new, old, work, work.residual_bits[b])


@njit(cache=True)
def _largest_gap(new, old, work, worst):
    """Return the bits of the largest `|new - old|`, or `worst` if they are larger.

    The bits of non-negative floats are ordered as the floats are, with NaN above all: an integer
    maximum is exact, needs no fastmath to be vectorised, and cannot lose a NaN.
    """
    for j in range(new.size):
        work.powers[j] = abs(new[j] - old[j])
    for j in range(new.size):
        worst = max(worst, work.power_bits[j])
    return worst


@njit(cache=True)
def _store(work, row, rows, tokens, state):
    """Write a row of the state out to its sample."""
    width = len(state) // tokens
    for i in range(tokens):
        first = (i * rows + row) * width
        for j in range(width):
            state[i * width + j] = work.state[first + j]


@njit(cache=True)
def _retire(work, tokens, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A residual that is not a number is noted and ends the relaxation: the count is then zero.
    """
    width = ended.state.shape[1] // tokens
    moving = 0
    for b in range(rows):
        sample = work.order[b]
        ended.residual[sample], ended.steps[sample] = work.residual[b], step
        if math.isnan(work.residual[b]):
            return 0
        if work.residual[b] > tolerance:
            moving += 1
        else:
            _store(work, b, rows, tokens, ended.state[sample])
    if moving in (0, rows):
        return moving
    for i in range(tokens):
        row = 0
        for b in range(rows):
            if work.residual[b] > tolerance:
                to, start = (i * moving + row) * width, (i * rows + b) * width
                for j in range(width):  # forward: what is written over has been moved
                    work.state[to + j] = work.state[start + j]
                    work.mapped[to + j] = work.mapped[start + j]
                row += 1
    row = 0
    for b in range(rows):
        if work.residual[b] > tolerance:
            work.order[row] = work.order[b]
            row += 1
    return moving


@njit(cache=True)
def _begin(start, tokens, work):
    """Lay the starting states out by token, every sample moving."""
    rows, units = start.shape
    width = units // tokens
    for b in range(rows):
        work.order[b] = b
        for i in range(tokens):
            for j in range(width):
                work.state[(i * rows + b) * width + j] = start[b, i * width + j]


@njit(cache=True)
def relax_fixed_point(net, phase, start, work, damping, tolerance, max_steps, ended):
    """Relax by damped steps `s <- s + damping (T(s) - s)`."""
    rows, units = start.shape
    tokens = net.bias.shape[1]
    nothing = net.bias[:0]
    _begin(start, tokens, work)
    for step in range(1, max_steps + 1):
        _map(net, phase, work, rows, nothing)
        rows = _retire(work, tokens, tolerance, step, rows, ended)
        if rows == 0:
            return
        for j in range(rows * units):
            work.state[j] += damping * (work.mapped[j] - work.state[j])
    for b in range(rows):
        _store(work, b, rows, tokens, ended.state[work.order[b]])


@njit(cache=True)
def correlate(net, state, work, weights, bias):
    """Write dPhi/dw of the attention, summed over samples, to `weights` and `bias`."""
    rows, tokens = len(state), net.bias.shape[1]
    features, width = net.weights.shape
    _begin(state, tokens, work)
    bias[:] = 0
    _attend(net, work, rows, bias)
    bias /= net.sharpness
    places = tokens * rows
    arrived = work.arrived[: features * places].reshape((features, places))
    np.dot(arrived, work.state[: places * width].reshape((places, width)), weights)
