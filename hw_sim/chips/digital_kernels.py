"""The compiled digital chip: integer words, one after the other."""

import numpy as np

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
)
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.chips.message_kernels import targets_of, unit_at
from hw_sim.events import (
    ACTIVATION,
    COMPARE,
    DIVIDE,
    MAC,
    STATE_READ,
    STATE_WRITE,
    WEIGHT_READ,
)


@kernel
def _rounded_shift(value, shift):
    """`value / 2^shift`, rounded half up."""
    if shift == 0:
        return value
    return (value + (1 << (shift - 1))) >> shift


@kernel
def clipped(value, low, high):
    """Return the nearest number from `low` to `high`."""
    return min(max(value, low), high)


@kernel
def _looked_up(total, row, words):
    """Return the activation of an accumulator: one word of a table."""
    size = words.activations.shape[1]
    index = _rounded_shift(total, words.table_shift) + size // 2
    return words.activations[row, clipped(index, 0, size - 1)]


@kernel
def _add_row(totals, n, word, messages, weight, columns, first, writes, words):
    """Add `word` times the weights from `weight` on to the totals of a position.

    These are those that `gather` lists from `writes` on, or all from `first` on. Return the
    saturations.
    """
    saturated = 0
    if writes < 0:
        # Unsigned, so that numba need not ask in each turn whether an index is below zero.
        to, by = np.uint64(first), np.uint64(weight)
        for c in range(np.uint64(columns)):
            total = totals[n, to + c] + word * messages.weights[by + c]
            totals[n, to + c] = clipped(total, words.low, words.high)
            saturated += total != totals[n, to + c]
        return saturated
    for c in range(columns):
        unit = messages.gather[writes + c]
        if unit >= 0:
            total = totals[n, first + unit] + word * messages.weights[weight + c]
            totals[n, first + unit] = clipped(total, words.low, words.high)
            saturated += total != totals[n, first + unit]
    return saturated


@kernel
def _send(source, n, totals, k, messages, words, tally):
    """Add all that `source[n]` sends to `totals[k]`; return the saturations.

    A word of zero beyond an edge is not read, but multiplied like any other.
    """
    saturated = 0
    for m in range(messages.table.shape[0]):
        place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
        columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
        first, reads = messages.table[m, SOURCE], messages.table[m, READS]
        for p in range(messages.table[m, POSITIONS]):
            to, writes = targets_of(messages, m, p)
            found = 0
            for r in range(rows):
                i = unit_at(first, messages.gather, reads, p * rows + r)
                if i >= 0:
                    weight = block + r * columns
                    saturated += _add_row(
                        totals, k, source[n, i], messages, weight, columns, to, writes, words
                    )
                    found += 1
            tally[place, STATE_READ] += found
            tally[place, MAC] += rows * columns
            tally[place, WEIGHT_READ] += rows * columns
    return saturated


@kernel
def drive_digital(x, feeds, words, drive, tally):
    """Write `bias + x inputs` in accumulator words into `drive`; return the saturations."""
    saturated = 0
    for n in range(x.shape[0]):
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                total = feeds.bias[j] << words.state_fraction
                drive[n, j] = clipped(total, words.low, words.high)
                saturated += total != drive[n, j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1
        saturated += _send(x, n, drive, n, feeds.messages, words, tally)
    return saturated


@kernel
def relax_digital(wires, batch, words, ended, fresh, max_steps, tolerance, work, tally):
    """Relax integer states in place until no word moves by more than `tolerance`.

    Return how often an accumulator saturated.
    """
    saturated = 0
    for n in range(ended.state.shape[0]):
        if fresh:
            for k in range(wires.layers.shape[0]):
                for u in range(wires.layers[k, START], wires.layers[k, END]):
                    ended.state[n, u] = _looked_up(batch.drive[n, u], wires.layers[k, CODE], words)
                    tally[k, ACTIVATION] += 1
                    tally[k, STATE_WRITE] += 1
        for step in range(1, max_steps + 1):
            saturated += _map_digital(n, wires, batch, words, ended.state, work, tally)
            gap = abs(work.image[0] - ended.state[n, 0])
            for u in range(1, ended.state.shape[1]):
                gap = max(gap, abs(work.image[u] - ended.state[n, u]))
            ended.steps[n] = step
            ended.residual[n] = gap
            if gap <= tolerance:
                break
            for u in range(ended.state.shape[1]):
                ended.state[n, u] = work.image[u]
    return saturated


@kernel
def _map_digital(n, wires, batch, words, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`; return the saturations."""
    for u in range(state.shape[1]):
        work.total[0, u] = batch.drive[n, u]
    saturated = _send(state, n, work.total, 0, wires.messages, words, tally)
    if batch.beta != 0:
        saturated += _nudge_digital(n, wires, batch, words, state, work, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            work.image[u] = _looked_up(work.total[0, u], wires.layers[k, CODE], words)
            tally[k, STATE_READ] += 1
            tally[k, ACTIVATION] += 1
            tally[k, STATE_WRITE] += 1
            tally[k, COMPARE] += 1  # how far the unit would move, against the others
    return saturated


@kernel
def _nudge_digital(n, wires, batch, words, state, work, tally):
    """Subtract `beta dC/ds` from the accumulators; return the saturations."""
    saturated, place = 0, wires.layers.shape[0]
    if wires.readout.table.shape[0] == 0:
        for k in range(wires.last - wires.first):
            error = state[n, wires.first + k] - batch.targets[n, k]
            pull = _rounded_shift(batch.beta * error, words.gain_fraction)
            total = work.total[0, wires.first + k] - (pull << words.weight_fraction)
            work.total[0, wires.first + k] = clipped(total, words.low, words.high)
            saturated += total != work.total[0, wires.first + k]
            tally[place, MAC] += 1
            tally[place, STATE_READ] += 1
        return saturated
    saturated += errors_digital(n, wires, batch.targets, words, state, work, tally)
    table, weights = wires.readout.table, wires.readout.weights
    rows, outputs = table[0, ROWS], table[0, COLUMNS]
    first, reads, block = table[0, SOURCE], table[0, READS], table[0, BLOCK]
    for p in range(table[0, POSITIONS]):
        pulled = 0
        for r in range(rows):
            i = unit_at(first, wires.readout.gather, reads, p * rows + r)
            if i >= 0:
                pull, at, by = 0, np.uint64(p * outputs), np.uint64(block + r * outputs)
                for k in range(np.uint64(outputs)):
                    total = pull + work.error[at + k] * weights[by + k]
                    pull = clipped(total, words.low, words.high)
                    saturated += total != pull
                total = work.total[0, i] - _rounded_shift(batch.beta * pull, words.gain_fraction)
                work.total[0, i] = clipped(total, words.low, words.high)
                saturated += total != work.total[0, i]
                pulled += 1
        tally[place, MAC] += rows * outputs + pulled
        tally[place, WEIGHT_READ] += rows * outputs
        tally[place, STATE_READ] += outputs
    return saturated


@kernel
def errors_digital(n, wires, targets, words, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`, in state words."""
    saturated, place = 0, wires.layers.shape[0]
    outputs, positions = wires.readout.table[0, COLUMNS], wires.readout.table[0, POSITIONS]
    for p in range(positions):
        for k in range(outputs):
            total = wires.bias[k] << words.state_fraction
            work.logits[0, p * outputs + k] = clipped(total, words.low, words.high)
            saturated += total != work.logits[0, p * outputs + k]
            tally[place, WEIGHT_READ] += 1
    saturated += _send(state, n, work.logits, 0, wires.readout, words, tally)
    for p in range(positions):
        _softmax_digital(n, p * outputs, outputs, targets, words, work)
        tally[place, ACTIVATION] += outputs
        tally[place, STATE_WRITE] += outputs
        tally[place, COMPARE] += outputs - 1
        tally[place, DIVIDE] += outputs
    return saturated


@kernel
def _softmax_digital(n, first, outputs, targets, words, work):
    """Write the errors of the outputs from `first` on: shares of their sum, by a table."""
    largest = work.logits[0, first]
    for k in range(first + 1, first + outputs):
        largest = max(largest, work.logits[0, k])
    norm = 0
    for k in range(first, first + outputs):
        index = _rounded_shift(largest - work.logits[0, k], words.table_shift)
        work.error[k] = words.odds[min(index, words.odds.shape[0] - 1)]
        norm = norm + work.error[k]
    for k in range(first, first + outputs):
        share = ((work.error[k] << words.state_fraction) + norm // 2) // norm
        work.error[k] = share - targets[n, k]


@kernel
def read_digital(wires, targets, words, state, errors, work, tally):
    """Write `softmax - y` of every sample into `errors`; return the saturations."""
    saturated = 0
    for n in range(state.shape[0]):
        saturated += errors_digital(n, wires, targets, words, state, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
    return saturated
