"""The relaxation: rows of samples that still move, the map `T`, and the plain solvers."""

import math

from engine.compiled.addresses import call
from engine.compiled.compiler import compiled, inner
from engine.compiled.messages import send
from engine.compiled.parts import clear, copy, part, part_of_row
from engine.compiled.program import (
    ACTIVATION,
    BEND,
    BEND_FURTHER,
    LAYER,
    OFFSET,
    SIZE,
    SOURCE,
    TARGET,
)
from engine.compiled.reading import nudge


@inner
def begin(net, stage, start, first, work):
    """Lay the states of the samples from `first` on out in blocks, once for each phase.

    There are as many as the buffers have room for; all move. Displacements begin at zero. Returns
    the number of rows.
    """
    capacity, count = len(work.order), len(work.order) // len(stage.betas)
    for row in range(capacity):
        work.order[row] = row // count * len(start) + first + row % count
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        # Only messages say where they go: with a kernel of its own any layer may be reached.
        moves = len(net.own) > 0
        for row in range(capacity):
            state = part(work.state, capacity * offset + row * size, size)
            if len(stage.origin) > 0:
                clear(state)
                continue
            copy(part_of_row(start, first + row % count, offset, size), state)
            for j in range(size):
                moves |= state[j] != 0
        work.stirred[k] = moves
    return capacity


@inner
def store(net, stage, work, states, row, ended):
    """Write a row of `states` out to its sample."""
    sample, capacity = work.order[row], len(work.order)
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        first = capacity * offset + row * size
        found, state = part_of_row(ended.state, sample, offset, size), part(states, first, size)
        copy(state, found)
        if len(stage.origin) > 0:
            copy(state, part_of_row(ended.moved, sample, offset, size))
            origin = part_of_row(stage.origin, sample % len(stage.origin), offset, size)
            for j in range(size):
                found[j] = origin[j] + state[j]
        if len(ended.drive) > 0:
            into = part_of_row(ended.drive, sample, offset, size)
            copy(part(work.drive, first, size), into)


@inner
def _activate(net, stage, work, turn, rows):
    """Replace the layers whose turn it is by their image, and leave what they were in `before`.

    Raises the residual of each row to its largest change. The bits of non-negative floats are
    ordered as the floats are, with NaN above all: an integer maximum is exact, needs no fastmath to
    be vectorised, and cannot lose a NaN.
    """
    capacity = len(work.order)
    gap, gap_bits = work.gap, work.gap_bits
    bend = net.calls[BEND_FURTHER if len(stage.origin) > 0 else BEND]
    for k in range(len(stage.turns)):
        if stage.turns[k] != turn:
            continue
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        activation = net.layers[k, ACTIVATION]
        for i in range(rows):
            first = capacity * offset + i * size
            held = part_of_row(stage.clamped, work.order[i] % len(stage.clamped), offset, size)
            old, new = part(work.before, first, size), part(work.state, first, size)
            copy(new, old)
            drive = part(work.drive, first, size)
            if len(net.compliance) > 0:
                for j in range(size):
                    gap[j] = drive[j] * net.compliance[offset + j]
                call(bend, activation, part(gap, 0, size), held, new)
            else:
                call(bend, activation, drive, held, new)
            for j in range(size):
                gap[j] = abs(new[j] - old[j])
            worst = work.residual_bits[i]
            for j in range(size):
                worst = max(worst, gap_bits[j])
            work.residual_bits[i] = worst


@inner
def take_step(net, stage, work, rows, alike):
    """Replace the state by `T(s)`, turn by turn, and write the residual of each row.

    If the states are `alike` in every phase, the drive of one phase serves all of them, or a known
    one; then all layers have the same turn.
    """
    clear(part(work.residual_bits, 0, rows))
    read, known = net.readout[LAYER], alike and len(stage.known) > 0
    sent = rows // len(stage.betas) if alike else rows
    for turn in range(stage.last_turn + 1):
        if not known:
            send(net, stage, work, turn, sent)
        if known or sent < rows:
            _share(net, stage, work, sent, rows, known)
        nudged = stage.betas[0] != 0.0 and stage.turns[read] == turn
        if nudged:
            nudge(net, stage, work, rows)
        _activate(net, stage, work, turn, rows)
        _stir(net, stage, work, turn, nudged)


@inner
def _share(net, stage, work, count, rows, known):
    """Write the drive that is known to all rows, or that of the first `count` to the others."""
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        first = len(work.order) * offset
        for i in range(0 if known else count, rows):
            drive = part(work.drive, first + i * size, size)
            if known:
                sample = work.order[i] % len(stage.clamped)
                copy(part_of_row(stage.known, sample, offset, size), drive)
            else:
                copy(part(work.drive, first + i % count * size, size), drive)


@inner
def _stir(net, stage, work, turn, nudged):
    """Note which layers have something to send after a turn."""
    turns, stirred = stage.turns, work.stirred
    if len(stage.origin) == 0:  # what no step changes drives a state, if nothing else does
        for k in range(len(turns)):
            stirred[k] |= turns[k] == turn
        return
    for m in range(len(net.messages)):  # a layer that is told too early sends zeros
        source, target = net.messages[m, SOURCE], net.messages[m, TARGET]
        stirred[target] |= turns[target] == turn and stirred[source]
    stirred[net.readout[LAYER]] |= nudged


@inner
def retire(net, stage, work, tolerance, step, rows, ended):
    """Store the rows that have settled, close the gaps they leave, and count those that move.

    A row that settled is left as it was before the step. A residual that is not a number is noted
    and ends the relaxation: the count is then zero.
    """
    capacity = len(work.order)
    diverged = False
    for i in range(rows):
        ended.residual[work.order[i]] = work.residual[i]
        ended.steps[work.order[i]] = step
        diverged |= math.isnan(work.residual[i])
    for i in range(rows - 1, -1, -1):
        if work.residual[i] > tolerance and not diverged:
            continue
        store(net, stage, work, work.before, i, ended)
        rows -= 1
        if i == rows:
            continue
        work.order[i] = work.order[rows]
        work.residual[i] = work.residual[rows]
        for k in range(len(net.layers)):
            first, size = capacity * net.layers[k, OFFSET], net.layers[k, SIZE]
            for buffer in (work.state, work.before, work.drive):
                copy(part(buffer, first + rows * size, size), part(buffer, first + i * size, size))
    return rows


@inner
def _dampen(net, work, damping, rows):
    """Go only so far of the step: `s <- s + damping (T(s) - s)`."""
    capacity = len(work.order)
    for k in range(len(net.layers)):
        first, size = capacity * net.layers[k, OFFSET], rows * net.layers[k, SIZE]
        state, before = part(work.state, first, size), part(work.before, first, size)
        for j in range(size):
            state[j] = before[j] + damping * (state[j] - before[j])


@compiled
def relax_fixed_point(
    relax_at, step_at, net, stage, start, first, work, damping, tolerance, max_steps, ended
):
    """Relax by `take_damped_steps`, which lies at an address."""
    limits = (damping, tolerance, max_steps, ended)
    call(relax_at, step_at, net, stage, start, first, work, *limits)


@inner
def take_damped_steps(
    step_at, net, stage, start, first, work, damping, tolerance, max_steps, ended
):
    """Relax by damped steps, which `take_step` at an address takes; then store what still moves."""
    rows = begin(net, stage, start, first, work)
    alike = len(stage.origin) == 0 and stage.last_turn == 0
    for step in range(1, max_steps + 1):
        call(step_at, net, stage, work, rows, alike and step == 1)
        rows = retire(net, stage, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        if damping != 1.0:
            _dampen(net, work, damping, rows)
    if len(ended.drive) > 0 and stage.refresh:  # that of the last step is of the states before it
        send(net, stage, work, stage.last_turn, rows)
    for i in range(rows):
        store(net, stage, work, work.state, i, ended)


@compiled
def find_drive(net, stage, start, first, work, drive):
    """Write the recurrent drive of states `(samples, units)`, of those in the buffers, to `drive`.

    The turns of the stage are one.
    """
    rows = begin(net, stage, start, first, work)
    send(net, stage, work, stage.last_turn, rows)
    for i in range(rows):
        for k in range(len(net.layers)):
            offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
            sent = part(work.drive, rows * offset + i * size, size)
            copy(sent, part_of_row(drive, first + i, offset, size))
