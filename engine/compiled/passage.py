"""A lesson as kernels: the passage of rows from their input to how far a nudge displaces them, and
what the matrices learn from that.

Each does all that a core has to do in one call, so that no core waits for the interpreter.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
# mypy: disable-error-code="call-arg"

import math
from typing import Any, NamedTuple

from engine.compiled.addresses import call
from engine.compiled.compiler import compiled, inner
from engine.compiled.parts import clear, copy, part
from engine.compiled.products import DEPTH, TURNED
from engine.compiled.program import (
    ACTIVATION,
    BEND,
    BIAS,
    LAYER,
    OFFSET,
    OUTPUTS,
    PACKED_OUT,
    PRODUCT,
    SIZE,
)

STEP, RELAX, ANCHOR, SOFTMAX = range(4)  # addresses
COLUMN, FAN_IN, FAN_OUT, PLACE = range(4)  # inputs
LEFT, LEFT_COLUMN, RIGHT, RIGHT_COLUMN, ROWS, COLUMNS, BLOCK, IS_FIRST = range(8)  # products
SUMMED, SUMMED_COLUMN, SUMMED_SIZE, SHARED, SUM_BLOCK = range(5)  # sums
GAP, MIDDLE, FREE, SAMPLE, ERROR = range(5)  # batches


class Desk(NamedTuple):
    """Tables of a lesson, and room that all its steps share.

    Batches are `(samples, units)`, but for `errors (samples, outputs)`.
    """

    inputs: Any
    """A row for each matrix of the input: the first column that it drives, its shape, its place."""
    late: Any
    """Whether a layer begins at zero, `(layers,)`."""
    products: Any
    """A row for each product of two batches that a matrix learns: from which columns of each, how
    many of each, where its block of the gradient begins, and whether it is the first there."""
    sums: Any
    """A row for each bias: columns of a batch, by how many they share a number, and its block."""
    drive: Any
    begin: Any
    anchor: Any
    gaps: Any
    middles: Any
    errors: Any


class Matter(NamedTuple):
    """A batch `x`, `y` and its costs; the drive of the biases and the packed input matrices."""

    x: Any
    y: Any
    costs: Any
    bias: Any
    inputs: Any
    energy: Any
    """What a difference of energies counts in the gradient."""
    cost: Any
    """What a cost counts."""


class Course(NamedTuple):
    """A stage of a lesson, how it looks for an equilibrium, and where it ends."""

    stage: Any
    damping: Any
    tolerance: Any
    max_steps: Any
    ended: Any


@compiled
def relax_rows(ways, net, matter, desk, free, nudged, is_told, first, stop, work):
    """Take samples from their input to the displacements of a nudge, and to their errors.

    The free phase begins in `desk.begin`, which is written unless it `is_told`. Says whether all
    states are finite.
    """
    _send_input(net, matter, desk, first, stop, work)
    if not is_told:
        _begin(net, desk, first, stop, work)
    _relax(ways, net, free, desk.begin, first, work)
    drive = free.ended.drive
    call(ways[ANCHOR], net.layers, desk.drive, drive, net.compliance, first, stop, desk.anchor)
    _relax(ways, net, nudged, free.ended.state, first, work)
    _read(ways, net, matter, desk, free.ended, first, stop, work)
    return _compare(matter, desk, free.ended, nudged.ended, first, stop)


@inner
def _relax(ways, net, course, start, first, work):
    """Run a stage on the samples from `first` on, as many as the buffers have room for."""
    limits = (course.damping, course.tolerance, course.max_steps)
    stage, ended = course.stage, course.ended
    call(ways[RELAX], ways[STEP], net, stage, start, first, work, *limits, ended)


@inner
def _send_input(net, matter, desk, first, stop, work):
    """Write the drive that no step changes."""
    units = desk.drive.shape[1]
    for i in range(first, stop):
        copy(matter.bias, desk.drive[i])
    drive, x = desk.drive.reshape(desk.drive.size), matter.x.reshape(matter.x.size)
    for k in range(len(desk.inputs)):
        row, rows = desk.inputs[k], stop - first
        column, fan_in, fan_out = row[COLUMN], row[FAN_IN], row[FAN_OUT]
        sent, packed = part(x, first * fan_in, rows * fan_in), matter.inputs[row[PLACE] :]
        into = part(drive, first * units + column, rows * units - column)
        call(net.calls[PRODUCT], sent, rows, fan_in, packed, into, fan_out, units, work.edge)


@inner
def _begin(net, desk, first, stop, work):
    """Write the states that the input alone makes; a layer that is late begins at zero."""
    silent = part(work.drive, 0, desk.drive.shape[1])
    clear(silent)
    for k in range(len(net.layers)):
        offset, size = net.layers[k, OFFSET], net.layers[k, SIZE]
        nothing = part(silent, offset, size)
        for i in range(first, stop):
            held, state = part(desk.drive[i], offset, size), part(desk.begin[i], offset, size)
            if desk.late[k]:
                clear(state)
            else:
                call(net.calls[BEND], net.layers[k, ACTIVATION], nothing, held, state)


@inner
def _read(ways, net, matter, desk, free, first, stop, work):
    """Write the errors and the costs of the free states."""
    layer, outputs = net.readout[LAYER], net.readout[OUTPUTS]
    offset, size, rows = net.layers[layer, OFFSET], net.layers[layer, SIZE], stop - first
    bias = part(net.theta, net.readout[BIAS], outputs)
    packed = net.packed[net.readout[PACKED_OUT] :]
    for i in range(rows):
        copy(part(free.state[first + i], offset, size), part(work.read, i * size, size))
        copy(bias, desk.errors[first + i])
    flat = part(desk.errors.reshape(desk.errors.size), first * outputs, rows * outputs)
    call(net.calls[PRODUCT], work.read, rows, size, packed, flat, outputs, outputs, work.edge)
    errors, targets = desk.errors[first:stop], matter.y[first:stop]
    call(ways[SOFTMAX], errors, targets, part(matter.costs, first, rows))
    for j in range(flat.size):
        flat[j] *= matter.cost


@inner
def _compare(matter, desk, free, nudged, first, stop):
    """Write what the matrices learn from, and say whether the states are finite."""
    fine = True
    for i in range(first, stop):
        fine &= math.isfinite(free.residual[i]) & math.isfinite(nudged.residual[i])
        here, there, moved = free.state[i], nudged.state[i], nudged.moved[i]
        gap, middle = desk.gaps[i], desk.middles[i]
        for j in range(gap.size):
            fine &= math.isfinite(here[j]) & math.isfinite(there[j])
        for j in range(gap.size):
            gap[j] = matter.energy * moved[j]
            middle[j] = (there[j] + here[j]) / 2
    return fine


@compiled
def correlate_rows(net, desk, batches, gradient, core, cores, packed, turned, edge):
    """Write a core's rows of what each matrix learns; the first core writes what biases do.

    `batches` are in the order of their numbers. `packed` has room for one of them, `turned (TURNED,
    samples)` for so many columns of another.
    """
    for k in range(len(desk.products)):
        row = desk.products[k]
        one, other, columns = batches[row[LEFT]], batches[row[RIGHT]], row[COLUMNS]
        _pack_columns(other, row[RIGHT_COLUMN], columns, packed, edge.shape[1])
        first, stop = row[ROWS] * core // cores, row[ROWS] * (core + 1) // cores
        block = part(gradient, row[BLOCK] + first * columns, (stop - first) * columns)
        if row[IS_FIRST] != 0:
            clear(block)
        for top in range(first, stop, TURNED):
            count = min(TURNED, stop - top)
            _turn(one, row[LEFT_COLUMN] + top, count, turned)
            into = part(block, (top - first) * columns, count * columns)
            shape = (count, len(one), packed, into, columns, columns)
            call(net.calls[PRODUCT], turned.reshape(turned.size), *shape, edge)
    for k in range(len(desk.sums) if core == 0 else 0):
        _sum_columns(batches[desk.sums[k, SUMMED]], desk.sums[k], gradient)


@inner
def _pack_columns(batch, first, columns, packed, width):
    """Pack columns of a batch, from the first on, as `pack` does."""
    padded = -(-columns // width) * width
    for i in range(len(batch)):
        top = i // DEPTH * DEPTH
        depth = min(DEPTH, len(batch) - top)
        for j in range(0, padded, width):
            into = part(packed, top * padded + j * depth + (i - top) * width, width)
            count = min(width, columns - j)
            copy(part(batch[i], first + j, count), part(into, 0, count))
            clear(part(into, count, width - count))


@inner
def _turn(batch, first, count, turned):
    """Write columns of a batch as the first rows of `turned`."""
    for s in range(len(batch)):
        sample = part(batch[s], first, count)
        for i in range(count):
            turned[i, s] = sample[i]


@inner
def _sum_columns(batch, row, gradient):
    """Write what a bias learns: the sum of its columns, of all units that share it."""
    shared = row[SHARED]
    total = part(gradient, row[SUM_BLOCK], shared)
    clear(total)
    for s in range(len(batch)):
        for place in range(row[SUMMED_COLUMN], row[SUMMED_COLUMN] + row[SUMMED_SIZE], shared):
            units = part(batch[s], place, shared)
            for j in range(shared):
                total[j] += units[j]
