"""Anderson mixing: what it keeps of each sample, and the solver."""

import math

import numpy as np

from engine.compiled.addresses import call
from engine.compiled.compiler import compiled, inner
from engine.compiled.parts import clear, copy, part
from engine.compiled.program import (
    ACTIVATION,
    LINEAR,
    MIRRORED_RELU,
    OFFSET,
    RELU,
    SIZE,
    TANH,
)
from engine.compiled.relaxation import begin, retire, store


@compiled
def mixing_weights(gram, system, weights, count):
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


@inner
def _remember(net, work, row, sample, past):
    """Add the row's state and gap to the history of its sample."""
    memory = past.gaps.shape[1]
    slot = (past.newest[sample] + 1) % memory
    past.newest[sample] = slot
    past.kept[sample] = min(past.kept[sample] + 1, memory)
    past.best[sample] = work.residual[row]
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        first = len(work.order) * offset + row * size
        old, new = part(work.before, first, size), part(work.state, first, size)
        copy(new, part(past.plain[sample], offset, size))
        copy(old, part(past.states[sample, slot], offset, size))
        gap = part(past.gaps[sample, slot], offset, size)
        for j in range(size):
            gap[j] = new[j] - old[j]
    for j in range(past.kept[sample]):
        product = np.dot(past.gaps[sample, slot], past.gaps[sample, j])
        past.gram[sample, slot, j] = product
        past.gram[sample, j, slot] = product


@inner
def _step_plainly(net, work, row, sample, past):
    """Replace the row's state by the last `T(s)` of its sample."""
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        state = part(work.state, len(work.order) * offset + row * size, size)
        copy(part(past.plain[sample], offset, size), state)


@inner
def _mix(net, stage, work, row, sample, past):
    """Replace the row's state by the mixture `sum w_i (s_i + gap_i)`.

    States are kept within their range; the next step brings displacements back to theirs.
    """
    count = past.kept[sample]
    if not mixing_weights(past.gram[sample], past.system, past.weights, count):
        _step_plainly(net, work, row, sample, past)
        return
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        activation = net.layers[k, ACTIVATION]
        low = -1.0 if activation == TANH else 0.0
        high = math.inf if activation in (RELU, LINEAR) else 1.0
        if activation in (MIRRORED_RELU, LINEAR):
            low = -math.inf
        if activation == MIRRORED_RELU:
            high = 0.0
        state = part(work.state, len(work.order) * offset + row * size, size)
        clear(state)
        for i in range(count):
            old = part(past.states[sample, i], offset, size)
            gap = part(past.gaps[sample, i], offset, size)
            for j in range(size):
                state[j] += past.weights[i] * (old[j] + gap[j])
        if len(stage.origin) == 0:
            for j in range(size):
                state[j] = min(max(state[j], low), high)


@compiled
def relax_anderson(step_at, net, stage, start, first, work, past, tolerance, max_steps, ended):
    """Relax by mixing the last steps of each sample.

    A mixture whose residual is above the one before it is undone: the sample takes the plain step
    it would have taken instead, and its history starts again.
    """
    rows = begin(net, stage, start, first, work)
    count = rows // len(stage.betas)
    for step in range(1, max_steps + 1):
        call(step_at, net, stage, work, rows, False)
        rows = retire(net, stage, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        for i in range(rows):
            phase_of, sample_of = divmod(work.order[i], len(start))
            sample = phase_of * count + sample_of - first  # as the history of this block counts
            if past.kept[sample] > 1 and work.residual[i] > past.best[sample]:
                past.kept[sample] = 0
                past.newest[sample] = -1
                _step_plainly(net, work, i, sample, past)
                continue
            _remember(net, work, i, sample, past)
            if past.kept[sample] > 1:
                _mix(net, stage, work, i, sample, past)
            else:
                _step_plainly(net, work, i, sample, past)
    for i in range(rows):
        store(net, stage, work, work.state, i, ended)
