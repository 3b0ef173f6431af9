"""The relaxation: rows of samples that still move, the map `T`, and the plain solvers."""

import math

from engine.compiled.compiler import compiled
from engine.compiled.functions import bend
from engine.compiled.messages import send
from engine.compiled.program import BOTH, HALF, LAYER, OFFSET, SIZE, Buffers, block, part_of, row_of
from engine.compiled.reading import nudge


@compiled
def begin(net, stage, start, first, work):
    """Lay the states of the samples from `first` on out in blocks, once for each phase.

    There are as many as the buffers have room for; all move. Returns the number of rows.
    """
    count = len(work.order) // len(stage.betas)
    for p in range(len(stage.betas)):
        for k in range(count):
            row = p * count + k
            work.order[row] = p * len(start) + first + k
            for layer in net.layers:
                row_of(work.state, len(work.order), layer, row)[:] = part_of(
                    start[first + k], layer
                )
    return len(work.order)


@compiled
def store(net, work, row, ended):
    """Write a row of the state out to its sample."""
    sample, capacity = work.order[row], len(work.order)
    for layer in net.layers:
        part_of(ended.state[sample], layer)[:] = row_of(work.state, capacity, layer, row)
        if len(ended.drive) > 0:
            part_of(ended.drive[sample], layer)[:] = row_of(work.drive, capacity, layer, row)


@compiled
def _activate(net, stage, work, half, rows):
    """Write `T(s)` to `mapped`; raise the residual of each row to its largest gap.

    The bits of non-negative floats are ordered as the floats are, with NaN above all: an integer
    maximum is exact, needs no fastmath to be vectorised, and cannot lose a NaN.
    """
    capacity = len(work.order)
    gap, gap_bits = work.gap, work.gap_bits
    for layer in net.layers:
        if half not in (BOTH, layer[HALF]):
            continue
        for i in range(rows):
            clamped = part_of(stage.clamped[work.order[i] % len(stage.clamped)], layer)
            old = row_of(work.state, capacity, layer, i)
            new = row_of(work.mapped, capacity, layer, i)
            bend(layer, row_of(work.drive, capacity, layer, i), clamped, new)
            for j in range(new.size):
                gap[j] = abs(new[j] - old[j])
            worst = work.residual_bits[i]
            for j in range(new.size):
                worst = max(worst, gap_bits[j])
            work.residual_bits[i] = worst


@compiled
def map_half(net, stage, work, half, rows):
    """Write `T(s)` of the layers in `half` to `mapped`, and the residual of each row."""
    send(net, work, half, rows)
    _respond(net, stage, work, half, rows)


@compiled
def _map_first(net, stage, work, rows):
    """Do the same in the first step: every phase starts alike, so one product serves all."""
    count, samples = rows // len(stage.betas), len(stage.clamped)
    known = len(stage.known) > 0
    if not known:
        send(net, work, BOTH, count)
    for layer in net.layers:
        drive = block(work.drive, len(work.order), layer, rows)
        for i in range(0 if known else count, rows):
            sample = work.order[i] % samples
            drive[i] = part_of(stage.known[sample], layer) if known else drive[i % count]
    _respond(net, stage, work, BOTH, rows)


@compiled
def _respond(net, stage, work, half, rows):
    """Turn the recurrent drive into `T(s)` in `mapped`, and note the residual of each row."""
    if stage.betas[0] != 0.0 and half in (BOTH, net.layers[net.readout[LAYER]][HALF]):
        nudge(net, stage, work, rows)
    work.residual_bits[:rows] = 0
    _activate(net, stage, work, half, rows)


@compiled
def retire(net, work, tolerance, step, rows, ended):
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
            for row in range(rows):
                store(net, work, row, ended)
            return 0
        store(net, work, i, ended)
        rows -= 1
        if i == rows:
            continue  # numba would allocate a copy of a row that is assigned to itself
        work.order[i] = work.order[rows]
        for layer in net.layers:
            row_of(work.state, capacity, layer, i)[:] = row_of(work.state, capacity, layer, rows)
            row_of(work.mapped, capacity, layer, i)[:] = row_of(work.mapped, capacity, layer, rows)
        work.residual[i] = work.residual[rows]
    return rows


@compiled
def advance(net, work, half, damping, rows):
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


@compiled
def _exchanged(work):
    """Let the image be the state: a whole step without a copy."""
    return Buffers(
        work.mapped,
        work.drive,
        work.state,
        work.error,
        work.windows,
        work.starts,
        work.scratch,
        work.edge,
        work.order,
        work.gap,
        work.gap_bits,
        work.residual,
        work.residual_bits,
    )


@compiled
def relax_fixed_point(net, stage, start, first, work, damping, tolerance, max_steps, ended):
    """Relax by damped steps of the whole state."""
    rows = begin(net, stage, start, first, work)
    for step in range(1, max_steps + 1):
        if step == 1:
            _map_first(net, stage, work, rows)
        else:
            map_half(net, stage, work, BOTH, rows)
        rows = retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        if damping == 1.0:
            work = _exchanged(work)
        else:
            advance(net, work, BOTH, damping, rows)
    if len(ended.drive) > 0:
        send(net, work, BOTH, rows)  # that of the last step is of the states before it
    for i in range(rows):
        store(net, work, i, ended)


@compiled
def relax_alternating(net, stage, start, first, work, tolerance, max_steps, ended):
    """Relax one half of the layers from the other and back.

    After a step the second half equals its `T(s)`, and keeps to it while the first half is mapped:
    the residual of the first half is then that of the whole state.
    """
    rows = begin(net, stage, start, first, work)
    for step in range(1, max_steps + 1):
        map_half(net, stage, work, BOTH if step == 1 else 0, rows)
        rows = retire(net, work, tolerance, step, rows, ended)
        if rows == 0:
            return
        advance(net, work, 0, 1.0, rows)
        map_half(net, stage, work, 1, rows)
        advance(net, work, 1, 1.0, rows)
    for i in range(rows):
        store(net, work, i, ended)
