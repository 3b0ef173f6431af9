"""The compiled analog crossbar: states relax through noisy arrays and converters."""

import numpy as np

from hw_sim.chips.array_kernels import (
    converted,
    heard,
    hears_joined,
    joins,
    read_array,
    read_tiles,
    silence,
)
from hw_sim.chips.kernel_arguments import (
    BACK,
    BLOCK,
    CODE,
    COLUMNS,
    DRIVEN,
    END,
    JOINED,
    POSITIONS,
    READS,
    ROWS,
    SOURCE,
    START,
)
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.chips.message_kernels import unit_at
from hw_sim.chips.real_kernels import activated, softmax_errors
from hw_sim.events import (
    ACTIVATION,
    ADDITION,
    CELL_READ,
    COMPARE,
    CONVERSION,
    MAC,
    STATE_READ,
    STATE_WRITE,
    WEIGHT_READ,
)


@kernel
def drive_crossbar(x, feeds, analog, arrays, rng, drive, tally):
    """Write the currents of the input arrays into `drive`, and add the biases, which are digital.

    An input goes through its converter in any case.
    """
    messages, step, limit = feeds.messages, analog.adc_step, analog.adc_limit
    for n in range(x.shape[0]):
        silence(arrays.power)
        for j in range(drive.shape[1]):
            drive[n, j] = 0.0
        for m in range(messages.table.shape[0]):
            if joins(messages, arrays, m):
                read_array(x, n, drive, n, messages, m, arrays, False, True, tally)
        for k in range(feeds.layers.shape[0]):
            if hears_joined(messages, arrays, k):
                for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                    drive[n, j] = heard(drive[n, j], arrays.power[0, j], step, limit, rng)
                    tally[k, CONVERSION] += analog.looped
        for m in range(messages.table.shape[0]):
            if not joins(messages, arrays, m):
                read_tiles(x, n, drive, n, messages, m, arrays, step, limit, False, rng, tally)
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                drive[n, j] = drive[n, j] + feeds.bias[j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1


@kernel
def relax_crossbar(wires, batch, analog, rng, ended, fresh, max_steps, tolerance, work, tally):
    """Relax real states in place through noisy arrays and converters."""
    for n in range(ended.state.shape[0]):
        if fresh:
            for k in range(wires.layers.shape[0]):
                for u in range(wires.layers[k, START], wires.layers[k, END]):
                    image = activated(batch.drive[n, u], wires.layers[k, CODE])
                    ended.state[n, u] = converted(image, analog.dac_step, 1.0)
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


@kernel
def _map_crossbar(n, wires, batch, analog, rng, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`."""
    messages, looped, arrays = wires.messages, analog.looped, analog.between
    step, limit = analog.adc_step, analog.adc_limit
    silence(arrays.power)
    for u in range(state.shape[1]):
        work.total[0, u] = 0.0
    for m in range(messages.table.shape[0]):
        if joins(messages, arrays, m):
            read_array(state, n, work.total, 0, messages, m, arrays, looped, looped, tally)
    for u in range(state.shape[1]):
        current = heard(work.total[0, u], arrays.power[0, u], step, limit, rng)
        work.total[0, u] = current + batch.drive[n, u]
    for m in range(messages.table.shape[0]):
        if not joins(messages, arrays, m):
            read_tiles(state, n, work.total, 0, messages, m, arrays, step, limit, True, rng, tally)
    if batch.beta != 0.0:
        _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally)
    for k in range(wires.layers.shape[0]):
        is_joined = hears_joined(messages, arrays, k)
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            image = activated(work.total[0, u], wires.layers[k, CODE])
            work.image[u] = converted(image, analog.dac_step, 1.0)
            tally[k, ACTIVATION] += 1
            if looped:
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, CONVERSION] += is_joined
                tally[k, COMPARE] += 1  # how far the unit would move
        if not looped:
            tally[k, CELL_READ] += analog.held[k]


@kernel
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
            i = unit_at(table[0, SOURCE], wires.readout.gather, table[0, READS], p * rows + r)
            if i >= 0:
                pull = _pull_crossbar(p, r, wires, analog, rng, work)
                work.total[0, i] = work.total[0, i] - batch.beta * pull
                pulled += 1
        tally[place, MAC] += pulled
        tally[place, CELL_READ] += 2 * rows * outputs
        tally[place, STATE_READ] += outputs
        tally[place, CONVERSION] += outputs * tiles[BACK, DRIVEN] + pulled * words * analog.looped
        tally[place, ADDITION] += pulled * (words - 1)


@kernel
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
        pull = pull + heard(current, power, analog.adc_step, analog.adc_limit, rng)
    return pull


@kernel
def errors_crossbar(n, wires, targets, analog, rng, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`.

    The softmax is computed beside the array, so its inputs are always converted.
    """
    place, outputs = wires.layers.shape[0], wires.readout.table[0, COLUMNS]
    looped, arrays, messages = analog.looped, analog.out, wires.readout
    step, limit, is_joined = analog.out_step, analog.adc_limit, joins(messages, arrays, 0)
    for k in range(work.logits.shape[1]):
        work.logits[0, k] = 0.0
    if is_joined:
        silence(arrays.power)
        read_array(state, n, work.logits, 0, messages, 0, arrays, looped, looped, tally)
    else:
        read_tiles(state, n, work.logits, 0, messages, 0, arrays, step, limit, True, rng, tally)
    for p in range(messages.table[0, POSITIONS]):
        for k in range(outputs):
            at = p * outputs + k
            logit = work.logits[0, at]
            if is_joined:
                logit = heard(logit, arrays.power[0, at], step, limit, rng)
                tally[place, CONVERSION] += 1
            work.logits[0, at] = logit + wires.bias[k]
            tally[place, WEIGHT_READ] += 1
    softmax_errors(n, wires, targets, work, tally)


@kernel
def read_crossbar(wires, targets, analog, rng, state, errors, work, tally):
    """Write `softmax - y` of every sample into `errors (samples, outputs)`."""
    for n in range(state.shape[0]):
        errors_crossbar(n, wires, targets, analog, rng, state, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
