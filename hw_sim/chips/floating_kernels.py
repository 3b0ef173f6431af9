"""The compiled chips that calculate in floating point: analog crossbar and event driven.

Both are in one file because numba's cache does not see a change in a callee of another.
"""

import math

import numpy as np
from numba import njit

from hw_sim.chips.kernel_arguments import (
    BACK,
    BLOCK,
    CODE,
    COLUMNS,
    DRIVEN,
    END,
    JOINED,
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
    ADDITION,
    BARRIER,
    BUSY_UPDATE,
    CELL_READ,
    COMPARE,
    CONVERSION,
    DIVIDE,
    HOP,
    MAC,
    MESSAGE,
    SPIKE_OUT,
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
def _heard(current, power, step, limit, rng):
    """Return a current with noise of the variance `power`, behind its converter."""
    if power != 0.0:
        current = current + math.sqrt(power) * rng.standard_normal()
    return _converted(current, step, limit)


@njit(cache=True)
def _silence(power):
    """Begin to add up noise, `(1, totals)`."""
    for u in range(power.shape[1]):
        power[0, u] = 0.0


@njit(cache=True)
def _is_joined(messages, arrays, m):
    """Whether the currents of an array join those of others before the converter of a unit.

    Not where a total hears several reads of it, and not where the rows of a column lie on several
    tiles: then each of these currents is converted.
    """
    apart = messages.table[m, WRITES] >= 0 and messages.table[m, POSITIONS] > 1
    return not apart and messages.table[m, ROWS] <= arrays.tiles[m, JOINED]


@njit(cache=True)
def _hears_joined(messages, arrays, place):
    """Whether the units of a place have a converter for currents that join."""
    for m in range(messages.table.shape[0]):
        if messages.table[m, PLACE] == place and _is_joined(messages, arrays, m):
            return True
    return False


@njit(cache=True)
def _read_array(source, n, totals, k, messages, m, arrays, stored, converted, tally):
    """Add the currents of an array to `totals[k]`: one read of all its cells at each position.

    What drives it is `stored` in words, `converted` to a voltage, or both. The variance of what
    each cell adds goes to `arrays.power`.
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
                weight, word = block + r * columns, source[n, i]
                _add_row(totals, k, word, messages, weight, columns, to, writes)
                if arrays.is_noisy:
                    loud = arrays.loud
                    _add_row(arrays.power, 0, word * word, loud, weight, columns, to, writes)
                driven += 1
        tally[place, STATE_READ] += driven * stored
        tally[place, CONVERSION] += driven * converted * arrays.tiles[m, DRIVEN]
        tally[place, CELL_READ] += 2 * rows * columns


@njit(cache=True)
def _read_tiles(source, n, totals, k, messages, m, arrays, step, limit, stored, rng, tally):
    """Convert the currents of each tile at each position, and add them to `totals[k]` as words."""
    place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
    columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
    first, reads = messages.table[m, SOURCE], messages.table[m, READS]
    height = arrays.tiles[m, JOINED]
    for p in range(messages.table[m, POSITIONS]):
        to, writes = _targets(messages, m, p)
        driven = 0
        for top in range(0, rows, height):
            for c in range(columns):
                arrays.partial[0, c] = 0.0
                arrays.power[0, c] = 0.0
            for r in range(top, min(top + height, rows)):
                i = _unit(first, messages.gather, reads, p * rows + r)
                if i >= 0:
                    weight, word = block + r * columns, source[n, i]
                    _add_row(arrays.partial, 0, word, messages, weight, columns, 0, -1)
                    if arrays.is_noisy:
                        loud = arrays.loud
                        _add_row(arrays.power, 0, word * word, loud, weight, columns, 0, -1)
                    driven += 1
            for c in range(columns):
                unit = _unit(to, messages.gather, writes, c)
                if unit >= 0:
                    word = _heard(arrays.partial[0, c], arrays.power[0, c], step, limit, rng)
                    totals[k, unit] = totals[k, unit] + word
                    tally[place, CONVERSION] += 1
                    tally[place, ADDITION] += top > 0
        tally[place, STATE_READ] += driven * stored
        tally[place, CONVERSION] += driven * arrays.tiles[m, DRIVEN]
        tally[place, CELL_READ] += 2 * rows * columns


@njit(cache=True)
def drive_crossbar(x, feeds, analog, arrays, rng, drive, tally):
    """Write the currents of the input arrays into `drive`, and add the biases, which are digital.

    An input goes through its converter in any case.
    """
    messages, step, limit = feeds.messages, analog.adc_step, analog.adc_limit
    for n in range(x.shape[0]):
        _silence(arrays.power)
        for j in range(drive.shape[1]):
            drive[n, j] = 0.0
        for m in range(messages.table.shape[0]):
            if _is_joined(messages, arrays, m):
                _read_array(x, n, drive, n, messages, m, arrays, False, True, tally)
        for k in range(feeds.layers.shape[0]):
            if _hears_joined(messages, arrays, k):
                for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                    drive[n, j] = _heard(drive[n, j], arrays.power[0, j], step, limit, rng)
                    tally[k, CONVERSION] += analog.looped
        for m in range(messages.table.shape[0]):
            if not _is_joined(messages, arrays, m):
                _read_tiles(x, n, drive, n, messages, m, arrays, step, limit, False, rng, tally)
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
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
    messages, looped, arrays = wires.messages, analog.looped, analog.between
    step, limit = analog.adc_step, analog.adc_limit
    _silence(arrays.power)
    for u in range(state.shape[1]):
        work.total[0, u] = 0.0
    for m in range(messages.table.shape[0]):
        if _is_joined(messages, arrays, m):
            _read_array(state, n, work.total, 0, messages, m, arrays, looped, looped, tally)
    for u in range(state.shape[1]):
        current = _heard(work.total[0, u], arrays.power[0, u], step, limit, rng)
        work.total[0, u] = current + batch.drive[n, u]
    for m in range(messages.table.shape[0]):
        if not _is_joined(messages, arrays, m):
            _read_tiles(state, n, work.total, 0, messages, m, arrays, step, limit, True, rng, tally)
    if batch.beta != 0.0:
        _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally)
    for k in range(wires.layers.shape[0]):
        is_joined = _hears_joined(messages, arrays, k)
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            image = _activated(work.total[0, u], wires.layers[k, CODE])
            work.image[u] = _converted(image, analog.dac_step, 1.0)
            tally[k, ACTIVATION] += 1
            if looped:
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, CONVERSION] += is_joined
                tally[k, COMPARE] += 1  # how far the unit would move
        if not looped:
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
    table, tiles = wires.readout.table, analog.out.tiles
    rows, outputs = table[0, ROWS], table[0, COLUMNS]
    words = (outputs + tiles[BACK, JOINED] - 1) // tiles[BACK, JOINED]
    for p in range(table[0, POSITIONS]):
        pulled = 0
        for r in range(rows):
            i = _unit(table[0, SOURCE], wires.readout.gather, table[0, READS], p * rows + r)
            if i >= 0:
                pull = _pull_crossbar(p, r, wires, analog, rng, work)
                work.total[0, i] = work.total[0, i] - batch.beta * pull
                pulled += 1
        tally[place, MAC] += pulled
        tally[place, CELL_READ] += 2 * rows * outputs
        tally[place, STATE_READ] += outputs
        tally[place, CONVERSION] += outputs * tiles[BACK, DRIVEN] + pulled * words * analog.looped
        tally[place, ADDITION] += pulled * (words - 1)


@njit(cache=True)
def _pull_crossbar(p, r, wires, analog, rng, work):
    """Return what the errors of a position send back to row `r`, the words of all tiles."""
    table, width = wires.readout.table, analog.out.tiles[BACK, JOINED]
    weights, loud = wires.readout.weights, analog.out.loud.weights
    outputs = table[0, COLUMNS]
    at, by = np.uint64(p * outputs), np.uint64(table[0, BLOCK] + r * outputs)
    pull = 0.0
    for left in range(0, outputs, width):
        current, power = 0.0, 0.0
        for k in range(np.uint64(left), np.uint64(min(left + width, outputs))):
            current = current + work.error[at + k] * weights[by + k]
            if analog.out.is_noisy:
                power = power + work.error[at + k] * work.error[at + k] * loud[by + k]
        pull = pull + _heard(current, power, analog.adc_step, analog.adc_limit, rng)
    return pull


@njit(cache=True)
def errors_crossbar(n, wires, targets, analog, rng, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`.

    The softmax is computed beside the array, so its inputs are always converted.
    """
    place, outputs = wires.layers.shape[0], wires.readout.table[0, COLUMNS]
    looped, arrays, messages = analog.looped, analog.out, wires.readout
    step, limit, is_joined = analog.out_step, analog.adc_limit, _is_joined(messages, arrays, 0)
    for k in range(work.logits.shape[1]):
        work.logits[0, k] = 0.0
    if is_joined:
        _silence(arrays.power)
        _read_array(state, n, work.logits, 0, messages, 0, arrays, looped, looped, tally)
    else:
        _read_tiles(state, n, work.logits, 0, messages, 0, arrays, step, limit, True, rng, tally)
    for p in range(messages.table[0, POSITIONS]):
        for k in range(outputs):
            at = p * outputs + k
            logit = work.logits[0, at]
            if is_joined:
                logit = _heard(logit, arrays.power[0, at], step, limit, rng)
                tally[place, CONVERSION] += 1
            work.logits[0, at] = logit + wires.bias[k]
            tally[place, WEIGHT_READ] += 1
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

UPDATES, SPIKES, SENDS, RECEIVES, SYNAPSES = range(5)  # rows of the work of cores
KINDS_OF_WORK = 5


@njit(cache=True)
def _begin_exchange(cores, updates):
    """Begin a step of all cores, in which each updates so many neurons."""
    for c in range(cores.work.shape[1]):
        cores.work[UPDATES, c] = updates[c]
        for kind in range(SPIKES, KINDS_OF_WORK):
            cores.work[kind, c] = 0


@njit(cache=True)
def _hear(cores, landing, sender):
    """Let every core with a listener take an event in; return how many there are."""
    first, last = landing.first[sender], landing.first[sender + 1]
    for row in range(first, last):
        cores.work[RECEIVES, landing.core[row]] += 1
        cores.work[SYNAPSES, landing.core[row]] += landing.synapses[row]
    return last - first


@njit(cache=True)
def _speak(cores, landing, sender, core):
    """Send an event of a neuron on `core` to all cores with a listener."""
    cores.work[SPIKES, core] += 1
    cores.work[SENDS, core] += _hear(cores, landing, sender)


@njit(cache=True)
def _end_exchange(cores, times, tally):
    """Tally `times` over what the step waits for: the longest work of a core, and the barrier.

    A core sends while it receives, so its work is what it sends or what it receives.
    """
    longest, busiest, first = -1.0, 0, UPDATES
    for c in range(cores.work.shape[1]):
        sent, received = 0.0, 0.0
        for kind in range(KINDS_OF_WORK):
            cores.done[kind, c] += times * cores.work[kind, c]
        for kind in range(RECEIVES):
            sent += cores.work[kind, c] * cores.lengths_ns[kind]
        for kind in range(RECEIVES, KINDS_OF_WORK):
            received += cores.work[kind, c] * cores.lengths_ns[kind]
        if sent > longest:
            longest, busiest, first = sent, c, UPDATES
        if received > longest:
            longest, busiest, first = received, c, RECEIVES
    place, last = cores.place[busiest], RECEIVES if first == UPDATES else KINDS_OF_WORK
    for kind in range(first, last):
        tally[place, BUSY_UPDATE + kind] += times * cores.work[kind, busiest]
    tally[place, BARRIER] += times


@njit(cache=True)
def tell_all(cores, units, products, times, tally):
    """Let every unit tell its whole state, and every core learn by so many `products (cores,)`."""
    _begin_exchange(cores, cores.idle)
    for u in range(units):
        _speak(cores, cores.landing, u, cores.home[u])
    for c in range(cores.work.shape[1]):
        cores.work[SYNAPSES, c] = products[c]
    _end_exchange(cores, times, tally)


@njit(cache=True)
def drive_events(x, feeds, fan, landing, cores, drive, tally):
    """Write `bias + x inputs` into `drive`; an input of zero sends nothing.

    `fan (inputs, layers)`: an input is one message to each core that holds units it drives, and
    meets the synapses of `landing` there.
    """
    for n in range(x.shape[0]):
        _begin_exchange(cores, cores.idle)
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
                _hear(cores, landing, i)
                for k in range(feeds.layers.shape[0]):
                    tally[k, MESSAGE] += fan[i, k]
        _end_exchange(cores, 1, tally)


@njit(cache=True)
def relax_events(
    wires, batch, threshold, kept, ended, fresh, max_steps, tolerance, work, cores, tally
):
    """Relax real states; a unit sends only what changed by more than `threshold` since it sent.

    `kept` holds for each sample what was sent, and is left at the end of the relaxation. With
    `fresh` of 2 everything starts from the drive, with 1 from the given state, with 0 from `kept`.
    """
    for n in range(ended.state.shape[0]):
        if fresh:
            _begin_events(n, wires, batch, kept, ended.state, fresh == 2, tally)
        for step in range(1, max_steps + 1):
            _send_states(n, wires, threshold, kept, ended.state, cores, tally)
            if batch.beta != 0.0:
                _send_errors(n, wires, batch, threshold, kept, ended.state, work, cores, tally)
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
def _send_states(n, wires, threshold, kept, state, cores, tally):
    """Send the change of every unit that changed enough to all that listen."""
    _begin_exchange(cores, cores.units)
    _send_changes(n, wires.messages, threshold, kept, state, kept.total, n, tally)
    _send_changes(n, wires.readout, threshold, kept, state, kept.logits, n, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            if abs(state[n, u] - kept.sent[n, u]) > threshold:
                kept.sent[n, u] = state[n, u]
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, SPIKE_OUT] += 1
                tally[k, MESSAGE] += wires.fan_out[u, 0]
                tally[k, HOP] += wires.fan_out[u, 1]
                _speak(cores, cores.landing, u, cores.home[u])
    _end_exchange(cores, 1, tally)


@njit(cache=True)
def _send_errors(n, wires, batch, threshold, kept, state, work, cores, tally):
    """Let the read-out send the change of its error back: once it has heard all states."""
    place = wires.layers.shape[0]
    if wires.readout.table.shape[0] == 0:
        for k in range(wires.last - wires.first):
            kept.pull[n, k] = state[n, wires.first + k] - batch.targets[n, k]
            tally[place, STATE_READ] += 1
        return
    for k in range(work.logits.shape[1]):
        work.logits[0, k] = kept.logits[n, k]
    softmax_errors(n, wires, batch.targets, work, tally)
    _begin_exchange(cores, cores.outputs)
    outputs = wires.readout.table[0, COLUMNS]
    for p in range(wires.readout.table[0, POSITIONS]):
        for k in range(p * outputs, (p + 1) * outputs):
            change = work.error[k] - kept.sent_error[n, k]
            if abs(change) > threshold:
                kept.sent_error[n, k] = work.error[k]
                added = _pull_back(n, wires.readout, p, k - p * outputs, change, kept)
                tally[place, MAC] += added
                tally[place, WEIGHT_READ] += added
                neuron = state.shape[1] + k
                tally[place, STATE_WRITE] += 1
                tally[place, SPIKE_OUT] += 1
                tally[place, MESSAGE] += wires.fan_out[neuron, 0]
                tally[place, HOP] += wires.fan_out[neuron, 1]
                _speak(cores, cores.landing, neuron, cores.home[neuron])
    _end_exchange(cores, 1, tally)


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
def read_events(
    wires, targets, threshold, kept, to_outputs, landing, state, errors, work, cores, tally
):
    """Write `softmax - y` into `errors (samples, outputs)`, from the logits that events summed.

    Units that changed by more than `threshold` since they sent tell the read-out now, which takes
    the messages and hops of `to_outputs (size, 2)` and meets the synapses of `landing`.
    """
    place = wires.layers.shape[0]
    for n in range(state.shape[0]):
        _begin_exchange(cores, cores.outputs)
        for k in range(errors.shape[1]):
            work.logits[0, k] = kept.logits[n, k]
        _send_changes(n, wires.readout, threshold, kept, state, work.logits, 0, tally)
        for i in range(wires.first, wires.last):
            if abs(state[n, i] - kept.sent[n, i]) > threshold:
                tally[place, STATE_READ] += 1
                tally[place, SPIKE_OUT] += 1
                tally[place, MESSAGE] += to_outputs[i - wires.first, 0]
                tally[place, HOP] += to_outputs[i - wires.first, 1]
                _speak(cores, landing, i - wires.first, cores.home[i])
        _end_exchange(cores, 1, tally)
        softmax_errors(n, wires, targets, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
