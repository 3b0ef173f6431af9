"""Compiled backprop through the steps of one tanh layer, in scalar code like that of chips."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from engine.model.network import Network
from engine.model.params import Params
from hw_sim.events import (
    ACTIVATION,
    CELL_READ,
    COMPARE,
    CONVERSION,
    DIVIDE,
    MAC,
    MESSAGE,
    STATE_READ,
    STATE_WRITE,
    TRACE_READ,
    TRACE_WRITE,
    WEIGHT_READ,
)

INPUT, FREE, BACKWARD, LEARN = range(4)
HIDDEN, OUT = range(2)


class Medium(NamedTuple):
    """How a matrix product is done: in an array or not, and to how many `cores (2,)` it is sent."""

    in_array: Any
    cores: Any


class SampleWords(NamedTuple):
    """Words of one sample: `trajectory (steps + 1, units)`, the drive, two deltas, their sum over
    the steps, and the error of the outputs."""

    trajectory: Any
    drive: Any
    delta: Any
    delta_sum: Any
    error: Any


class Matrices(NamedTuple):
    """The weights of each block, or their gradients."""

    inputs: Any
    bias: Any
    recurrent: Any
    weight: Any
    out: Any


def new_memory(network: Network, steps: int) -> SampleWords:
    """Return the memory of one sample that is run for so many steps."""
    units = network.units
    return SampleWords(
        np.zeros((steps + 1, units)), np.zeros(units), np.zeros((2, units)), np.zeros(units),
        np.zeros(network.outputs),
    )  # fmt: skip


def matrices_of(total: Params) -> Matrices:
    """Return views of the blocks; without recurrence one of them is empty."""
    recurrent = total["W_rec"] if "W_rec" in total else np.zeros((0, 0))
    return Matrices(total["W_in"], total["b"], recurrent, total["W_out"], total["b_out"])


@njit(cache=True)
def backpropagate(x, y, blocks, steps, medium, memory, slopes, tally):
    """Add the gradient of every sample to `slopes`; return the summed cost."""
    cost = 0.0
    for n in range(x.shape[0]):
        _forward(n, x, blocks, steps, medium, memory, tally)
        cost += _read_out(n, y, blocks, steps, medium, memory, tally)
        _read_back(blocks, steps, medium, memory, slopes, tally)
        _backward(n, x, blocks, steps, medium, memory, slopes, tally)
    return cost


@njit(cache=True)
def predict(x, y, blocks, steps, medium, memory, outputs, tally):
    """Write the softmax of every sample, minus `y`, into `outputs (samples, outputs)`."""
    for n in range(x.shape[0]):
        _forward(n, x, blocks, steps, medium, memory, tally)
        _read_out(n, y, blocks, steps, medium, memory, tally)
        for k in range(outputs.shape[1]):
            outputs[n, k] = memory.error[k]


@njit(cache=True)
def _tally_product(tally, sources, targets, medium, cores):
    """Count a matrix product: word by word, or as one read of an array between converters."""
    if medium.in_array:
        tally[CELL_READ] += 2 * sources * targets
        tally[CONVERSION] += sources + targets
    else:
        tally[MAC] += sources * targets
        tally[WEIGHT_READ] += sources * targets
    tally[STATE_READ] += sources
    tally[MESSAGE] += sources * cores


@njit(cache=True)
def _forward(n, x, blocks, steps, medium, memory, tally):
    inputs, units = blocks.inputs.shape
    for j in range(units):
        memory.drive[j] = blocks.bias[j]
    for i in range(inputs):
        word = x[n, i]
        for j in range(units):
            memory.drive[j] = memory.drive[j] + word * blocks.inputs[i, j]
    for j in range(units):
        memory.trajectory[0, j] = math.tanh(memory.drive[j])
    _tally_product(tally[INPUT, HIDDEN], inputs, units, medium, medium.cores[HIDDEN])
    tally[INPUT, HIDDEN, WEIGHT_READ] += units
    tally[INPUT, HIDDEN, STATE_WRITE] += units
    tally[FREE, HIDDEN, ACTIVATION] += units
    tally[FREE, HIDDEN, STATE_WRITE] += units
    for t in range(1, steps + 1):
        for j in range(units):
            memory.trajectory[t, j] = memory.drive[j]
        for i in range(units):
            word = memory.trajectory[t - 1, i]
            for j in range(units):
                memory.trajectory[t, j] = memory.trajectory[t, j] + word * blocks.recurrent[i, j]
        for j in range(units):
            memory.trajectory[t, j] = math.tanh(memory.trajectory[t, j])
        _tally_product(tally[FREE, HIDDEN], units, units, medium, medium.cores[HIDDEN])
        tally[FREE, HIDDEN, STATE_READ] += units
        tally[FREE, HIDDEN, ACTIVATION] += units
        tally[FREE, HIDDEN, STATE_WRITE] += units


@njit(cache=True)
def _read_out(n, y, blocks, steps, medium, memory, tally):
    """Write `softmax - y` into `memory.error`; return the cost of the sample."""
    units, outputs = blocks.weight.shape
    for k in range(outputs):
        memory.error[k] = blocks.out[k]
    for i in range(units):
        word = memory.trajectory[steps, i]
        for k in range(outputs):
            memory.error[k] = memory.error[k] + word * blocks.weight[i, k]
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
    _tally_product(tally[FREE, OUT], units, outputs, medium, medium.cores[OUT])
    tally[FREE, OUT, WEIGHT_READ] += outputs
    tally[FREE, OUT, COMPARE] += outputs - 1
    tally[FREE, OUT, DIVIDE] += outputs
    tally[FREE, OUT, ACTIVATION] += outputs
    tally[FREE, OUT, STATE_WRITE] += outputs
    return cost + math.log(norm)


@njit(cache=True)
def _read_back(blocks, steps, medium, memory, slopes, tally):
    """Write the delta of the last state, and add up the slopes of the read-out."""
    units, outputs = blocks.weight.shape
    for k in range(outputs):
        slopes.out[k] = slopes.out[k] + memory.error[k]
    for i in range(units):
        delta = memory.error[0] * blocks.weight[i, 0]
        for k in range(1, outputs):
            delta = delta + memory.error[k] * blocks.weight[i, k]
        memory.delta[0, i] = delta
        word = memory.trajectory[steps, i]
        for k in range(outputs):
            slopes.weight[i, k] = slopes.weight[i, k] + word * memory.error[k]
    synapses = units * outputs
    _tally_product(tally[BACKWARD, OUT], outputs, units, medium, medium.cores[HIDDEN])
    tally[BACKWARD, OUT, STATE_WRITE] += units
    tally[LEARN, OUT, MAC] += synapses
    tally[LEARN, OUT, STATE_READ] += units + 2 * outputs
    tally[LEARN, OUT, TRACE_READ] += synapses + outputs
    tally[LEARN, OUT, TRACE_WRITE] += synapses + outputs


@njit(cache=True)
def _backward(n, x, blocks, steps, medium, memory, slopes, tally):
    """Carry the delta back through the stored states, and add up the slopes."""
    inputs, units = slopes.inputs.shape
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
            delta = memory.delta[1, 0] * blocks.recurrent[i, 0]
            for j in range(1, units):
                delta = delta + memory.delta[1, j] * blocks.recurrent[i, j]
            memory.delta[0, i] = delta
            for j in range(units):
                slopes.recurrent[i, j] = slopes.recurrent[i, j] + word * memory.delta[1, j]
        _tally_product(tally[BACKWARD, HIDDEN], units, units, medium, medium.cores[HIDDEN])
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
