"""The compiled event-driven chip: a unit sends what changed since it last sent."""

from hw_sim.chips.exchange_kernels import begin_exchange, end_exchange, hear, speak
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
from hw_sim.chips.real_kernels import activated, add_row, softmax_errors
from hw_sim.events import (
    ACTIVATION,
    COMPARE,
    HOP,
    MAC,
    MESSAGE,
    SPIKE_OUT,
    STATE_READ,
    STATE_WRITE,
    WEIGHT_READ,
)


@kernel
def drive_events(x, feeds, fan, landing, cores, drive, tally):
    """Write `bias + x inputs` into `drive`; an input of zero sends nothing.

    `fan (inputs, layers)`: an input is one message to each core that holds units it drives, and
    meets the synapses of `landing` there.
    """
    for n in range(x.shape[0]):
        begin_exchange(cores, cores.idle)
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
                to, writes = targets_of(messages, m, p)
                for r in range(rows):
                    i = unit_at(first, messages.gather, reads, p * rows + r)
                    if i >= 0 and x[n, i] != 0.0:
                        weight = block + r * columns
                        added = add_row(drive, n, x[n, i], messages, weight, columns, to, writes)
                        tally[place, MAC] += added
                        tally[place, WEIGHT_READ] += added
        for i in range(x.shape[1]):
            if x[n, i] != 0.0:
                hear(cores, landing, i)
                for k in range(feeds.layers.shape[0]):
                    tally[k, MESSAGE] += fan[i, k]
        end_exchange(cores, 1, tally)


@kernel
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


@kernel
def _begin_events(n, wires, batch, kept, state, from_drive, tally):
    """Forget what was sent; where `from_drive`, start at the activated drive."""
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            kept.sent[n, u] = 0.0
            kept.total[n, u] = batch.drive[n, u]
            if from_drive:
                state[n, u] = activated(batch.drive[n, u], wires.layers[k, CODE])
                tally[k, ACTIVATION] += 1
                tally[k, STATE_WRITE] += 1
    for i in range(kept.pull.shape[1]):
        kept.pull[n, i] = 0.0
    if wires.readout.table.shape[0] > 0:
        for k in range(kept.logits.shape[1]):
            kept.logits[n, k] = wires.bias[k % wires.bias.shape[0]]
            kept.sent_error[n, k] = 0.0


@kernel
def _send_changes(n, messages, threshold, kept, state, totals, k, tally):
    """Add what units that changed enough send to `totals[k]`; only those that listen do work."""
    for m in range(messages.table.shape[0]):
        place, rows = messages.table[m, PLACE], messages.table[m, ROWS]
        columns, block = messages.table[m, COLUMNS], messages.table[m, BLOCK]
        first, reads = messages.table[m, SOURCE], messages.table[m, READS]
        for p in range(messages.table[m, POSITIONS]):
            to, writes = targets_of(messages, m, p)
            added = 0
            for r in range(rows):
                i = unit_at(first, messages.gather, reads, p * rows + r)
                if i >= 0:
                    change = state[n, i] - kept.sent[n, i]
                    if abs(change) > threshold:
                        weight = block + r * columns
                        added += add_row(totals, k, change, messages, weight, columns, to, writes)
            tally[place, MAC] += added
            tally[place, WEIGHT_READ] += added


@kernel
def _spike(sender, fan, landing, cores, home, place, tally):
    """Send one event to all cores that listen; `fan (senders, 2)` has its messages and hops."""
    tally[place, SPIKE_OUT] += 1
    tally[place, MESSAGE] += fan[sender, 0]
    tally[place, HOP] += fan[sender, 1]
    speak(cores, landing, sender, home)


@kernel
def _send_states(n, wires, threshold, kept, state, cores, tally):
    """Send the change of every unit that changed enough to all that listen."""
    begin_exchange(cores, cores.units)
    _send_changes(n, wires.messages, threshold, kept, state, kept.total, n, tally)
    _send_changes(n, wires.readout, threshold, kept, state, kept.logits, n, tally)
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            if abs(state[n, u] - kept.sent[n, u]) > threshold:
                kept.sent[n, u] = state[n, u]
                tally[k, STATE_READ] += 1
                tally[k, STATE_WRITE] += 1
                _spike(u, wires.fan_out, cores.landing, cores, cores.home[u], k, tally)
    end_exchange(cores, 1, tally)


@kernel
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
    begin_exchange(cores, cores.outputs)
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
                home = cores.home[neuron]
                _spike(neuron, wires.fan_out, cores.landing, cores, home, place, tally)
    end_exchange(cores, 1, tally)


@kernel
def _pull_back(n, readout, p, k, change, kept):
    """Add the change of output `k` of a position to the pull of all that it reads; count them."""
    rows, outputs = readout.table[0, ROWS], readout.table[0, COLUMNS]
    reads, block, found = readout.table[0, READS], readout.table[0, BLOCK], 0
    for r in range(rows):
        i = unit_at(0, readout.gather, reads, p * rows + r)
        if i >= 0:
            weight = readout.weights[block + r * outputs + k]
            kept.pull[n, i] = kept.pull[n, i] + change * weight
            found += 1
    return found


@kernel
def _map_events(n, wires, batch, kept, state, work, tally):
    """Write `T(s)` of sample `n` into `work.image`; return the residual."""
    gap = 0.0
    for k in range(wires.layers.shape[0]):
        for u in range(wires.layers[k, START], wires.layers[k, END]):
            total = kept.total[n, u]
            if batch.beta != 0.0 and wires.first <= u < wires.last:
                total = total - batch.beta * kept.pull[n, u - wires.first]
                tally[wires.layers.shape[0], MAC] += 1
            work.image[u] = activated(total, wires.layers[k, CODE])
            moved = abs(work.image[u] - state[n, u])
            gap = moved if not moved <= gap else gap  # lets NaN through
            tally[k, COMPARE] += 1
            tally[k, STATE_READ] += 1
            tally[k, ACTIVATION] += 1
            tally[k, STATE_WRITE] += 1
    return gap


@kernel
def read_events(
    wires, targets, threshold, kept, to_outputs, landing, state, errors, work, cores, tally
):
    """Write `softmax - y` into `errors (samples, outputs)`, from the logits that events summed.

    Units that changed by more than `threshold` since they sent tell the read-out now, which takes
    the messages and hops of `to_outputs (size, 2)` and meets the synapses of `landing`.
    """
    place = wires.layers.shape[0]
    for n in range(state.shape[0]):
        begin_exchange(cores, cores.outputs)
        for k in range(errors.shape[1]):
            work.logits[0, k] = kept.logits[n, k]
        _send_changes(n, wires.readout, threshold, kept, state, work.logits, 0, tally)
        for i in range(wires.first, wires.last):
            if abs(state[n, i] - kept.sent[n, i]) > threshold:
                tally[place, STATE_READ] += 1
                sender = i - wires.first
                _spike(sender, to_outputs, landing, cores, cores.home[i], place, tally)
        end_exchange(cores, 1, tally)
        softmax_errors(n, wires, targets, work, tally)
        for k in range(errors.shape[1]):
            errors[n, k] = work.error[k]
