"""A lesson as kernels: the passage of rows from their input to how far a nudge displaces them, and
what the matrices learn from that.

Each does all that a core has to do in one call, so that no core waits for the interpreter.
"""

import math
from typing import Any, NamedTuple

from engine.compiled.addresses import call
from engine.compiled.compiler import inner
from engine.compiled.parts import clear, copy, flat, part, part_of_row
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

RELAX, STEP, ANCHOR, SOFTMAX, PACK = range(5)  # addresses
COLUMN, FAN_IN, FAN_OUT, PLACE = range(4)  # inputs
LEFT, LEFT_COLUMN, RIGHT, RIGHT_COLUMN, ROWS, COLUMNS, BLOCK, IS_FIRST = range(8)  # products
SUMMED, SUMMED_COLUMN, SUMMED_SIZE, SHARED, SUM_BLOCK = range(5)  # sums
INPUT_COLUMNS, PRODUCT_COLUMNS, SUM_COLUMNS = 4, 8, 5
GAP, MIDDLE, FREE, SAMPLE, ERROR = range(5)  # batches


class Desk(NamedTuple):
    """Tables of a lesson, and room that all its steps share.

    Batches are `(samples, units)`, but for `errors (samples, outputs)`.
    """

    inputs: Any
    """A row for each matrix of the input: the first column that it drives, its shape, its place."""
    late: Any
    """Whether a layer begins at zero, `(layers,)`."""
    drive: Any
    begin: Any
    anchor: Any
    gaps: Any
    middles: Any
    errors: Any


class Learns(NamedTuple):
    """What parameters learn from, as tables."""

    products: Any
    """A row for each product of two batches that a matrix learns: from which columns of each, how
    many of each, where its block of the gradient begins, and whether it is the first there."""
    sums: Any
    """A row for each bias: columns of a batch, by how many they share a number, and its block."""
    tied: Any
    """A row for each matrix that is made symmetric: where its block begins, and its units."""


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


@inner
def relax_rows(ways, net, matter, desk, free, nudged, is_told, first, stop, work):
    """Take samples from their input to the displacements of a nudge, and to their errors.

    The free phase begins in `desk.begin`, which is written unless it `is_told`. Says whether all
    states are finite.
    """
    calls, layers, drive = net.calls, net.layers, desk.drive
    _send_input(calls, matter, desk.inputs, drive, first, stop, work.edge)
    if not is_told:
        begin_rows(calls, layers, desk.late, drive, desk.begin, first, stop, work.drive)
    told = (free.damping, free.tolerance, free.max_steps, free.ended)
    call(ways[RELAX], ways[STEP], net, free.stage, desk.begin, first, work, *told)
    known = (free.ended.drive, net.compliance)
    call(ways[ANCHOR], layers, drive, *known, first, stop, desk.anchor)
    told = (nudged.damping, nudged.tolerance, nudged.max_steps, nudged.ended)
    call(ways[RELAX], ways[STEP], net, nudged.stage, free.ended.state, first, work, *told)
    _read(ways, net, matter, desk, free.ended, first, stop, work)
    start, size = first * desk.drive.shape[1], (stop - first) * desk.drive.shape[1]
    here = part(flat(free.ended.state), start, size)
    there = part(flat(nudged.ended.state), start, size)
    moved, gap = part(flat(nudged.ended.moved), start, size), part(flat(desk.gaps), start, size)
    _compare(here, there, moved, matter.energy, gap, part(flat(desk.middles), start, size))
    fine = _is_finite(here) & _is_finite(there)
    residuals = part(free.ended.residual, first, stop - first)
    fine &= _is_finite(residuals)
    return fine & _is_finite(part(nudged.ended.residual, first, stop - first))


@inner
def _send_input(calls, matter, inputs, drives, first, stop, edge):
    """Write the drive that no step changes."""
    units, rows = len(matter.bias), stop - first
    x, drive = flat(matter.x), part(flat(drives), first * units, rows * units)
    for i in range(rows):
        copy(matter.bias, part(drive, i * units, units))
    for k in range(len(inputs)):
        row = part_of_row(inputs, k, 0, INPUT_COLUMNS)
        column, fan_in, place = row[COLUMN], row[FAN_IN], row[PLACE]
        sent = part(x, first * fan_in, rows * fan_in)
        packed = part(matter.inputs, place, matter.inputs.size - place)
        into = part(drive, column, drive.size - column)
        call(calls[PRODUCT], sent, rows, fan_in, packed, into, row[FAN_OUT], units, edge)


@inner
def begin_rows(calls, layers, late, drive, begin, first, stop, room):
    """Write the states that the input alone makes; a layer that is late begins at zero."""
    silent = part(room, 0, drive.shape[1])
    clear(silent)
    for k in range(len(layers)):
        offset, size = layers[k, OFFSET], layers[k, SIZE]
        nothing = part(silent, offset, size)
        for i in range(first, stop):
            state = part_of_row(begin, i, offset, size)
            if late[k]:
                clear(state)
                continue
            held = part_of_row(drive, i, offset, size)
            call(calls[BEND], layers[k, ACTIVATION], nothing, held, state)


@inner
def _read(ways, net, matter, desk, free, first, stop, work):
    """Write the errors and the costs of the free states."""
    layer, outputs = net.readout[LAYER], net.readout[OUTPUTS]
    offset, size, rows = net.layers[layer, OFFSET], net.layers[layer, SIZE], stop - first
    bias, place = part(net.theta, net.readout[BIAS], outputs), net.readout[PACKED_OUT]
    packed = part(net.packed, place, net.packed.size - place)
    errors = part(flat(desk.errors), first * outputs, rows * outputs)
    for i in range(rows):
        state = part_of_row(free.state, first + i, offset, size)
        copy(state, part(work.read, i * size, size))
        copy(bias, part(errors, i * outputs, outputs))
    call(net.calls[PRODUCT], work.read, rows, size, packed, errors, outputs, outputs, work.edge)
    call(ways[SOFTMAX], desk.errors, matter.y, matter.costs, first, stop)
    for j in range(errors.size):
        errors[j] *= matter.cost


@inner
def _compare(here, there, moved, energy, gap, middle):
    """Write what the matrices learn from: a multiple of the displacement, and the mean."""
    for j in range(gap.size):
        gap[j] = energy * moved[j]
    for j in range(gap.size):
        middle[j] = (there[j] + here[j]) / 2


@inner
def _is_finite(numbers):
    fine = True
    for j in range(numbers.size):
        fine &= math.isfinite(numbers[j])
    return fine


@inner
def correlate_rows(calls, learns, batches, gradient, core, cores, packed, turned, edge):
    """Write a core's rows of what each matrix learns; the first core writes what biases do.

    `batches` are in the order of their numbers. `packed` has room for one of them, `turned (TURNED,
    samples)` for so many columns of another.
    """
    for k in range(len(learns.products)):
        row = part_of_row(learns.products, k, 0, PRODUCT_COLUMNS)
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
            call(calls[PRODUCT], flat(turned), *shape, edge)
    for k in range(len(learns.sums) if core == 0 else 0):
        row = part_of_row(learns.sums, k, 0, SUM_COLUMNS)
        _sum_columns(batches[row[SUMMED]], row, gradient)


@inner
def _pack_columns(batch, first, columns, packed, width):
    """Pack columns of a batch, from the first on, as `pack` does."""
    padded = -(-columns // width) * width
    samples = len(batch)
    for i in range(samples):
        top = i // DEPTH * DEPTH
        depth = min(DEPTH, samples - top)
        for j in range(0, padded, width):
            into = part(packed, top * padded + j * depth + (i - top) * width, width)
            count = min(width, columns - j)
            copy(part_of_row(batch, i, first + j, count), part(into, 0, count))
            clear(part(into, count, width - count))


@inner
def _turn(batch, first, count, turned):
    """Write columns of a batch as the first rows of `turned`."""
    samples, into = len(batch), flat(turned)
    for s in range(samples):
        sample = part_of_row(batch, s, first, count)
        for i in range(count):
            into[i * samples + s] = sample[i]


@inner
def _sum_columns(batch, row, gradient):
    """Write what a bias learns: the sum of its columns, of all units that share it."""
    shared = row[SHARED]
    total = part(gradient, row[SUM_BLOCK], shared)
    clear(total)
    for s in range(len(batch)):
        for place in range(row[SUMMED_COLUMN], row[SUMMED_COLUMN] + row[SUMMED_SIZE], shared):
            units = part_of_row(batch, s, place, shared)
            for j in range(shared):
                total[j] += units[j]
