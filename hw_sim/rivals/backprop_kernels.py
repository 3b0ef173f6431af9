"""Compiled backprop through layers of links, in scalar code like that of chips.

    s_l <- sigma(drive_l + what earlier layers send)           layer after layer, without steps
    s_t <- sigma(drive + what all layers send at s_(t-1))      all layers at once, step after step

The way back goes through the same messages from their targets to their sources. A message that is
read backwards has a block of its own behind the parameters (`hw_sim.chips.messages.hold`), and so
its gradient has one, too.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from engine.model.network import Network
from hw_sim.chips.kernel_arguments import (
    BLOCK,
    CODE,
    COLUMNS,
    END,
    PLACE,
    POSITIONS,
    READS,
    ROWS,
    SOURCE,
    START,
    TANH,
    TARGET,
    WRITES,
)

ARRIVED, SLOPED = range(2)  # rows of the deltas
HERE, THERE, WEIGHTS = range(3)  # of a message
HARD_SIGMOID, MIRRORED_RELU, LINEAR = 1, 3, 4


class SampleWords(NamedTuple):
    """Words of one sample: `trajectory (steps + 1, units)`, `drive (1, units)`, deltas as they
    arrive and times the slopes `(2, units)`, their sum over the steps `(1, units)`, and the error
    of the outputs `(1, outputs)`."""

    trajectory: Any
    drive: Any
    delta: Any
    delta_sum: Any
    error: Any


class Slopes(NamedTuple):
    """Gradients: of held words, of the sum of the biases of each unit, of those of the outputs."""

    weights: Any
    bias: Any
    out: Any


def new_memory(network: Network, steps: int) -> SampleWords:
    """Return the memory of one sample that is run for so many steps."""
    units, rows = network.units, (steps + 1, 1, 2, 1)
    return SampleWords(*(np.zeros((n, units)) for n in rows), np.zeros((1, network.outputs)))


@njit(cache=True)
def backpropagate(x, y, steps, feeds, wires, memory, slopes):
    """Add the gradient of every sample to `slopes`; return the summed cost."""
    cost = 0.0
    for n in range(x.shape[0]):
        _forward(n, x, steps, feeds, wires, memory)
        cost += _read_out(n, y, steps, wires, memory)
        _read_back(steps, wires, memory, slopes)
        _backward(steps, wires, memory, slopes)
        for m in range(feeds.messages.table.shape[0]):
            _add_slope(WEIGHTS, x, n, slopes.weights, memory.delta_sum, 0, feeds.messages, m)
        for u in range(memory.delta_sum.shape[1]):
            slopes.bias[u] = slopes.bias[u] + memory.delta_sum[0, u]
    return cost


@njit(cache=True)
def predict(x, y, steps, feeds, wires, memory, outputs):
    """Write the softmax of every sample, minus `y`, into `outputs (samples, outputs)`."""
    for n in range(x.shape[0]):
        _forward(n, x, steps, feeds, wires, memory)
        _read_out(n, y, steps, wires, memory)
        for k in range(outputs.shape[1]):
            outputs[n, k] = memory.error[0, k]


@njit(cache=True)
def _activated(h, code):
    if code == TANH:
        return math.tanh(h)
    if code == HARD_SIGMOID:
        return min(max(h, 0.0), 1.0)
    if code == LINEAR:
        return h
    if code == MIRRORED_RELU:
        return min(h, 0.0)
    return max(h, 0.0)


@njit(cache=True)
def _slope(state, code):
    """Return the slope of an activation where it has this value."""
    if code == TANH:
        return 1.0 - state * state
    if code == LINEAR:
        return 1.0
    if code == MIRRORED_RELU:
        return 1.0 if state < 0.0 else 0.0
    if state <= 0.0 or (code == HARD_SIGMOID and state >= 1.0):
        return 0.0
    return 1.0


@njit(cache=True)
def _unit(first, gather, start, at):
    """Return the unit `at` places after `first`, or that `gather` lists there; -1 is none."""
    if start < 0:
        return first + at
    unit = gather[start + at]
    return first + unit if unit >= 0 else -1


@njit(cache=True)
def _add_slope(of, here, n, weights, there, k, messages, m):
    """Add the slope of `here[n]' W there[k]` for message `m`, in one of the three, to that one.

    `here` are the words at its source, `there` those at its target, and its block lies in
    `weights`: so it sends (`THERE`), sends back (`HERE`) or learns (`WEIGHTS`).
    """
    rows, columns = messages.table[m, ROWS], messages.table[m, COLUMNS]
    first, reads = messages.table[m, SOURCE], messages.table[m, READS]
    target, writes = messages.table[m, TARGET], messages.table[m, WRITES]
    for p in range(messages.table[m, POSITIONS]):
        for r in range(rows):
            i = _unit(first, messages.gather, reads, p * rows + r)
            block = messages.table[m, BLOCK] + r * columns
            for c in range(columns if i >= 0 else 0):
                j = _unit(target, messages.gather, writes, p * columns + c)
                if j < 0:
                    continue
                if of == THERE:
                    there[k, j] = there[k, j] + here[n, i] * weights[block + c]
                elif of == HERE:
                    here[n, i] = here[n, i] + there[k, j] * weights[block + c]
                else:
                    weights[block + c] = weights[block + c] + here[n, i] * there[k, j]


@njit(cache=True)
def _stage(stage, steps, layers):
    """Return what a stage writes and sees, and its layers: rows, first layer, last layer.

    Without steps each layer is a stage of its own, of the only row; else all layers see the row
    before, and the first row sees none.
    """
    if steps == 0:
        return 0, 0, stage, stage + 1
    return stage, stage - 1, 0, layers


@njit(cache=True)
def _forward(n, x, steps, feeds, wires, memory):
    """Write the states of all stages into `memory.trajectory`."""
    layers, messages = wires.layers, wires.messages
    for u in range(memory.drive.shape[1]):
        memory.drive[0, u] = feeds.bias[u]
    for m in range(feeds.messages.table.shape[0]):
        weights = feeds.messages.weights
        _add_slope(THERE, x, n, weights, memory.drive, 0, feeds.messages, m)
    for stage in range(steps + 1 if steps else layers.shape[0]):
        row, seen, first, last = _stage(stage, steps, layers.shape[0])
        for u in range(layers[first, START], layers[last - 1, END]):
            memory.trajectory[row, u] = memory.drive[0, u]
        for m in range(messages.table.shape[0]):
            if seen >= 0 and first <= messages.table[m, PLACE] < last:
                states, weights = memory.trajectory, messages.weights
                _add_slope(THERE, states, seen, weights, states, row, messages, m)
        for k in range(first, last):
            for u in range(layers[k, START], layers[k, END]):
                total = memory.trajectory[row, u]
                memory.trajectory[row, u] = _activated(total, layers[k, CODE])


@njit(cache=True)
def _read_out(n, y, steps, wires, memory):
    """Write `softmax - y` of each position into `memory.error`; return the cost of the sample."""
    outputs, cost = wires.bias.shape[0], 0.0
    for k in range(memory.error.shape[1]):
        memory.error[0, k] = wires.bias[k % outputs]
    states, weights = memory.trajectory, wires.readout.weights
    _add_slope(THERE, states, steps, weights, memory.error, 0, wires.readout, 0)
    for first in range(0, memory.error.shape[1], outputs):
        largest = memory.error[0, first]
        for k in range(first + 1, first + outputs):
            largest = max(largest, memory.error[0, k])
        norm = 0.0
        for k in range(first, first + outputs):
            cost = cost - y[n, k] * (memory.error[0, k] - largest)
            memory.error[0, k] = math.exp(memory.error[0, k] - largest)
            norm = norm + memory.error[0, k]
        for k in range(first, first + outputs):
            memory.error[0, k] = memory.error[0, k] / norm - y[n, k]
        cost = cost + math.log(norm)
    return cost


@njit(cache=True)
def _read_back(steps, wires, memory, slopes):
    """Write the deltas that arrive at the last state, and add up the slopes of the read-out."""
    outputs = wires.bias.shape[0]
    for k in range(memory.error.shape[1]):
        slopes.out[k % outputs] = slopes.out[k % outputs] + memory.error[0, k]
    for u in range(memory.delta.shape[1]):
        memory.delta[ARRIVED, u] = 0.0
        memory.delta_sum[0, u] = 0.0
    weights, states, error = wires.readout.weights, memory.trajectory, memory.error
    _add_slope(HERE, memory.delta, ARRIVED, weights, error, 0, wires.readout, 0)
    _add_slope(WEIGHTS, states, steps, slopes.weights, error, 0, wires.readout, 0)


@njit(cache=True)
def _backward(steps, wires, memory, slopes):
    """Carry the deltas back through the stored states, and add up the slopes."""
    layers, messages = wires.layers, wires.messages
    stages = steps + 1 if steps else layers.shape[0]
    for back in range(stages):
        row, seen, first, last = _stage(stages - 1 - back, steps, layers.shape[0])
        for k in range(first, last):
            for u in range(layers[k, START], layers[k, END]):
                slope = _slope(memory.trajectory[row, u], layers[k, CODE])
                memory.delta[SLOPED, u] = memory.delta[ARRIVED, u] * slope
                memory.delta_sum[0, u] = memory.delta_sum[0, u] + memory.delta[SLOPED, u]
                memory.delta[ARRIVED, u] = 0.0
        for m in range(messages.table.shape[0]):
            if seen >= 0 and first <= messages.table[m, PLACE] < last:
                weights, states, delta = messages.weights, memory.trajectory, memory.delta
                _add_slope(HERE, delta, ARRIVED, weights, delta, SLOPED, messages, m)
                _add_slope(WEIGHTS, states, seen, slopes.weights, delta, SLOPED, messages, m)
