"""The compiled digital substrate: integer words, one after the other (see `hw_sim.layout`)."""

from numba import njit

from hw_sim.layout import (
    ACTIVATION,
    CODE,
    END,
    MAC,
    PLACE,
    SOURCE,
    SOURCE_END,
    SQUARED_ERROR,
    START,
    STATE_READ,
    STATE_WRITE,
    TARGET,
    TARGET_END,
    TRACE_READ,
    WEIGHT_READ,
    WEIGHT_WRITE,
)


@njit(cache=True)
def _rounded_shift(value, shift):
    """`value / 2^shift`, rounded half up."""
    if shift == 0:
        return value
    return (value + (1 << (shift - 1))) >> shift


@njit(cache=True)
def _saturated(value, low, high):
    return min(max(value, low), high)


@njit(cache=True)
def _looked_up(total, row, words):
    """Return the activation of an accumulator: one word of a table."""
    size = words.activations.shape[1]
    index = _rounded_shift(total, words.table_shift) + size // 2
    return words.activations[row, _saturated(index, 0, size - 1)]


@njit(cache=True)
def drive_digital(x, feeds, words, drive, tally):
    """Write `bias + x inputs` in accumulator words into `drive`; return the saturations."""
    saturated = 0
    for n in range(x.shape[0]):
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                total = feeds.bias[j] << words.state_fraction
                drive[n, j] = _saturated(total, words.low, words.high)
                saturated += total != drive[n, j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1
        for m in range(feeds.messages.shape[0]):
            place = feeds.messages[m, PLACE]
            first, last = feeds.messages[m, TARGET], feeds.messages[m, TARGET_END]
            for i in range(x.shape[1]):
                word = x[n, i]
                for j in range(first, last):
                    total = drive[n, j] + word * feeds.inputs[i, j]
                    drive[n, j] = _saturated(total, words.low, words.high)
                    saturated += total != drive[n, j]
                tally[place, STATE_READ] += 1
                tally[place, MAC] += last - first
                tally[place, WEIGHT_READ] += last - first
    return saturated


@njit(cache=True)
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


@njit(cache=True)
def _map_digital(n, wires, batch, words, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`; return the saturations."""
    saturated = 0
    for u in range(state.shape[1]):
        work.total[u] = batch.drive[n, u]
    for m in range(wires.messages.shape[0]):
        place = wires.messages[m, PLACE]
        first, last = wires.messages[m, TARGET], wires.messages[m, TARGET_END]
        for i in range(wires.messages[m, SOURCE], wires.messages[m, SOURCE_END]):
            word = state[n, i]
            for j in range(first, last):
                total = work.total[j] + word * wires.recurrent[i, j]
                work.total[j] = _saturated(total, words.low, words.high)
                saturated += total != work.total[j]
            tally[place, STATE_READ] += 1
            tally[place, MAC] += last - first
            tally[place, WEIGHT_READ] += last - first
    if batch.beta != 0:
        saturated += _nudge_digital(n, wires, batch, words, state, work, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            work.image[u] = _looked_up(work.total[u], wires.layers[k, CODE], words)
            tally[k, STATE_READ] += 1
            tally[k, ACTIVATION] += 1
            tally[k, STATE_WRITE] += 1
    return saturated


@njit(cache=True)
def _nudge_digital(n, wires, batch, words, state, work, tally):
    """Subtract `beta dC/ds` from the accumulators; return the saturations."""
    saturated, place = 0, wires.layers.shape[0]
    if wires.kind == SQUARED_ERROR:
        for k in range(wires.last - wires.first):
            error = state[n, wires.first + k] - batch.targets[n, k]
            pull = _rounded_shift(batch.beta * error, words.gain_fraction)
            total = work.total[wires.first + k] - (pull << words.weight_fraction)
            work.total[wires.first + k] = _saturated(total, words.low, words.high)
            saturated += total != work.total[wires.first + k]
            tally[place, MAC] += 1
            tally[place, STATE_READ] += 1
        return saturated
    saturated += errors_digital(n, wires, batch.targets, words, state, work, tally)
    for i in range(wires.first, wires.last):
        pull = 0
        for k in range(wires.weight.shape[1]):
            total = pull + work.error[k] * wires.weight[i - wires.first, k]
            pull = _saturated(total, words.low, words.high)
            saturated += total != pull
        total = work.total[i] - _rounded_shift(batch.beta * pull, words.gain_fraction)
        work.total[i] = _saturated(total, words.low, words.high)
        saturated += total != work.total[i]
        tally[place, MAC] += wires.weight.shape[1] + 1
        tally[place, WEIGHT_READ] += wires.weight.shape[1]
    tally[place, STATE_READ] += wires.weight.shape[1]
    return saturated


@njit(cache=True)
def errors_digital(n, wires, targets, words, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`, in state words."""
    saturated, place, outputs = 0, wires.layers.shape[0], wires.weight.shape[1]
    for k in range(outputs):
        total = wires.bias[k] << words.state_fraction
        work.logits[k] = _saturated(total, words.low, words.high)
        saturated += total != work.logits[k]
        tally[place, WEIGHT_READ] += 1
    for i in range(wires.first, wires.last):
        word = state[n, i]
        for k in range(outputs):
            total = work.logits[k] + word * wires.weight[i - wires.first, k]
            work.logits[k] = _saturated(total, words.low, words.high)
            saturated += total != work.logits[k]
        tally[place, STATE_READ] += 1
        tally[place, MAC] += outputs
        tally[place, WEIGHT_READ] += outputs
    largest = work.logits[0]
    for k in range(1, outputs):
        largest = max(largest, work.logits[k])
    norm = 0
    for k in range(outputs):
        index = _rounded_shift(largest - work.logits[k], words.table_shift)
        work.error[k] = words.odds[min(index, words.odds.shape[0] - 1)]
        norm = norm + work.error[k]
        tally[place, ACTIVATION] += 1
    for k in range(outputs):
        share = ((work.error[k] << words.state_fraction) + norm // 2) // norm
        work.error[k] = share - targets[n, k]
        tally[place, STATE_WRITE] += 1
    return saturated


@njit(cache=True)
def read_digital(wires, targets, words, state, errors, work, tally):
    """Write `softmax - y` of every sample into `errors`; return the saturations."""
    saturated = 0
    for n in range(state.shape[0]):
        saturated += errors_digital(n, wires, targets, words, state, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
    return saturated


@njit(cache=True)
def draw_words(noise, partner, register, mask):
    """Fill `noise` from a xorshift register and return the register.

    A pair of lateral weights (`partner` gives the place of the other) shares one random word.
    """
    for k in range(noise.shape[0]):
        if partner[k] < k:
            noise[k] = noise[partner[k]]
            continue
        register = register ^ ((register << 13) & 0xFFFFFFFF)
        register = register ^ (register >> 17)
        register = register ^ ((register << 5) & 0xFFFFFFFF)
        noise[k] = register & mask
    return register


@njit(cache=True)
def write_words(theta, update, noise, shift, low, high, owner, tally):
    """Add `update`, in units of `2^-shift` words, with the rounding that `noise` decides.

    Return the saturations. A word that does not change is not written.
    """
    saturated = 0
    for k in range(theta.shape[0]):
        step = (update[k] + noise[k]) >> shift
        tally[owner[k], TRACE_READ] += 1
        if step != 0:
            total = theta[k] + step
            word = _saturated(total, low, high)
            theta[k] = word
            saturated += total != word
            tally[owner[k], WEIGHT_READ] += 1
            tally[owner[k], WEIGHT_WRITE] += 1
    return saturated
