"""The read-out: its errors, its costs, and the nudge that it sends back."""

import math

from engine.compiled.addresses import call
from engine.compiled.compiler import compiled, inner
from engine.compiled.parts import copy, part, part_of_row
from engine.compiled.program import (
    BIAS,
    KIND,
    LAYER,
    OFFSET,
    OUTPUTS,
    PACKED_BACK,
    PACKED_OUT,
    PLACES,
    PRODUCT,
    SIZE,
    SQUARED_ERROR,
)


@inner
def softmax_error(row, target, scale):
    """Turn the logits in `row` into `scale (p - y)`; return the cost `-sum_k y_k ln p_k`."""
    peak = row[0]
    for k in range(1, row.size):
        peak = max(peak, row[k])
    total = cost = 0.0
    for k in range(row.size):
        shifted = row[k] - peak
        cost -= target[k] * shifted
        row[k] = math.exp(shifted)
        total += row[k]
    for k in range(row.size):
        row[k] = scale * (row[k] / total - target[k])
    return cost + math.log(total)  # the targets add up to one


@compiled
def softmax_errors(logits, targets, costs, first, stop):
    """Turn `logits (samples, outputs)` into `p - y` in place, and write the cost of each sample.

    Only of those from `first` to `stop`.
    """
    one = costs.dtype.type(1)
    for i in range(first, stop):
        costs[i] = softmax_error(logits[i], targets[i], one)


@inner
def _read(net, stage, work, rows):
    """Write the states of displaced rows to `work.read`: where they began, and how far they are."""
    layer = net.readout[LAYER]
    offset, size = net.layers[layer, OFFSET], net.layers[layer, SIZE]
    for i in range(rows):
        origin = part_of_row(stage.origin, work.order[i] % len(stage.origin), offset, size)
        state = part(work.state, len(work.order) * offset + i * size, size)
        s = part(work.read, i * size, size)
        for j in range(size):
            s[j] = origin[j] + state[j]


@inner
def nudge(net, stage, work, rows):
    """Subtract `beta dC/ds` from the drive of the layer that is read out.

    A displaced sample is read where it is, with the rounding of a state: beta is a factor of it.
    """
    samples, layer, outputs = len(stage.targets), net.readout[LAYER], net.readout[OUTPUTS]
    first, size = len(work.order) * net.layers[layer, OFFSET], net.layers[layer, SIZE]
    states, drive = part(work.state, first, rows * size), part(work.drive, first, rows * size)
    if len(stage.origin) > 0:
        _read(net, stage, work, rows)
        states = work.read
    if net.readout[KIND] == SQUARED_ERROR:
        for i in range(rows):
            target = part_of_row(stage.targets, work.order[i] % samples, 0, size)
            beta = stage.betas[work.order[i] // samples]
            s, sent = part(states, i * size, size), part(drive, i * size, size)
            for j in range(size):
                sent[j] -= beta * (s[j] - target[j])
        return
    # The units of a place lie side by side: its rows are those of the places.
    places = net.readout[PLACES]
    width, bias = size // places, part(net.theta, net.readout[BIAS], outputs)
    for i in range(rows * places):
        copy(bias, part(work.error, i * outputs, outputs))
    _multiply(net, work, states, rows * places, width, net.readout[PACKED_OUT], work.error, outputs)
    for i in range(rows * places):
        phase_of, sample = divmod(work.order[i // places], samples)
        target = part_of_row(stage.targets, sample, i % places * outputs, outputs)
        softmax_error(part(work.error, i * outputs, outputs), target, -stage.betas[phase_of])
    _multiply(net, work, work.error, rows * places, outputs, net.readout[PACKED_BACK], drive, width)


@inner
def _multiply(net, work, rows_of, rows, inner, place, into, columns):
    """Add a product with the packed matrix at a place to `into (rows, columns)`."""
    packed = net.packed[place:]
    call(net.calls[PRODUCT], rows_of, rows, inner, packed, into, columns, columns, work.edge)
