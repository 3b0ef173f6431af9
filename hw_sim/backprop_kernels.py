"""Compiled backprop through the steps of one tanh layer (see `hw_sim.layout`)."""

import math
from typing import Any, NamedTuple

from numba import njit

from hw_sim.layout import (
    ACTIVATION,
    MAC,
    STATE_READ,
    STATE_WRITE,
    TRACE_READ,
    TRACE_WRITE,
    WEIGHT_READ,
)

INPUT, FREE, BACKWARD, LEARN = range(4)
HIDDEN, OUT = range(2)


class Memory(NamedTuple):
    """Words of one sample: `trajectory (steps + 1, units)`, the drive, two deltas, their sum over
    the steps, and the error of the outputs."""

    trajectory: Any
    drive: Any
    delta: Any
    delta_sum: Any
    error: Any


class Slopes(NamedTuple):
    """The gradient of each block."""

    inputs: Any
    bias: Any
    recurrent: Any
    weight: Any
    out: Any


@njit(cache=True)
def backpropagate(x, y, feeds, wires, steps, memory, slopes, tally):
    """Add the gradient of every sample to `slopes`; return the summed cost."""
    cost = 0.0
    for n in range(x.shape[0]):
        _forward(n, x, feeds, wires, steps, memory, tally)
        cost += _read_out(n, y, wires, steps, memory, slopes, tally)
        _backward(n, x, wires, steps, memory, slopes, tally)
    return cost


@njit(cache=True)
def _forward(n, x, feeds, wires, steps, memory, tally):
    inputs, units = feeds.inputs.shape
    for j in range(units):
        memory.drive[j] = feeds.bias[j]
    for i in range(inputs):
        word = x[n, i]
        for j in range(units):
            memory.drive[j] = memory.drive[j] + word * feeds.inputs[i, j]
    for j in range(units):
        memory.trajectory[0, j] = math.tanh(memory.drive[j])
    tally[INPUT, HIDDEN, MAC] += inputs * units
    tally[INPUT, HIDDEN, WEIGHT_READ] += (inputs + 1) * units
    tally[INPUT, HIDDEN, STATE_READ] += inputs
    tally[INPUT, HIDDEN, STATE_WRITE] += units
    tally[FREE, HIDDEN, ACTIVATION] += units
    tally[FREE, HIDDEN, STATE_WRITE] += units
    for t in range(1, steps + 1):
        for j in range(units):
            memory.trajectory[t, j] = memory.drive[j]
        for i in range(units):
            word = memory.trajectory[t - 1, i]
            for j in range(units):
                memory.trajectory[t, j] = memory.trajectory[t, j] + word * wires.recurrent[i, j]
        for j in range(units):
            memory.trajectory[t, j] = math.tanh(memory.trajectory[t, j])
        tally[FREE, HIDDEN, MAC] += units * units
        tally[FREE, HIDDEN, WEIGHT_READ] += units * units
        tally[FREE, HIDDEN, STATE_READ] += 2 * units
        tally[FREE, HIDDEN, ACTIVATION] += units
        tally[FREE, HIDDEN, STATE_WRITE] += units


@njit(cache=True)
def _read_out(n, y, wires, steps, memory, slopes, tally):
    """Write the error and the delta of the last state; return the cost of the sample."""
    units, outputs = wires.weight.shape
    for k in range(outputs):
        memory.error[k] = wires.bias[k]
    for i in range(units):
        word = memory.trajectory[steps, i]
        for k in range(outputs):
            memory.error[k] = memory.error[k] + word * wires.weight[i, k]
    largest = memory.error[0]
    for k in range(1, outputs):
        largest = max(largest, memory.error[k])
    norm, cost = 0.0, 0.0
    for k in range(outputs):
        cost = cost - y[n, k] * (memory.error[k] - largest)
        memory.error[k] = math.exp(memory.error[k] - largest)
        norm = norm + memory.error[k]
    for k in range(outputs):
        memory.error[k] = memory.error[k] / norm - y[n, k]
        slopes.out[k] = slopes.out[k] + memory.error[k]
    for i in range(units):
        delta = memory.error[0] * wires.weight[i, 0]
        for k in range(1, outputs):
            delta = delta + memory.error[k] * wires.weight[i, k]
        memory.delta[0, i] = delta
        word = memory.trajectory[steps, i]
        for k in range(outputs):
            slopes.weight[i, k] = slopes.weight[i, k] + word * memory.error[k]
    synapses = units * outputs
    tally[FREE, OUT, MAC] += synapses
    tally[FREE, OUT, WEIGHT_READ] += synapses + outputs
    tally[FREE, OUT, STATE_READ] += units
    tally[FREE, OUT, ACTIVATION] += outputs
    tally[FREE, OUT, STATE_WRITE] += outputs
    tally[BACKWARD, OUT, MAC] += synapses
    tally[BACKWARD, OUT, WEIGHT_READ] += synapses
    tally[BACKWARD, OUT, STATE_READ] += outputs
    tally[BACKWARD, OUT, STATE_WRITE] += units
    tally[LEARN, OUT, MAC] += synapses
    tally[LEARN, OUT, STATE_READ] += units + 2 * outputs
    tally[LEARN, OUT, TRACE_READ] += synapses + outputs
    tally[LEARN, OUT, TRACE_WRITE] += synapses + outputs
    return cost + math.log(norm)


@njit(cache=True)
def _backward(n, x, wires, steps, memory, slopes, tally):
    """Carry the delta back through the stored states, and add up the slopes."""
    units, inputs = wires.recurrent.shape[0], slopes.inputs.shape[0]
    for j in range(units):
        memory.delta_sum[j] = 0.0
    for back in range(steps + 1):
        t = steps - back
        for j in range(units):
            state = memory.trajectory[t, j]
            memory.delta[1, j] = memory.delta[0, j] * (1.0 - state * state)
            memory.delta_sum[j] = memory.delta_sum[j] + memory.delta[1, j]
        tally[BACKWARD, HIDDEN, MAC] += 2 * units
        tally[BACKWARD, HIDDEN, STATE_READ] += 2 * units
        tally[BACKWARD, HIDDEN, STATE_WRITE] += 2 * units
        if t == 0:
            break
        for i in range(units):
            word = memory.trajectory[t - 1, i]
            delta = memory.delta[1, 0] * wires.recurrent[i, 0]
            for j in range(1, units):
                delta = delta + memory.delta[1, j] * wires.recurrent[i, j]
            memory.delta[0, i] = delta
            for j in range(units):
                slopes.recurrent[i, j] = slopes.recurrent[i, j] + word * memory.delta[1, j]
        tally[BACKWARD, HIDDEN, MAC] += units * units
        tally[BACKWARD, HIDDEN, WEIGHT_READ] += units * units
        tally[BACKWARD, HIDDEN, STATE_READ] += units
        tally[BACKWARD, HIDDEN, STATE_WRITE] += units
        tally[LEARN, HIDDEN, MAC] += units * units
        tally[LEARN, HIDDEN, STATE_READ] += 2 * units
        tally[LEARN, HIDDEN, TRACE_READ] += units * units
        tally[LEARN, HIDDEN, TRACE_WRITE] += units * units
    for i in range(inputs):
        word = x[n, i]
        for j in range(units):
            slopes.inputs[i, j] = slopes.inputs[i, j] + word * memory.delta_sum[j]
    for j in range(units):
        slopes.bias[j] = slopes.bias[j] + memory.delta_sum[j]
    tally[LEARN, HIDDEN, MAC] += inputs * units
    tally[LEARN, HIDDEN, STATE_READ] += inputs + units
    tally[LEARN, HIDDEN, TRACE_READ] += (inputs + 1) * units
    tally[LEARN, HIDDEN, TRACE_WRITE] += (inputs + 1) * units
