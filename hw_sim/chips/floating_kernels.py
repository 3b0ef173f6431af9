"""The compiled chips that calculate in floating point: analog crossbar and event driven.

Both are in one file because numba's cache does not see a change in a callee of another.
"""

import math

import numpy as np
from numba import njit

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
from hw_sim.events import (
    ACTIVATION,
    CELL_READ,
    COMPARE,
    CONVERSION,
    DIVIDE,
    HOP,
    MAC,
    MESSAGE,
    STATE_READ,
    STATE_WRITE,
    WEIGHT_READ,
)


@njit(cache=True)
def _activated(h, code):
    if code == TANH:
        return math.tanh(h)
    return min(max(h, 0.0), 1.0)


@njit(cache=True)
def _converted(value, step, limit):
    """Clip to `limit` and round to a multiple of `step`; a step of 0 changes nothing."""
    if step == 0.0:
        return value
    return step * math.floor(min(max(value, -limit), limit) / step + 0.5)


@njit(cache=True)
def _unit(first, gather, start, at):
    """Return the unit `at` places after `first`, or that `gather` lists there; -1 is none."""
    if start < 0:
        return first + at
    unit = gather[start + at]
    return first + unit if unit >= 0 else -1


@njit(cache=True)
def _targets(messages, m, p):
    """Return where a position begins: its first total, and its place in `gather` or -1."""
    first, writes = messages.table[m, TARGET], messages.table[m, WRITES]
    shift = p * messages.table[m, COLUMNS]
    return (first + shift, -1) if writes < 0 else (first, writes + shift)


@njit(cache=True)
def _add_row(totals, n, word, messages, weight, columns, first, writes):
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


# --- Analog crossbar -----------------------------------------------------------------------------


@njit(cache=True)
def sum_columns(messages, totals):
    """Add to `totals (1, units)` what words of one would send through arrays that are read once."""
    for m in range(messages.table.shape[0]):
        if not _is_read_apart(messages, m):
            columns = messages.table[m, COLUMNS]
            for p in range(messages.table[m, POSITIONS]):
                to, writes = _targets(messages, m, p)
                for r in range(messages.table[m, ROWS]):
                    weight = messages.table[m, BLOCK] + r * columns
                    _add_row(totals, 0, 1.0, messages, weight, columns, to, writes)


@njit(cache=True)
def _is_read_apart(messages, m):
    """Whether a total hears several reads of the array: then each of them is converted."""
    return messages.table[m, WRITES] >= 0 and messages.table[m, POSITIONS] > 1


@njit(cache=True)
def _read_array(source, n, totals, k, messages, m, stored, converted, tally):
    """Add the currents of an array to `totals[k]`: one read of all its cells at each position.

    What drives it is `stored` in words, `converted` to a voltage, or both.
    """
    place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
    columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
    first, reads = messages.table[m, SOURCE], messages.table[m, READS]
    for p in range(messages.table[m, POSITIONS]):
        to, writes = _targets(messages, m, p)
        driven = 0
        for r in range(rows):
            i = _unit(first, messages.gather, reads, p * rows + r)
            if i >= 0:
                weight = block + r * columns
                _add_row(totals, k, source[n, i], messages, weight, columns, to, writes)
                driven += 1
        tally[place, STATE_READ] += driven * stored
        tally[place, CONVERSION] += driven * converted
        tally[place, CELL_READ] += 2 * rows * columns


@njit(cache=True)
def _read_apart(source, n, totals, messages, m, analog, rng, tally):
    """Convert the currents of each position of an array, and add them up as words."""
    place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
    columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
    for p in range(messages.table[m, POSITIONS]):
        first = messages.table[m, SOURCE] + p * rows
        for c in range(columns):
            at = messages.table[m, WRITES] + p * columns + c
            unit = _unit(messages.table[m, TARGET], messages.gather, at, 0)
            if unit >= 0:
                current = source[n, first] * messages.weights[block + c]
                for r in range(1, rows):
                    weight = messages.weights[block + r * columns + c]
                    current = current + source[n, first + r] * weight
                if analog.noise_apart[m, c] != 0.0:
                    current = current + analog.noise_apart[m, c] * rng.standard_normal()
                current = _converted(current, analog.adc_step, analog.adc_limit)
                totals[0, unit] = totals[0, unit] + current
                tally[place, CONVERSION] += 1
        tally[place, STATE_READ] += rows
        tally[place, CONVERSION] += rows
        tally[place, CELL_READ] += 2 * rows * columns


@njit(cache=True)
def drive_crossbar(x, feeds, analog, rng, drive, tally):
    """Write the currents of the input arrays into `drive`, and add the biases, which are digital.

    An input goes through its converter in any case; `analog.noise` is that of the input arrays.
    """
    for n in range(x.shape[0]):
        for j in range(drive.shape[1]):
            drive[n, j] = 0.0
        for m in range(feeds.messages.table.shape[0]):
            _read_array(x, n, drive, n, feeds.messages, m, False, True, tally)
        for k in range(feeds.layers.shape[0]):
            is_driven = False
            for m in range(feeds.messages.table.shape[0]):
                is_driven |= feeds.messages.table[m, PLACE] == k
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                if is_driven:
                    if analog.noise[j] != 0.0:
                        drive[n, j] = drive[n, j] + analog.noise[j] * rng.standard_normal()
                    drive[n, j] = _converted(drive[n, j], analog.adc_step, analog.adc_limit)
                    tally[k, CONVERSION] += analog.looped
                drive[n, j] = drive[n, j] + feeds.bias[j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1


@njit(cache=True)
def relax_crossbar(wires, batch, analog, rng, ended, fresh, max_steps, tolerance, work, tally):
    """Relax real states in place through noisy arrays and converters."""
    for n in range(ended.state.shape[0]):
        if fresh:
            for k in range(wires.layers.shape[0]):
                for u in range(wires.layers[k, START], wires.layers[k, END]):
                    image = _activated(batch.drive[n, u], wires.layers[k, CODE])
                    ended.state[n, u] = _converted(image, analog.dac_step, 1.0)
                    tally[k, ACTIVATION] += 1
                    tally[k, STATE_WRITE] += analog.looped
        for step in range(1, max_steps + 1):
            _map_crossbar(n, wires, batch, analog, rng, ended.state, work, tally)
            gap = abs(work.image[0] - ended.state[n, 0])
            for u in range(1, ended.state.shape[1]):
                moved = abs(work.image[u] - ended.state[n, u])
                gap = moved if not moved <= gap else gap  # lets NaN through
            ended.steps[n] = step
            ended.residual[n] = gap
            if not gap > tolerance:
                break
            for u in range(ended.state.shape[1]):
                ended.state[n, u] = work.image[u]


@njit(cache=True)
def _map_crossbar(n, wires, batch, analog, rng, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`."""
    messages, looped = wires.messages, analog.looped
    for u in range(state.shape[1]):
        work.total[0, u] = 0.0
    for m in range(messages.table.shape[0]):
        if not _is_read_apart(messages, m):
            _read_array(state, n, work.total, 0, messages, m, looped, looped, tally)
    for u in range(state.shape[1]):
        if analog.noise[u] != 0.0:
            work.total[0, u] = work.total[0, u] + analog.noise[u] * rng.standard_normal()
        work.total[0, u] = _converted(work.total[0, u], analog.adc_step, analog.adc_limit)
        work.total[0, u] = work.total[0, u] + batch.drive[n, u]
    for m in range(messages.table.shape[0]):
        if _is_read_apart(messages, m):
            _read_apart(state, n, work.total, messages, m, analog, rng, tally)
    if batch.beta != 0.0:
        _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            image = _activated(work.total[0, u], wires.layers[k, CODE])
            work.image[u] = _converted(image, analog.dac_step, 1.0)
            tally[k, ACTIVATION] += 1
            if analog.looped:
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, CONVERSION] += 1
                tally[k, COMPARE] += 1  # how far the unit would move
        if not analog.looped:
            tally[k, CELL_READ] += analog.held[k]


@njit(cache=True)
def _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally):
    """Subtract `beta dC/ds`: the errors go back through the array of the read-out."""
    place = wires.layers.shape[0]
    if wires.readout.table.shape[0] == 0:
        for k in range(wires.last - wires.first):
            error = state[n, wires.first + k] - batch.targets[n, k]
            work.total[0, wires.first + k] = work.total[0, wires.first + k] - batch.beta * error
            tally[place, MAC] += 1
            tally[place, STATE_READ] += 1
        return
    errors_crossbar(n, wires, batch.targets, analog, rng, state, work, tally)
    table, weights = wires.readout.table, wires.readout.weights
    rows, outputs = table[0, ROWS], table[0, COLUMNS]
    first, reads, block = table[0, SOURCE], table[0, READS], table[0, BLOCK]
    for p in range(table[0, POSITIONS]):
        pulled = 0
        for r in range(rows):
            i = _unit(first, wires.readout.gather, reads, p * rows + r)
            if i >= 0:
                at, by = np.uint64(p * outputs), np.uint64(block + r * outputs)
                pull = work.error[at] * weights[by]
                for k in range(np.uint64(1), np.uint64(outputs)):
                    pull = pull + work.error[at + k] * weights[by + k]
                if analog.noise_back[r] != 0.0:
                    pull = pull + analog.noise_back[r] * rng.standard_normal()
                pull = _converted(pull, analog.adc_step, analog.adc_limit)
                work.total[0, i] = work.total[0, i] - batch.beta * pull
                pulled += 1
        tally[place, MAC] += pulled
        tally[place, CELL_READ] += 2 * rows * outputs
        tally[place, STATE_READ] += outputs
        tally[place, CONVERSION] += outputs + pulled * analog.looped


@njit(cache=True)
def errors_crossbar(n, wires, targets, analog, rng, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`.

    The softmax is computed beside the array, so its inputs are always converted.
    """
    place, outputs = wires.layers.shape[0], wires.readout.table[0, COLUMNS]
    for k in range(work.logits.shape[1]):
        work.logits[0, k] = 0.0
    looped = analog.looped
    _read_array(state, n, work.logits, 0, wires.readout, 0, looped, looped, tally)
    for p in range(wires.readout.table[0, POSITIONS]):
        for k in range(outputs):
            logit = work.logits[0, p * outputs + k]
            if analog.noise_out[k] != 0.0:
                logit = logit + analog.noise_out[k] * rng.standard_normal()
            logit = _converted(logit, analog.out_step, analog.adc_limit)
            work.logits[0, p * outputs + k] = logit + wires.bias[k]
            tally[place, WEIGHT_READ] += 1
            tally[place, CONVERSION] += 1
    softmax_errors(n, wires, targets, work, tally)


@njit(cache=True)
def read_crossbar(wires, targets, analog, rng, state, errors, work, tally):
    """Write `softmax - y` of every sample into `errors (samples, outputs)`."""
    for n in range(state.shape[0]):
        errors_crossbar(n, wires, targets, analog, rng, state, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]


@njit(cache=True)
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


# --- Event driven --------------------------------------------------------------------------------


@njit(cache=True)
def drive_events(x, feeds, cores, drive, tally):
    """Write `bias + x inputs` into `drive`; an input of zero sends nothing.

    `cores (inputs, layers)`: an input is one message to each core that holds units it drives.
    """
    for n in range(x.shape[0]):
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                drive[n, j] = feeds.bias[j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1
        messages = feeds.messages
        for m in range(messages.table.shape[0]):
            place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
            columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
            first, reads = messages.table[m, SOURCE], messages.table[m, READS]
            for p in range(messages.table[m, POSITIONS]):
                to, writes = _targets(messages, m, p)
                for r in range(rows):
                    i = _unit(first, messages.gather, reads, p * rows + r)
                    if i >= 0 and x[n, i] != 0.0:
                        weight = block + r * columns
                        added = _add_row(drive, n, x[n, i], messages, weight, columns, to, writes)
                        tally[place, MAC] += added
                        tally[place, WEIGHT_READ] += added
        for i in range(x.shape[1]):
            if x[n, i] != 0.0:
                for k in range(feeds.layers.shape[0]):
                    tally[k, MESSAGE] += cores[i, k]


@njit(cache=True)
def relax_events(wires, batch, threshold, kept, ended, fresh, max_steps, tolerance, work, tally):
    """Relax real states; a unit sends only what changed by more than `threshold` since it sent.

    `kept` holds for each sample what was sent, and is left at the end of the relaxation. With
    `fresh` of 2 everything starts from the drive, with 1 from the given state, with 0 from `kept`.
    """
    for n in range(ended.state.shape[0]):
        if fresh:
            _begin_events(n, wires, batch, kept, ended.state, fresh == 2, tally)
        for step in range(1, max_steps + 1):
            _send_states(n, wires, threshold, kept, ended.state, tally)
            if batch.beta != 0.0:
                _send_errors(n, wires, batch, threshold, kept, ended.state, work, tally)
            gap = _map_events(n, wires, batch, kept, ended.state, work, tally)
            ended.steps[n] = step
            ended.residual[n] = gap
            if not gap > tolerance:
                break
            for u in range(ended.state.shape[1]):
                ended.state[n, u] = work.image[u]


@njit(cache=True)
def _begin_events(n, wires, batch, kept, state, from_drive, tally):
    """Forget what was sent; where `from_drive`, start at the activated drive."""
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            kept.sent[n, u] = 0.0
            kept.total[n, u] = batch.drive[n, u]
            if from_drive:
                state[n, u] = _activated(batch.drive[n, u], wires.layers[k, CODE])
                tally[k, ACTIVATION] += 1
                tally[k, STATE_WRITE] += 1
    for i in range(kept.pull.shape[1]):
        kept.pull[n, i] = 0.0
    if wires.readout.table.shape[0] > 0:
        for k in range(kept.logits.shape[1]):
            kept.logits[n, k] = wires.bias[k % wires.bias.shape[0]]
            kept.sent_error[n, k] = 0.0


@njit(cache=True)
def _send_changes(n, messages, threshold, kept, state, totals, k, tally):
    """Add what units that changed enough send to `totals[k]`; only those that listen do work."""
    for m in range(messages.table.shape[0]):
        place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
        columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
        first, reads = messages.table[m, SOURCE], messages.table[m, READS]
        for p in range(messages.table[m, POSITIONS]):
            to, writes = _targets(messages, m, p)
            added = 0
            for r in range(rows):
                i = _unit(first, messages.gather, reads, p * rows + r)
                if i >= 0:
                    change = state[n, i] - kept.sent[n, i]
                    if abs(change) > threshold:
                        weight = block + r * columns
                        added += _add_row(totals, k, change, messages, weight, columns, to, writes)
            tally[place, MAC] += added
            tally[place, WEIGHT_READ] += added


@njit(cache=True)
def _send_states(n, wires, threshold, kept, state, tally):
    """Send the change of every unit that changed enough to all that listen."""
    _send_changes(n, wires.messages, threshold, kept, state, kept.total, n, tally)
    _send_changes(n, wires.readout, threshold, kept, state, kept.logits, n, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            if abs(state[n, u] - kept.sent[n, u]) > threshold:
                kept.sent[n, u] = state[n, u]
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, MESSAGE] += wires.fan_out[u, 0]
                tally[k, HOP] += wires.fan_out[u, 1]


@njit(cache=True)
def _send_errors(n, wires, batch, threshold, kept, state, work, tally):
    """Let the read-out send the change of its error back."""
    place = wires.layers.shape[0]
    if wires.readout.table.shape[0] == 0:
        for k in range(wires.last - wires.first):
            kept.pull[n, k] = state[n, wires.first + k] - batch.targets[n, k]
            tally[place, STATE_READ] += 1
        return
    for k in range(work.logits.shape[1]):
        work.logits[0, k] = kept.logits[n, k]
    softmax_errors(n, wires, batch.targets, work, tally)
    outputs = wires.readout.table[0, COLUMNS]
    for p in range(wires.readout.table[0, POSITIONS]):
        for k in range(p * outputs, (p + 1) * outputs):
            change = work.error[k] - kept.sent_error[n, k]
            if abs(change) > threshold:
                kept.sent_error[n, k] = work.error[k]
                added = _pull_back(n, wires.readout, p, k - p * outputs, change, kept)
                tally[place, MAC] += added
                tally[place, WEIGHT_READ] += added
                tally[place, STATE_WRITE] += 1
                tally[place, MESSAGE] += wires.fan_out[state.shape[1] + k, 0]
                tally[place, HOP] += wires.fan_out[state.shape[1] + k, 1]


@njit(cache=True)
def _pull_back(n, readout, p, k, change, kept):
    """Add the change of output `k` of a position to the pull of all that it reads; count them."""
    rows, outputs = readout.table[0, ROWS], readout.table[0, COLUMNS]
    reads, block, found = readout.table[0, READS], readout.table[0, BLOCK], 0
    for r in range(rows):
        i = _unit(0, readout.gather, reads, p * rows + r)
        if i >= 0:
            weight = readout.weights[block + r * outputs + k]
            kept.pull[n, i] = kept.pull[n, i] + change * weight
            found += 1
    return found


@njit(cache=True)
def _map_events(n, wires, batch, kept, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`; return the residual."""
    gap = 0.0
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            total = kept.total[n, u]
            if batch.beta != 0.0 and wires.first <= u < wires.last:
                total = total - batch.beta * kept.pull[n, u - wires.first]
                tally[wires.layers.shape[0], MAC] += 1
            work.image[u] = _activated(total, wires.layers[k, CODE])
            moved = abs(work.image[u] - state[n, u])
            gap = moved if not moved <= gap else gap  # lets NaN through
            tally[k, COMPARE] += 1
            tally[k, STATE_READ] += 1
            tally[k, ACTIVATION] += 1
            tally[k, STATE_WRITE] += 1
    return gap


@njit(cache=True)
def read_events(wires, targets, threshold, kept, to_outputs, state, errors, work, tally):
    """Write `softmax - y` into `errors (samples, outputs)`, from the logits that events summed.

    Units that changed by more than `threshold` since they sent tell the read-out now, which takes
    the messages and hops of `to_outputs (size, 2)`.
    """
    place = wires.layers.shape[0]
    for n in range(state.shape[0]):
        for k in range(errors.shape[1]):
            work.logits[0, k] = kept.logits[n, k]
        _send_changes(n, wires.readout, threshold, kept, state, work.logits, 0, tally)
        for i in range(wires.first, wires.last):
            if abs(state[n, i] - kept.sent[n, i]) > threshold:
                tally[place, STATE_READ] += 1
                tally[place, MESSAGE] += to_outputs[i - wires.first, 0]
                tally[place, HOP] += to_outputs[i - wires.first, 1]
        softmax_errors(n, wires, targets, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
