"""Compiled backprop through the steps of one tanh layer, in scalar code like that of chips."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from engine.model.network import Network
from engine.model.params import Params
from hw_sim.events import (
    ACTIVATION,
    ADDITION,
    BARRIER,
    BUSY_RECEIVE,
    BUSY_SEND,
    BUSY_SPIKE,
    BUSY_SYNAPSE,
    BUSY_UPDATE,
    CELL_READ,
    COMPARE,
    CONVERSION,
    DIVIDE,
    MAC,
    MESSAGE,
    SPIKE_OUT,
    STATE_READ,
    STATE_WRITE,
    TRACE_READ,
    TRACE_WRITE,
    WEIGHT_READ,
)

INPUT, FREE, BACKWARD, LEARN = range(4)
HIDDEN, OUT = range(2)
OUTSIDE = -1


class Medium(NamedTuple):
    """How a matrix product is done: in arrays or not, or between cores.

    `tile (2,)` are the rows and columns of the largest array, 0 is without end. So many `cores
    (2,)` hold each layer, the fullest of them `most (2,)` of its neurons; `lengths_ns (5,)` say
    whether a step waits for what a core sends or for what it receives.
    """

    in_array: Any
    cores: Any
    tile: Any
    most: Any
    lengths_ns: Any


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
def _tiles(size, most):
    """Return how many tiles hold so many lines."""
    return (size + most - 1) // most if most else 1


@njit(cache=True)
def _tally_product(tally, sources, targets, medium, start, end, back):
    """Count a matrix product: word by word, or as one read of an array between converters.

    It goes from layer `start`, or from outside, to layer `end`; `back` is 1 where an array is read
    from its columns to its rows.
    """
    if medium.in_array:
        words = _tiles(sources, medium.tile[back])
        tally[CELL_READ] += 2 * sources * targets
        tally[CONVERSION] += sources * _tiles(targets, medium.tile[1 - back]) + targets * words
        tally[ADDITION] += targets * (words - 1)
    else:
        tally[MAC] += sources * targets
        tally[WEIGHT_READ] += sources * targets
    tally[STATE_READ] += sources
    if medium.cores[end] > 0:
        _tally_step(tally, sources, medium, start, end)


@njit(cache=True)
def _tally_step(tally, sources, medium, start, end):
    """Count what cores tell one another for a product, and what the step waits for."""
    cores, most = medium.cores[end], medium.most[end]
    update, spike, send, receive, synapse = medium.lengths_ns
    held = 0
    if start != OUTSIDE:
        held = medium.most[start]
        tally[SPIKE_OUT] += sources
    tally[MESSAGE] += sources * cores
    if sources * (receive + most * synapse) > held * (update + spike + cores * send):
        tally[BUSY_RECEIVE] += sources
        tally[BUSY_SYNAPSE] += sources * most
    else:
        tally[BUSY_UPDATE] += held
        tally[BUSY_SPIKE] += held
        tally[BUSY_SEND] += held * cores
    tally[BARRIER] += 1


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
    _tally_product(tally[INPUT, HIDDEN], inputs, units, medium, OUTSIDE, HIDDEN, 0)
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
        _tally_product(tally[FREE, HIDDEN], units, units, medium, HIDDEN, HIDDEN, 0)
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
    _tally_product(tally[FREE, OUT], units, outputs, medium, HIDDEN, OUT, 0)
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
    _tally_product(tally[BACKWARD, OUT], outputs, units, medium, OUT, HIDDEN, 1)
    tally[BACKWARD, OUT, STATE_WRITE] += units
    tally[LEARN, OUT, MAC] += synapses
    tally[LEARN, OUT, BUSY_SYNAPSE] += units * medium.most[OUT]
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
        _tally_product(tally[BACKWARD, HIDDEN], units, units, medium, HIDDEN, HIDDEN, 1)
        tally[BACKWARD, HIDDEN, STATE_WRITE] += units
        tally[LEARN, HIDDEN, MAC] += units * units
        tally[LEARN, HIDDEN, BUSY_SYNAPSE] += units * medium.most[HIDDEN]
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
    tally[LEARN, HIDDEN, BUSY_SYNAPSE] += inputs * medium.most[HIDDEN]
    tally[LEARN, HIDDEN, STATE_READ] += inputs + units
    tally[LEARN, HIDDEN, TRACE_READ] += (inputs + 1) * units
    tally[LEARN, HIDDEN, TRACE_WRITE] += (inputs + 1) * units
