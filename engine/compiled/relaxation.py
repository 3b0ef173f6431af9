"""The relaxation: rows of samples that still move, the map `T`, and the plain solvers."""

import math

import numpy as np

from engine.compiled.compiler import compiled
from engine.compiled.functions import bend, bend_further
from engine.compiled.messages import send
from engine.compiled.program import LAYER, OFFSET, SIZE, SOURCE, TARGET, block, part_of, row_of
from engine.compiled.reading import nudge


@compiled
def begin(net, stage, start, first, work):
    """Lay the states of the samples from `first` on out in blocks, once for each phase.

    There are as many as the buffers have room for; all move. Displacements begin at zero. Returns
    the number of rows.
    """
    count = len(work.order) // len(stage.betas)
    displaced = len(stage.origin) > 0
    for p in range(len(stage.betas)):
        for k in range(count):
            row = p * count + k
            work.order[row] = p * len(start) + first + k
            for layer in net.layers:
                state = row_of(work.state, len(work.order), layer, row)
                if displaced:
                    state[:] = 0
                else:
                    state[:] = part_of(start[first + k], layer)
    for k in range(len(net.layers)):
        # Only messages say where they go: with a kernel of its own any layer may be reached.
        states = block(work.state, len(work.order), net.layers[k], len(work.order))
        moves = not displaced and np.any(states.ravel())
        work.stirred[k] = moves or len(net.own) > 0
    return len(work.order)


@compiled
def store(net, stage, work, states, row, ended):
    """Write a row of `states` out to its sample."""
    sample, capacity = work.order[row], len(work.order)
    for layer in net.layers:
        found, state = part_of(ended.state[sample], layer), row_of(states, capacity, layer, row)
        if len(stage.origin) > 0:
            moved = part_of(ended.moved[sample], layer)
            origin = part_of(stage.origin[sample % len(stage.origin)], layer)
            for j in range(state.size):
                moved[j] = state[j]
                found[j] = origin[j] + state[j]
        else:
            found[:] = state
        if len(ended.drive) > 0:
            part_of(ended.drive[sample], layer)[:] = row_of(work.drive, capacity, layer, row)


@compiled
def _activate(net, stage, work, turn, rows):
    """Replace the layers whose turn it is by their image, and leave what they were in `before`.

    Raises the residual of each row to its largest change. The bits of non-negative floats are
    ordered as the floats are, with NaN above all: an integer maximum is exact, needs no fastmath to
    be vectorised, and cannot lose a NaN.
    """
    capacity = len(work.order)
    gap, gap_bits = work.gap, work.gap_bits
    for k in range(len(stage.turns)):
        if stage.turns[k] != turn:
            continue
        layer = net.layers[k]
        for i in range(rows):
            held = part_of(stage.clamped[work.order[i] % len(stage.clamped)], layer)
            old = row_of(work.before, capacity, layer, i)
            new = row_of(work.state, capacity, layer, i)
            old[:] = new
            if len(stage.origin) > 0:
                bend_further(layer, row_of(work.drive, capacity, layer, i), held, new)
            else:
                bend(layer, row_of(work.drive, capacity, layer, i), held, new)
            for j in range(new.size):
                gap[j] = abs(new[j] - old[j])
            worst = work.residual_bits[i]
            for j in range(new.size):
                worst = max(worst, gap_bits[j])
            work.residual_bits[i] = worst


@compiled
def take_step(net, stage, work, rows):
    """Replace the state by `T(s)`, turn by turn, and write the residual of each row."""
    work.residual_bits[:rows] = 0
    for turn in range(stage.turns.max() + 1):
        send(net, stage, work, turn, rows)
        _respond(net, stage, work, turn, rows)


@compiled
def _take_first_step(net, stage, work, rows):
    """Do the same to states that begin alike in every phase: one product serves all of them."""
    count, samples = rows // len(stage.betas), len(stage.clamped)
    known = len(stage.known) > 0
    if not known:
        send(net, stage, work, 0, count)
    for layer in net.layers:
        drive = block(work.drive, len(work.order), layer, rows)
        for i in range(0 if known else count, rows):
            sample = work.order[i] % samples
            drive[i] = part_of(stage.known[sample], layer) if known else drive[i % count]
    work.residual_bits[:rows] = 0
    _respond(net, stage, work, 0, rows)


@compiled
def _respond(net, stage, work, turn, rows):
    """Turn the recurrent drive into the next state of the layers whose turn it is."""
    read, turns, stirred = net.readout[LAYER], stage.turns, work.stirred
    nudged = stage.betas[0] != 0.0 and turns[read] == turn
    if nudged:
        nudge(net, stage, work, rows)
    _activate(net, stage, work, turn, rows)
    if stirred.all():
        return
    if len(stage.origin) == 0:  # what no step changes drives a state, if nothing else does
        for k in range(len(turns)):
            stirred[k] = stirred[k] or turns[k] == turn
        return
    for message in net.messages:  # a layer that is told too early sends zeros
        if turns[message[TARGET]] == turn and stirred[message[SOURCE]]:
            stirred[message[TARGET]] = True
    if nudged:
        stirred[read] = True


@compiled
def retire(net, stage, work, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A row that settled is left as it was before the step. A residual that is not a number is noted
    and ends the relaxation: the count is then zero.
    """
    capacity = len(work.order)
    for i in range(rows - 1, -1, -1):
        sample = work.order[i]
        ended.residual[sample] = work.residual[i]
        ended.steps[sample] = step
        if work.residual[i] > tolerance:
            continue
        if math.isnan(work.residual[i]):
            for row in range(rows):
                store(net, stage, work, work.before, row, ended)
            return 0
        store(net, stage, work, work.before, i, ended)
        rows -= 1
        if i == rows:
            continue  # numba would allocate a copy of a row that is assigned to itself
        work.order[i] = work.order[rows]
        for layer in net.layers:
            for buffer in (work.state, work.before, work.drive):
                row_of(buffer, capacity, layer, i)[:] = row_of(buffer, capacity, layer, rows)
        work.residual[i] = work.residual[rows]
    return rows


@compiled
def _dampen(net, work, damping, rows):
    """Go only so far of the step: `s <- s + damping (T(s) - s)`."""
    capacity = len(work.order)
    for layer in net.layers:
        first = capacity * layer[OFFSET]
        for j in range(first, first + rows * layer[SIZE]):
            work.state[j] = work.before[j] + damping * (work.state[j] - work.before[j])


@compiled
def relax_fixed_point(net, stage, start, first, work, damping, tolerance, max_steps, ended):
    """Relax by damped steps; the layers change at once, or turn by turn."""
    rows = begin(net, stage, start, first, work)
    alike = len(stage.origin) == 0 and stage.turns.max() == 0
    for step in range(1, max_steps + 1):
        if step == 1 and alike:
            _take_first_step(net, stage, work, rows)
        else:
            take_step(net, stage, work, rows)
        rows = retire(net, stage, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        if damping != 1.0:
            _dampen(net, work, damping, rows)
    if len(ended.drive) > 0 and stage.refresh:
        send(net, stage, work, 0, rows)  # that of the last step is of the states before it
    for i in range(rows):
        store(net, stage, work, work.state, i, ended)


@compiled
def find_drive(net, stage, start, first, work, drive):
    """Write the recurrent drive of states `(samples, units)`, of those in the buffers, to `drive`.

    The turns of the stage are one.
    """
    rows = begin(net, stage, start, first, work)
    send(net, stage, work, 0, rows)
    for i in range(rows):
        for layer in net.layers:
            part_of(drive[first + i], layer)[:] = row_of(work.drive, len(work.order), layer, i)
