"""The read-out: its errors, its costs, and the nudge that it sends back."""

import math

from engine.compiled.compiler import compiled
from engine.compiled.products import add_product
from engine.compiled.program import (
    BIAS,
    KIND,
    LAYER,
    OFFSET,
    OUTPUTS,
    PACKED_BACK,
    PACKED_OUT,
    PLACES,
    SIZE,
    SQUARED_ERROR,
    part_of,
    row_of,
)


@compiled
def softmax_error(row, target, scale):
    """Turn the logits in `row` into `scale (p - y)`; return the cost `-sum_k y_k ln p_k`."""
    peak = row.max()
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
def softmax_errors(logits, targets, costs):
    """Turn `logits (samples, outputs)` into `p - y` in place, and write the cost of each sample."""
    for i in range(len(logits)):
        costs[i] = softmax_error(logits[i], targets[i], 1.0)


@compiled
def _read(stage, work, layer, row):
    """View the state of a row in a layer; that of a displaced one is first written to `read`."""
    state = row_of(work.state, len(work.order), layer, row)
    if len(stage.origin) == 0:
        return state
    s = work.read[row * layer[SIZE] : (row + 1) * layer[SIZE]]
    origin = part_of(stage.origin[work.order[row] % len(stage.origin)], layer)
    for j in range(s.size):
        s[j] = origin[j] + state[j]
    return s


@compiled
def nudge(net, stage, work, rows):
    """Subtract `beta dC/ds` from the drive of the layer that is read out.

    A displaced sample is read where it is, with the rounding of a state: beta is a factor of it.
    """
    capacity, samples = len(work.order), len(stage.targets)
    layer = net.layers[net.readout[LAYER]]
    size, outputs = layer[SIZE], net.readout[OUTPUTS]
    if net.readout[KIND] == SQUARED_ERROR:
        for i in range(rows):
            target = stage.targets[work.order[i] % samples]
            beta = stage.betas[work.order[i] // samples]
            s = _read(stage, work, layer, i)
            drive = row_of(work.drive, capacity, layer, i)
            for j in range(size):
                drive[j] -= beta * (s[j] - target[j])
        return
    s = work.state[capacity * layer[OFFSET] :]
    if len(stage.origin) > 0:
        s = work.read
        for i in range(rows):
            _read(stage, work, layer, i)
    drive = work.drive[capacity * layer[OFFSET] :]
    out, back = net.packed[net.readout[PACKED_OUT] :], net.packed[net.readout[PACKED_BACK] :]
    # The units of a place lie side by side: its rows are those of the places.
    places = net.readout[PLACES]
    all_places, width = rows * places, size // places
    error = work.error[: all_places * outputs]
    slopes = error.reshape((all_places, outputs))
    slopes[:] = net.theta[net.readout[BIAS] : net.readout[BIAS] + outputs]
    add_product(s, all_places, width, out, error, outputs, outputs, work.edge)
    for i in range(rows):
        phase_of, sample = divmod(work.order[i], samples)
        for p in range(places):
            target = stage.targets[sample][p * outputs : (p + 1) * outputs]
            softmax_error(slopes[i * places + p], target, -stage.betas[phase_of])
    add_product(error, all_places, outputs, back, drive, width, width, work.edge)
