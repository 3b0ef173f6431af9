"""Every compiled function. Results are written in place; nothing is allocated in a step.

A network arrives as three integer tables (`engine.compiled` makes them), so one compiled signature
for each precision serves every network. A *message* is one direction of a coupling.

Batches are `(samples, units)`. `state` and `mapped` hold the samples that still move as one
contiguous `(rows, size)` block for each layer, which is what BLAS wants. Row `i` of a block belongs
to sample `order[i]`; when a sample has settled, the last row takes its place.

All kernels are in one file because numba's cache does not see a change in a callee of another.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

# Columns of the tables.
OFFSET, SIZE, ACTIVATION, HALF, DRIVEN = range(5)  # layers
SOURCE, TARGET, START, ROWS, COLUMNS, TRANSPOSED, FIRST = range(7)  # messages
KIND, LAYER, WEIGHT, BIAS, OUTPUTS = range(5)  # read-out
SOFTMAX, SQUARED_ERROR = range(2)
TANH, HARD_SIGMOID, RELU = range(3)
BOTH = -1
"""Stands for both halves of the layers."""
FEW_BYTES = 96
"""Up to so many bytes in a column of states the product of this file is faster than BLAS."""


# Division by zero gives what IEEE 754 says: a branch that could raise would keep every loop with a
# division from being vectorised. Of fastmath only fused multiply-add: it keeps NaN, infinity and
# the order of sums. Without the GIL, blocks of rows relax on several cores at once.
_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


class Program(NamedTuple):
    """A network and its parameters."""

    theta: Any
    layers: Any
    messages: Any
    readout: Any


class Phase(NamedTuple):
    """A batch held fixed: `clamped (samples, units)`, `targets (samples, outputs)`, the nudges.

    `beta (samples,)` is zero for all samples or for none.
    """

    clamped: Any
    targets: Any
    beta: Any


class Work(NamedTuple):
    """Buffers of one relaxation; the `_bits` are integer views of their floats."""

    state: Any
    mapped: Any
    scratch: Any
    order: Any
    gap: Any
    gap_bits: Any
    residual: Any
    residual_bits: Any


class Ended(NamedTuple):
    """Where each sample ended: `state (samples, units)`, `steps`, `residual`."""

    state: Any
    steps: Any
    residual: Any


class History(NamedTuple):
    """What Anderson mixing keeps of each sample: fixed in size, whatever the number of steps.

    `states` and their `gaps` are `(samples, memory, units)`, `gram (samples, memory, memory)` holds
    the inner products of the gaps, `plain (samples, units)` the last `T(s)`, `best` the residual
    before it, `kept` how many pairs are in use and `newest` which of them came last.
    """

    states: Any
    gaps: Any
    plain: Any
    gram: Any
    system: Any
    weights: Any
    best: Any
    kept: Any
    newest: Any


# tanh x = x P(x^2) / Q(x^2) for |x| <= 8.5, a weighted least-squares fit for float32.
_EDGE, _ONE = np.float32(8.5), np.float32(1.0)
_P0, _P1, _P2, _P3, _P4 = (
    np.float32(c)
    for c in (
        9.999999881829e-1,
        1.341326001154e-1,
        3.534042028697e-3,
        2.125127820817e-5,
        1.426952e-8,
    )
)
_Q1, _Q2, _Q3, _Q4 = (
    np.float32(c) for c in (4.674658275793e-1, 2.602281003497e-2, 3.348888945342e-4, 8.14524992e-7)
)


def _rational_tanh(x: Any) -> Any:
    # Each comparison is false for NaN, which so passes through.
    x = _EDGE if x > _EDGE else x
    x = -_EDGE if x < -_EDGE else x
    u = x * x
    p = (((_P4 * u + _P3) * u + _P2) * u + _P1) * u + _P0
    q = (((_Q4 * u + _Q3) * u + _Q2) * u + _Q1) * u + _ONE
    y = x * p / q
    y = _ONE if y > _ONE else y
    return -_ONE if y < -_ONE else y


def _library_tanh(x: Any) -> Any:
    return math.tanh(x)


def _tanh(x: Any) -> Any:
    """tanh in the precision of `x`; only compiled code calls it, through the overload below."""


@overload(_tanh)
def _tanh_of_type(x: Any) -> Any:
    return _rational_tanh if x == types.float32 else _library_tanh


@_compiled
def tanh(x, out):
    """Write tanh of the vector `x` to `out`, as the relaxation computes it."""
    for j in range(x.size):
        out[j] = _tanh(x[j])


@_compiled
def adam(gradient, first, second, take1, take2, correction, rate, eps):
    """Move both moments by the shares `take` and write the update over `gradient`, in one pass.

    `correction` scales the second moment under its root.
    """
    for j in range(gradient.size):
        g = gradient[j]
        first[j] += take1 * (g - first[j])
        second[j] += take2 * (g * g - second[j])
        gradient[j] = rate * first[j] / (math.sqrt(second[j] * correction) + eps)


@_compiled
def _block(buffer, capacity, layer, rows):
    """View the first `rows` samples of a layer as `(rows, size)`."""
    start = capacity * layer[OFFSET]
    return buffer[start : start + rows * layer[SIZE]].reshape((rows, layer[SIZE]))


@_compiled
def _row(buffer, capacity, layer, row):
    """View one sample of a layer."""
    start = capacity * layer[OFFSET] + row * layer[SIZE]
    return buffer[start : start + layer[SIZE]]


@_compiled
def _part(sample, layer):
    """View a layer in a sample `(units,)`."""
    return sample[layer[OFFSET] : layer[OFFSET] + layer[SIZE]]


@_compiled
def _begin(net, start, work):
    """Lay the starting states out in blocks, every sample moving."""
    samples = len(start)
    for i in range(samples):
        work.order[i] = i
        for layer in net.layers:
            _row(work.state, samples, layer, i)[:] = _part(start[i], layer)


@_compiled
def _store(net, work, row, ended):
    """Write a row of the state out to its sample."""
    sample = work.order[row]
    for layer in net.layers:
        _part(ended.state[sample], layer)[:] = _row(work.state, len(work.order), layer, row)


@_compiled
def multiply_few(a, b, out):
    """Write `a b` to `out` for few rows of `a`: BLAS would pack `b` for them, in every call.

    Blocks of 4 x 4 numbers of `a` stay in registers while a row of `out` and four of `b` pass by.
    """
    rows, inner = a.shape
    out[:] = 0
    for i in range(0, rows - 3, 4):
        for k in range(0, inner - 3, 4):
            a00, a01, a02, a03 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            a10, a11, a12, a13 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            a20, a21, a22, a23 = a[i + 2, k], a[i + 2, k + 1], a[i + 2, k + 2], a[i + 2, k + 3]
            a30, a31, a32, a33 = a[i + 3, k], a[i + 3, k + 1], a[i + 3, k + 2], a[i + 3, k + 3]
            for j in range(out.shape[1]):
                b0, b1, b2, b3 = b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j]
                out[i, j] = out[i, j] + a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                out[i + 1, j] = out[i + 1, j] + a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                out[i + 2, j] = out[i + 2, j] + a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                out[i + 3, j] = out[i + 3, j] + a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for i in range(rows - rows % 4, rows):
        for k in range(0, inner - 3, 4):
            a0, a1, a2, a3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            for j in range(out.shape[1]):
                b0, b1, b2, b3 = b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j]
                out[i, j] = out[i, j] + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3
    for k in range(inner - inner % 4, inner):
        for i in range(rows):
            for j in range(out.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


@_compiled
def _send(net, work, half, rows):
    """Write the recurrent drive of the layers in `half` to `mapped`."""
    capacity = len(work.order)
    for layer in net.layers:
        if not layer[DRIVEN] and half in (BOTH, layer[HALF]):
            _block(work.mapped, capacity, layer, rows)[:] = 0
    for message in net.messages:
        target = net.layers[message[TARGET]]
        if half not in (BOTH, target[HALF]):
            continue
        source = _block(work.state, capacity, net.layers[message[SOURCE]], rows)
        drive = _block(work.mapped, capacity, target, rows)
        # The first message to a layer writes its drive, the others add to it.
        into = drive if message[FIRST] else _block(work.scratch, 0, target, rows)
        size = message[ROWS] * message[COLUMNS]
        weight = net.theta[message[START] : message[START] + size]
        matrix = weight.reshape((message[ROWS], message[COLUMNS]))
        if message[TRANSPOSED]:
            np.dot(source, matrix.T, into)
        elif rows * source.itemsize > FEW_BYTES:
            np.dot(source, matrix, into)
        else:
            multiply_few(source, matrix, into)
        if not message[FIRST]:
            drive += into


@_compiled
def _softmax_error(logits, bias, targets, order):
    """Turn `logits (rows, outputs)` into `p - y` in place."""
    for i in range(len(logits)):
        row = logits[i]
        target = targets[order[i]]
        row += bias
        peak = row.max()
        total = 0.0
        for k in range(row.size):
            row[k] = math.exp(row[k] - peak)
            total += row[k]
        for k in range(row.size):
            row[k] = row[k] / total - target[k]


@_compiled
def _nudge(net, phase, work, rows):
    """Subtract `beta dC/ds` from the drive of the layer that is read out."""
    capacity = len(work.order)
    layer = net.layers[net.readout[LAYER]]
    size, outputs = layer[SIZE], net.readout[OUTPUTS]
    s = _block(work.state, capacity, layer, rows)
    drive = _block(work.mapped, capacity, layer, rows)
    back = _block(work.scratch, 0, layer, rows)
    if net.readout[KIND] == SQUARED_ERROR:
        for i in range(rows):
            for j in range(size):
                back[i, j] = s[i, j] - phase.targets[work.order[i], j]
    else:
        weight = net.theta[net.readout[WEIGHT] : net.readout[WEIGHT] + size * outputs]
        matrix = weight.reshape((size, outputs))
        bias = net.theta[net.readout[BIAS] : net.readout[BIAS] + outputs]
        error = work.scratch[rows * size : rows * (size + outputs)].reshape((rows, outputs))
        np.dot(s, matrix, error)
        _softmax_error(error, bias, phase.targets, work.order)
        np.dot(error, matrix.T, back)
    for i in range(rows):
        beta = phase.beta[work.order[i]]
        for j in range(size):
            drive[i, j] -= beta * back[i, j]


@_compiled
def _bend(layer, row, clamped):
    """Replace the recurrent drive in `row` by the activation of the whole drive."""
    if layer[ACTIVATION] == TANH:
        for j in range(row.size):
            row[j] = _tanh(row[j] + clamped[j])
    elif layer[ACTIVATION] == HARD_SIGMOID:
        for j in range(row.size):
            h = row[j] + clamped[j]
            row[j] = 0.0 if h < 0.0 else (1.0 if h > 1.0 else h)
    else:
        for j in range(row.size):
            h = row[j] + clamped[j]
            row[j] = 0.0 if h < 0.0 else h


@_compiled
def activate(layers, clamped, out):
    """Write the activation of the drive `clamped (samples, units)` to `out`."""
    out[:] = 0
    for i in range(len(clamped)):
        for layer in layers:
            _bend(layer, _part(out[i], layer), _part(clamped[i], layer))


@_compiled
def _activate(net, phase, work, half, rows):
    """Turn the drive in `mapped` into `T(s)`; raise the residual of each row to its largest gap.

    The bits of non-negative floats are ordered as the floats are, with NaN above all: an integer
    maximum is exact, needs no fastmath to be vectorised, and cannot lose a NaN.
    """
    capacity = len(work.order)
    gap, gap_bits = work.gap, work.gap_bits
    for layer in net.layers:
        if half not in (BOTH, layer[HALF]):
            continue
        for i in range(rows):
            clamped = _part(phase.clamped[work.order[i]], layer)
            old = _row(work.state, capacity, layer, i)
            new = _row(work.mapped, capacity, layer, i)
            _bend(layer, new, clamped)
            for j in range(new.size):
                gap[j] = abs(new[j] - old[j])
            worst = work.residual_bits[i]
            for j in range(new.size):
                worst = max(worst, gap_bits[j])
            work.residual_bits[i] = worst


@_compiled
def _map(net, phase, work, half, rows):
    """Write `T(s)` of the layers in `half` to `mapped`, and the residual of each row."""
    _send(net, work, half, rows)
    _respond(net, phase, work, half, rows)


@_compiled
def _map_twins(net, phase, work, rows):
    """Do the same where the second half of the rows is in the states of the first."""
    single = rows // 2
    _send(net, work, BOTH, single)
    for layer in net.layers:
        drive = _block(work.mapped, len(work.order), layer, rows)
        drive[single:] = drive[:single]
    _respond(net, phase, work, BOTH, rows)


@_compiled
def _respond(net, phase, work, half, rows):
    """Turn the recurrent drive in `mapped` into `T(s)`, and note the residual of each row."""
    if phase.beta[0] != 0.0 and half in (BOTH, net.layers[net.readout[LAYER]][HALF]):
        _nudge(net, phase, work, rows)
    work.residual_bits[:rows] = 0
    _activate(net, phase, work, half, rows)


@_compiled
def _retire(net, work, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A residual that is not a number is noted and ends the relaxation: the count is then zero.
    """
    capacity = len(work.order)
    for i in range(rows - 1, -1, -1):
        sample = work.order[i]
        ended.residual[sample] = work.residual[i]
        ended.steps[sample] = step
        if work.residual[i] > tolerance:
            continue
        if math.isnan(work.residual[i]):
            return 0
        _store(net, work, i, ended)
        rows -= 1
        if i == rows:
            continue  # numba would allocate a copy of a row that is assigned to itself
        work.order[i] = work.order[rows]
        for layer in net.layers:
            _row(work.state, capacity, layer, i)[:] = _row(work.state, capacity, layer, rows)
            _row(work.mapped, capacity, layer, i)[:] = _row(work.mapped, capacity, layer, rows)
        work.residual[i] = work.residual[rows]
    return rows


@_compiled
def _advance(net, work, half, damping, rows):
    """Step `s <- s + damping (T(s) - s)` in the layers of `half`."""
    capacity = len(work.order)
    for layer in net.layers:
        if half not in (BOTH, layer[HALF]):
            continue
        first = capacity * layer[OFFSET]
        last = first + rows * layer[SIZE]
        if damping == 1.0:
            work.state[first:last] = work.mapped[first:last]
        else:
            for j in range(first, last):
                work.state[j] += damping * (work.mapped[j] - work.state[j])


@_compiled
def _exchanged(work):
    """Let the image be the state: a whole step without a copy."""
    return Work(
        work.mapped,
        work.state,
        work.scratch,
        work.order,
        work.gap,
        work.gap_bits,
        work.residual,
        work.residual_bits,
    )


@_compiled
def relax_fixed_point(net, phase, start, work, damping, twins, tolerance, max_steps, ended):
    """Relax by damped steps of the whole state.

    With `twins` the second half of the samples starts in the states of the first.
    """
    _begin(net, start, work)
    rows = len(start)
    for step in range(1, max_steps + 1):
        if twins and step == 1:
            _map_twins(net, phase, work, rows)
        else:
            _map(net, phase, work, BOTH, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        if damping == 1.0:
            work = _exchanged(work)
        else:
            _advance(net, work, BOTH, damping, rows)
    for i in range(rows):
        _store(net, work, i, ended)


@_compiled
def relax_alternating(net, phase, start, work, tolerance, max_steps, ended):
    """Relax one half of the layers from the other and back.

    After a step the second half equals its `T(s)`, and keeps to it while the first half is mapped:
    the residual of the first half is then that of the whole state.
    """
    _begin(net, start, work)
    rows = len(start)
    for step in range(1, max_steps + 1):
        _map(net, phase, work, BOTH if step == 1 else 0, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        _advance(net, work, 0, 1.0, rows)
        _map(net, phase, work, 1, rows)
        _advance(net, work, 1, 1.0, rows)
    for i in range(rows):
        _store(net, work, i, ended)


@_compiled
def _mixing_weights(gram, system, weights, count):
    """Minimise `|sum w_i gap_i|^2` under `sum w_i = 1`, from the inner products of the gaps.

    Solves `(gram + ridge) w ~ 1` by elimination: positive definite, so it needs no pivots, and
    unlike `np.linalg.solve` it allocates nothing. Says whether there is a solution: not where the
    squares of the gaps are lost to underflow.
    """
    trace = 0.0
    for i in range(count):
        trace += gram[i, i]
    limits = np.finfo(gram.dtype)
    if not trace > limits.tiny / limits.eps:
        return False
    ridge = 10 * limits.eps * trace
    for i in range(count):
        weights[i] = 1.0
        for j in range(count):
            system[i, j] = gram[i, j]
        system[i, i] += ridge
    for i in range(count):
        for k in range(i + 1, count):
            factor = system[k, i] / system[i, i]
            weights[k] -= factor * weights[i]
            for j in range(i, count):
                system[k, j] -= factor * system[i, j]
    total = 0.0
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            weights[i] -= system[i, j] * weights[j]
        weights[i] /= system[i, i]
        total += weights[i]
    for i in range(count):
        weights[i] /= total
    return True


@_compiled
def _remember(net, work, row, sample, past):
    """Add the row's state and gap to the history of its sample."""
    memory = past.gaps.shape[1]
    slot = (past.newest[sample] + 1) % memory
    past.newest[sample] = slot
    past.kept[sample] = min(past.kept[sample] + 1, memory)
    past.best[sample] = work.residual[row]
    for layer in net.layers:
        old = _row(work.state, len(work.order), layer, row)
        new = _row(work.mapped, len(work.order), layer, row)
        _part(past.plain[sample], layer)[:] = new
        _part(past.states[sample, slot], layer)[:] = old
        gap = _part(past.gaps[sample, slot], layer)
        for j in range(gap.size):
            gap[j] = new[j] - old[j]
    for j in range(past.kept[sample]):
        product = np.dot(past.gaps[sample, slot], past.gaps[sample, j])
        past.gram[sample, slot, j] = product
        past.gram[sample, j, slot] = product


@_compiled
def _step_plainly(net, work, row, sample, past):
    """Replace the row's state by the last `T(s)` of its sample."""
    for layer in net.layers:
        _row(work.state, len(work.order), layer, row)[:] = _part(past.plain[sample], layer)


@_compiled
def _mix(net, work, row, sample, past):
    """Replace the row's state by the mixture `sum w_i (s_i + gap_i)`, kept within its range."""
    count = past.kept[sample]
    if not _mixing_weights(past.gram[sample], past.system, past.weights, count):
        _step_plainly(net, work, row, sample, past)
        return
    for layer in net.layers:
        low = -1.0 if layer[ACTIVATION] == TANH else 0.0
        high = math.inf if layer[ACTIVATION] == RELU else 1.0
        state = _row(work.state, len(work.order), layer, row)
        state[:] = 0
        for i in range(count):
            old = _part(past.states[sample, i], layer)
            gap = _part(past.gaps[sample, i], layer)
            for j in range(state.size):
                state[j] += past.weights[i] * (old[j] + gap[j])
        for j in range(state.size):
            state[j] = min(max(state[j], low), high)


@_compiled
def relax_anderson(net, phase, start, work, past, tolerance, max_steps, ended):
    """Relax by mixing the last steps of each sample.

    A mixture whose residual is above the one before it is undone: the sample takes the plain step
    it would have taken instead, and its history starts again.
    """
    _begin(net, start, work)
    rows = len(start)
    for step in range(1, max_steps + 1):
        _map(net, phase, work, BOTH, rows)
        rows = _retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        for i in range(rows):
            sample = work.order[i]
            if past.kept[sample] > 1 and work.residual[i] > past.best[sample]:
                past.kept[sample] = 0
                past.newest[sample] = -1
                _step_plainly(net, work, i, sample, past)
                continue
            _remember(net, work, i, sample, past)
            if past.kept[sample] > 1:
                _mix(net, work, i, sample, past)
            else:
                _step_plainly(net, work, i, sample, past)
    for i in range(rows):
        _store(net, work, i, ended)
