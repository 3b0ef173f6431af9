"""What the compiled chips share that calculate in real numbers: activations, sums, a softmax."""

import math

import numpy as np

from hw_sim.chips.kernel_arguments import COLUMNS, POSITIONS, TANH
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.events import ACTIVATION, COMPARE, DIVIDE, STATE_WRITE


@kernel
def activated(h, code):
    """Return `sigma(h)`: tanh, or the hard sigmoid."""
    if code == TANH:
        return math.tanh(h)
    return min(max(h, 0.0), 1.0)


@kernel
def add_row(totals, n, word, messages, weight, columns, first, writes):
    """Add `word` times the weights from `weight` on to the totals of a position.

    Return how many there are: those that `gather` lists from `writes` on, or all from `first` on.
    """
    if writes < 0:
        # Unsigned, so that numba need not ask in each turn whether an index is below zero.
        to, by = np.uint64(first), np.uint64(weight)
        for c in range(np.uint64(columns)):
            totals[n, to + c] = totals[n, to + c] + word * messages.weights[by + c]
        return columns
    found = 0
    for c in range(columns):
        unit = messages.gather[writes + c]
        if unit >= 0:
            total = totals[n, first + unit] + word * messages.weights[weight + c]
            totals[n, first + unit] = total
            found += 1
    return found


@kernel
def softmax_errors(n, wires, targets, work, tally):
    """Write `softmax(logits) - y` of each position into `work.error`."""
    place, outputs = wires.layers.shape[0], wires.readout.table[0, COLUMNS]
    for p in range(wires.readout.table[0, POSITIONS]):
        first = p * outputs
        largest = work.logits[0, first]
        for k in range(first + 1, first + outputs):
            largest = max(largest, work.logits[0, k])
        norm = 0.0
        for k in range(first, first + outputs):
            work.error[k] = math.exp(work.logits[0, k] - largest)
            norm = norm + work.error[k]
        for k in range(first, first + outputs):
            work.error[k] = work.error[k] / norm - targets[n, k]
        tally[place, ACTIVATION] += outputs
        tally[place, STATE_WRITE] += outputs
        tally[place, COMPARE] += outputs - 1
        tally[place, DIVIDE] += outputs
