"""Anderson mixing: what it keeps of each sample, and the solver."""

import math

import numpy as np

from engine.compiled.compiler import compiled
from engine.compiled.program import ACTIVATION, RELU, TANH, part_of, row_of
from engine.compiled.relaxation import begin, retire, store, take_step


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


@compiled
def _remember(net, work, row, sample, past):
    """Add the row's state and gap to the history of its sample."""
    memory = past.gaps.shape[1]
    slot = (past.newest[sample] + 1) % memory
    past.newest[sample] = slot
    past.kept[sample] = min(past.kept[sample] + 1, memory)
    past.best[sample] = work.residual[row]
    for layer in net.layers:
        old = row_of(work.before, len(work.order), layer, row)
        new = row_of(work.state, len(work.order), layer, row)
        part_of(past.plain[sample], layer)[:] = new
        part_of(past.states[sample, slot], layer)[:] = old
        gap = part_of(past.gaps[sample, slot], layer)
        for j in range(gap.size):
            gap[j] = new[j] - old[j]
    for j in range(past.kept[sample]):
        product = np.dot(past.gaps[sample, slot], past.gaps[sample, j])
        past.gram[sample, slot, j] = product
        past.gram[sample, j, slot] = product


@compiled
def _step_plainly(net, work, row, sample, past):
    """Replace the row's state by the last `T(s)` of its sample."""
    for layer in net.layers:
        row_of(work.state, len(work.order), layer, row)[:] = part_of(past.plain[sample], layer)


@compiled
def _mix(net, stage, work, row, sample, past):
    """Replace the row's state by the mixture `sum w_i (s_i + gap_i)`.

    States are kept within their range; the next step brings displacements back to theirs.
    """
    count = past.kept[sample]
    if not mixing_weights(past.gram[sample], past.system, past.weights, count):
        _step_plainly(net, work, row, sample, past)
        return
    for layer in net.layers:
        low = -1.0 if layer[ACTIVATION] == TANH else 0.0
        high = math.inf if layer[ACTIVATION] == RELU else 1.0
        state = row_of(work.state, len(work.order), layer, row)
        state[:] = 0
        for i in range(count):
            old = part_of(past.states[sample, i], layer)
            gap = part_of(past.gaps[sample, i], layer)
            for j in range(state.size):
                state[j] += past.weights[i] * (old[j] + gap[j])
        if len(stage.origin) == 0:
            for j in range(state.size):
                state[j] = min(max(state[j], low), high)


@compiled
def relax_anderson(net, stage, start, first, work, past, tolerance, max_steps, ended):
    """Relax by mixing the last steps of each sample.

    A mixture whose residual is above the one before it is undone: the sample takes the plain step
    it would have taken instead, and its history starts again.
    """
    rows = begin(net, stage, start, first, work)
    count = rows // len(stage.betas)
    for step in range(1, max_steps + 1):
        take_step(net, stage, work, rows)
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
