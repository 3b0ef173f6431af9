"""The compiled functions of a layer of tokens. Results are written in place.

The samples that still move are the first rows of `state (samples, tokens * width)`; row `i` belongs
to sample `order[i]`, and when a sample has settled, the last row takes its place. A product with
weights runs over all tokens of all rows at once, which is what BLAS wants.

The one function from another file is tanh: numba's cache does not see changes there, but its
values are pinned by tests, so that a stale copy is as good as a new one.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from engine.kernels import _tanh


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
    """Buffers of one relaxation.

    `projected (samples * tokens, 2 heads head_size)` holds queries and keys, `arrived` what is
    sent to them; `logits` and `back` serve memories and read-out.
    """

    state: Any
    mapped: Any
    projected: Any
    arrived: Any
    logits: Any
    back: Any
    attended: Any
    order: Any
    residual: Any


class Ended(NamedTuple):
    """Where each sample ended: `state (samples, units)`, `steps`, `residual`."""

    state: Any
    steps: Any
    residual: Any


@njit(cache=True, fastmath={"reassoc", "contract"})
def _score(projected, query, key, first, second, size):
    """`q . k`, summed in any order; a NaN stays one."""
    total = projected[query, first] * projected[key, second]
    for a in range(1, size):
        total += projected[query, first + a] * projected[key, second + a]
    return total


@njit(cache=True)
def _softmax(row):
    """Turn scores into shares in place."""
    peak = row[0]
    for j in range(1, row.size):
        if not row[j] <= peak:  # so that a NaN becomes the peak, and all of the row
            peak = row[j]
    total = row.dtype.type(0.0)
    for j in range(row.size):
        row[j] = math.exp(row[j] - peak)
        total += row[j]
    for j in range(row.size):
        row[j] /= total


@njit(cache=True)
def _attend(net, work, rows):
    """Write what arrives at queries and keys, `m` and `n`, to `arrived`.

    Adds what each token of a head attends to, `P`, to `attended (heads, tokens, tokens)`.
    """
    heads, tokens = net.bias.shape[0], net.bias.shape[1]
    size = net.weights.shape[0] // (2 * heads)
    width = net.weights.shape[1]
    projected = work.projected[: rows * tokens]
    arrived = work.arrived[: rows * tokens]
    state = work.state[:rows].reshape((rows * tokens, width))
    np.dot(state, net.weights.T, projected)
    share = work.back.reshape(work.back.size)[:tokens]
    for first in range(0, rows * tokens, tokens):
        arrived[first : first + tokens] = 0
        for h in range(heads):
            query, key = h * size, (heads + h) * size
            for i in range(tokens):
                for j in range(tokens):
                    score = _score(projected, first + i, first + j, query, key, size)
                    share[j] = net.sharpness * score + net.bias[h, i, j]
                _softmax(share)
                for j in range(tokens):
                    p = net.seeing[i] * share[j]
                    work.attended[h, i, j] += p
                    for a in range(size):
                        arrived[first + i, query + a] += p * projected[first + j, key + a]
                    for a in range(size):
                        arrived[first + j, key + a] += p * projected[first + i, query + a]


@njit(cache=True)
def _recall(net, work, rows):
    """Add the drive of the memories to `mapped`."""
    tokens, width = net.bias.shape[1], net.weights.shape[1]
    count, size = len(net.memories), rows * tokens
    fits = work.logits[: size * count].reshape((size, count))
    back = work.back[:size]
    np.dot(work.state[:rows].reshape((size, width)), net.memories.T, fits)
    for i in range(size):
        for m in range(count):
            fits[i, m] *= net.recall
        _softmax(fits[i])
    np.dot(fits, net.memories, back)
    mapped = work.mapped[:rows].reshape((size, width))
    for i in range(size):
        for a in range(width):
            mapped[i, a] += back[i, a]


@njit(cache=True)
def _nudge(net, phase, work, rows):
    """Subtract `beta dC/ds` from the drive in `mapped`."""
    tokens, width = net.bias.shape[1], net.weights.shape[1]
    outputs, size = net.readout.shape[1], rows * tokens
    error = work.logits[: size * outputs].reshape((size, outputs))
    back = work.back[:size]
    np.dot(work.state[:rows].reshape((size, width)), net.readout, error)
    for i in range(size):
        target = phase.targets[work.order[i // tokens]]
        place = (i % tokens) * outputs
        for k in range(outputs):
            error[i, k] += net.readout_bias[k]
        _softmax(error[i])
        for k in range(outputs):
            error[i, k] -= target[place + k]
    np.dot(error, net.readout.T, back)
    mapped = work.mapped[:rows].reshape((size, width))
    for i in range(size):
        for a in range(width):
            mapped[i, a] -= phase.beta * back[i, a]


@njit(cache=True)
def _map(net, phase, work, rows):
    """Write `T(s)` to `mapped`, and the residual of each row."""
    tokens, width = net.bias.shape[1], net.weights.shape[1]
    _attend(net, work, rows)
    mapped = work.mapped[:rows].reshape((rows * tokens, width))
    np.dot(work.arrived[: rows * tokens], net.weights, mapped)
    if len(net.memories) > 0:
        _recall(net, work, rows)
    if phase.beta != 0.0:
        _nudge(net, phase, work, rows)
    for i in range(rows):
        new, old, clamped = work.mapped[i], work.state[i], phase.clamped[work.order[i]]
        for j in range(new.size):
            new[j] = _tanh(new[j] + clamped[j])
        work.residual[i] = _largest_gap(new, old)


@njit(cache=True)
def _largest_gap(new, old):
    """`max |new - old|`; NaN if any is."""
    worst = abs(new[0] - old[0])
    for j in range(1, new.size):
        gap = abs(new[j] - old[j])
        if not gap <= worst:
            worst = gap
            if math.isnan(gap):
                break
    return worst


@njit(cache=True)
def _retire(work, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A residual that is not a number is noted and ends the relaxation: the count is then zero.
    """
    for i in range(rows - 1, -1, -1):
        sample = work.order[i]
        ended.residual[sample] = work.residual[i]
        ended.steps[sample] = step
        if work.residual[i] > tolerance:
            continue
        if math.isnan(work.residual[i]):
            return 0
        ended.state[sample] = work.state[i]
        rows -= 1
        if i == rows:
            continue  # numba would allocate a copy of a row that is assigned to itself
        work.order[i] = work.order[rows]
        work.state[i] = work.state[rows]
        work.mapped[i] = work.mapped[rows]
        work.residual[i] = work.residual[rows]
    return rows


@njit(cache=True)
def relax_fixed_point(net, phase, start, work, damping, tolerance, max_steps, ended):
    """Relax by damped steps `s <- s + damping (T(s) - s)`."""
    rows = len(start)
    work.state[:] = start
    for i in range(rows):
        work.order[i] = i
    for step in range(1, max_steps + 1):
        _map(net, phase, work, rows)
        rows = _retire(work, tolerance, step, rows, ended)
        if rows == 0:
            return
        for i in range(rows):
            state, mapped = work.state[i], work.mapped[i]
            for j in range(state.size):
                state[j] += damping * (mapped[j] - state[j])
    for i in range(rows):
        ended.state[work.order[i]] = work.state[i]


@njit(cache=True)
def correlate(net, state, work, weights, bias):
    """Write dPhi/dw of the attention, summed over samples, to `weights` and `bias`."""
    rows, tokens = len(state), net.bias.shape[1]
    work.state[:rows] = state
    work.attended[:] = 0
    _attend(net, work, rows)
    tokenwise = work.state[:rows].reshape((rows * tokens, net.weights.shape[1]))
    np.dot(work.arrived[: rows * tokens].T, tokenwise, weights)
    for h in range(bias.shape[0]):
        for i in range(tokens):
            for j in range(tokens):
                bias[h, i, j] = work.attended[h, i, j] / net.sharpness
