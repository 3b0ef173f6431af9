"""The compiled substrates of real numbers: analog crossbar, event driven, and the local rule.

All are in one file because numba's cache does not see a change in a callee of another.
"""

import math

from numba import njit

from hw_sim.layout import (
    ACTIVATION,
    CELL_READ,
    CODE,
    CONVERSION,
    END,
    HOP,
    MAC,
    MESSAGE,
    PLACE,
    SOURCE,
    SOURCE_END,
    SQUARED_ERROR,
    START,
    STATE_READ,
    STATE_WRITE,
    TANH,
    TARGET,
    TARGET_END,
    TRACE_READ,
    TRACE_WRITE,
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
def drive_crossbar(x, feeds, analog, rng, drive, tally):
    """Write the currents of the input array into `drive`, and add the biases, which are digital."""
    for n in range(x.shape[0]):
        for j in range(drive.shape[1]):
            drive[n, j] = 0.0
        for m in range(feeds.messages.shape[0]):
            place = feeds.messages[m, PLACE]
            first, last = feeds.messages[m, TARGET], feeds.messages[m, TARGET_END]
            for i in range(x.shape[1]):
                word = x[n, i]
                for j in range(first, last):
                    drive[n, j] = drive[n, j] + word * feeds.inputs[i, j]
                tally[place, CONVERSION] += 1
                tally[place, CELL_READ] += 2 * (last - first)
            for j in range(first, last):
                if analog.noise[j] != 0.0:
                    drive[n, j] = drive[n, j] + analog.noise[j] * rng.standard_normal()
                drive[n, j] = _converted(drive[n, j], analog.adc_step, analog.adc_limit)
            if analog.looped:
                tally[place, CONVERSION] += last - first
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
    for u in range(state.shape[1]):
        work.total[u] = 0.0
    for m in range(wires.messages.shape[0]):
        place = wires.messages[m, PLACE]
        first, last = wires.messages[m, TARGET], wires.messages[m, TARGET_END]
        for i in range(wires.messages[m, SOURCE], wires.messages[m, SOURCE_END]):
            word = state[n, i]
            for j in range(first, last):
                work.total[j] = work.total[j] + word * wires.recurrent[i, j]
            tally[place, CELL_READ] += 2 * (last - first)
            if analog.looped:
                tally[place, STATE_READ] += 1
                tally[place, CONVERSION] += 1
    for u in range(state.shape[1]):
        if analog.noise[u] != 0.0:
            work.total[u] = work.total[u] + analog.noise[u] * rng.standard_normal()
        work.total[u] = _converted(work.total[u], analog.adc_step, analog.adc_limit)
        work.total[u] = work.total[u] + batch.drive[n, u]
    if batch.beta != 0.0:
        _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            image = _activated(work.total[u], wires.layers[k, CODE])
            work.image[u] = _converted(image, analog.dac_step, 1.0)
            tally[k, ACTIVATION] += 1
            if analog.looped:
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                tally[k, CONVERSION] += 1
        if not analog.looped:
            tally[k, CELL_READ] += analog.held[k]


@njit(cache=True)
def _nudge_crossbar(n, wires, batch, analog, rng, state, work, tally):
    """Subtract `beta dC/ds`: the errors go back through the array of the read-out."""
    place, outputs = wires.layers.shape[0], wires.weight.shape[1]
    if wires.kind == SQUARED_ERROR:
        for k in range(wires.last - wires.first):
            error = state[n, wires.first + k] - batch.targets[n, k]
            work.total[wires.first + k] = work.total[wires.first + k] - batch.beta * error
            tally[place, MAC] += 1
            tally[place, STATE_READ] += 1
        return
    errors_crossbar(n, wires, batch.targets, analog, rng, state, work, tally)
    for k in range(wires.last - wires.first):
        pull = work.error[0] * wires.weight[k, 0]
        for j in range(1, outputs):
            pull = pull + work.error[j] * wires.weight[k, j]
        if analog.noise_back[k] != 0.0:
            pull = pull + analog.noise_back[k] * rng.standard_normal()
        pull = _converted(pull, analog.adc_step, analog.adc_limit)
        work.total[wires.first + k] = work.total[wires.first + k] - batch.beta * pull
        tally[place, MAC] += 1
        tally[place, CELL_READ] += 2 * outputs
        if analog.looped:
            tally[place, CONVERSION] += 1
    tally[place, STATE_READ] += outputs
    tally[place, CONVERSION] += outputs


@njit(cache=True)
def errors_crossbar(n, wires, targets, analog, rng, state, work, tally):
    """Write `softmax(s W_out + b_out) - y` into `work.error`.

    The softmax is computed beside the array, so its inputs are always converted.
    """
    place, outputs = wires.layers.shape[0], wires.weight.shape[1]
    for k in range(outputs):
        work.logits[k] = 0.0
    for i in range(wires.first, wires.last):
        word = state[n, i]
        for k in range(outputs):
            work.logits[k] = work.logits[k] + word * wires.weight[i - wires.first, k]
        tally[place, CELL_READ] += 2 * outputs
        if analog.looped:
            tally[place, STATE_READ] += 1
            tally[place, CONVERSION] += 1
    for k in range(outputs):
        if analog.noise_out[k] != 0.0:
            work.logits[k] = work.logits[k] + analog.noise_out[k] * rng.standard_normal()
        work.logits[k] = _converted(work.logits[k], analog.out_step, analog.adc_limit)
        work.logits[k] = work.logits[k] + wires.bias[k]
        tally[place, WEIGHT_READ] += 1
        tally[place, CONVERSION] += 1
    softmax_errors(n, targets, work, place, tally)


@njit(cache=True)
def read_crossbar(wires, targets, analog, rng, state, errors, work, tally):
    """Write `softmax - y` of every sample into `errors (samples, outputs)`."""
    for n in range(state.shape[0]):
        errors_crossbar(n, wires, targets, analog, rng, state, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]


@njit(cache=True)
def softmax_errors(n, targets, work, place, tally):
    """Write `softmax(logits) - y` into `work.error`."""
    largest = work.logits[0]
    for k in range(1, work.logits.shape[0]):
        largest = max(largest, work.logits[k])
    norm = 0.0
    for k in range(work.logits.shape[0]):
        work.error[k] = math.exp(work.logits[k] - largest)
        norm = norm + work.error[k]
        tally[place, ACTIVATION] += 1
    for k in range(work.logits.shape[0]):
        work.error[k] = work.error[k] / norm - targets[n, k]
        tally[place, STATE_WRITE] += 1


# --- Event driven --------------------------------------------------------------------------------


@njit(cache=True)
def drive_events(x, feeds, cores, drive, tally):
    """Write `bias + x inputs` into `drive`; an input of zero sends nothing.

    `cores (layers,)`: an input is one message to each core of a layer that it drives.
    """
    for n in range(x.shape[0]):
        for k in range(feeds.layers.shape[0]):
            for j in range(feeds.layers[k, START], feeds.layers[k, END]):
                drive[n, j] = feeds.bias[j]
                tally[k, WEIGHT_READ] += feeds.biased[j]
                tally[k, STATE_WRITE] += 1
        for m in range(feeds.messages.shape[0]):
            place = feeds.messages[m, PLACE]
            first, last = feeds.messages[m, TARGET], feeds.messages[m, TARGET_END]
            for i in range(x.shape[1]):
                word = x[n, i]
                if word != 0.0:
                    for j in range(first, last):
                        drive[n, j] = drive[n, j] + word * feeds.inputs[i, j]
                    tally[place, MAC] += last - first
                    tally[place, WEIGHT_READ] += last - first
                    tally[place, MESSAGE] += cores[place]


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
    for k in range(wires.weight.shape[1]):
        kept.logits[n, k] = wires.bias[k]
        kept.sent_error[n, k] = 0.0


@njit(cache=True)
def _send_states(n, wires, threshold, kept, state, tally):
    """Send the change of every unit that changed enough to all that listen."""
    place = wires.layers.shape[0]
    for m in range(wires.messages.shape[0]):
        target = wires.messages[m, PLACE]
        first, last = wires.messages[m, TARGET], wires.messages[m, TARGET_END]
        for i in range(wires.messages[m, SOURCE], wires.messages[m, SOURCE_END]):
            change = state[n, i] - kept.sent[n, i]
            if abs(change) > threshold:
                for j in range(first, last):
                    kept.total[n, j] = kept.total[n, j] + change * wires.recurrent[i, j]
                tally[target, MAC] += last - first
                tally[target, WEIGHT_READ] += last - first
    for i in range(wires.first, wires.last):
        change = state[n, i] - kept.sent[n, i]
        if abs(change) > threshold:
            for k in range(wires.weight.shape[1]):
                weight = wires.weight[i - wires.first, k]
                kept.logits[n, k] = kept.logits[n, k] + change * weight
            tally[place, MAC] += wires.weight.shape[1]
            tally[place, WEIGHT_READ] += wires.weight.shape[1]
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
    if wires.kind == SQUARED_ERROR:
        for k in range(wires.last - wires.first):
            kept.pull[n, k] = state[n, wires.first + k] - batch.targets[n, k]
            tally[place, STATE_READ] += 1
        return
    for k in range(wires.weight.shape[1]):
        work.logits[k] = kept.logits[n, k]
    softmax_errors(n, batch.targets, work, place, tally)
    for k in range(wires.weight.shape[1]):
        change = work.error[k] - kept.sent_error[n, k]
        if abs(change) > threshold:
            kept.sent_error[n, k] = work.error[k]
            for i in range(wires.weight.shape[0]):
                kept.pull[n, i] = kept.pull[n, i] + change * wires.weight[i, k]
            tally[place, MAC] += wires.weight.shape[0]
            tally[place, WEIGHT_READ] += wires.weight.shape[0]
            tally[place, STATE_WRITE] += 1
            tally[place, MESSAGE] += wires.fan_out[state.shape[1] + k, 0]
            tally[place, HOP] += wires.fan_out[state.shape[1] + k, 1]


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
    place, outputs = wires.layers.shape[0], errors.shape[1]
    for n in range(state.shape[0]):
        for k in range(outputs):
            work.logits[k] = kept.logits[n, k]
        for i in range(wires.first, wires.last):
            change = state[n, i] - kept.sent[n, i]
            if abs(change) > threshold:
                for k in range(outputs):
                    weight = wires.weight[i - wires.first, k]
                    work.logits[k] = work.logits[k] + change * weight
                tally[place, MAC] += outputs
                tally[place, WEIGHT_READ] += outputs
                tally[place, STATE_READ] += 1
                tally[place, MESSAGE] += to_outputs[i - wires.first, 0]
                tally[place, HOP] += to_outputs[i - wires.first, 1]
        softmax_errors(n, targets, work, place, tally)
        for k in range(outputs):
            errors[n, k] = work.error[k]


# --- Learning ------------------------------------------------------------------------------------


@njit(cache=True)
def correlate(gradient, source, target, scale, tally):
    """Add `scale source_i target_j` of every sample to `gradient[i, j]`; `tally (kinds,)`."""
    for n in range(source.shape[0]):
        for i in range(source.shape[1]):
            value = scale * source[n, i]
            for j in range(target.shape[1]):
                gradient[i, j] = gradient[i, j] + value * target[n, j]
            tally[MAC] += target.shape[1]
            tally[TRACE_READ] += target.shape[1]
            tally[TRACE_WRITE] += target.shape[1]
            tally[STATE_READ] += 1
        tally[STATE_READ] += target.shape[1]


@njit(cache=True)
def correlate_bias(gradient, target, scale, tally):
    """Add `scale target_j` of every sample to `gradient[j]`; `tally (kinds,)`."""
    for n in range(target.shape[0]):
        for j in range(target.shape[1]):
            gradient[j] = gradient[j] + scale * target[n, j]
        tally[TRACE_READ] += target.shape[1]
        tally[TRACE_WRITE] += target.shape[1]
        tally[STATE_READ] += target.shape[1]
