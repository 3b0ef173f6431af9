"""What units send each other in a step: the recurrent drive of every layer."""

from engine.compiled.compiler import call, compiled
from engine.compiled.products import add_product, pack
from engine.compiled.program import (
    ADDRESS,
    BACK,
    CONSTANTS,
    CONSTANTS_STOP,
    ENDS,
    ENDS_STOP,
    FAN_IN,
    FAN_OUT,
    GATHER,
    KIND,
    LAYER,
    OFFSET,
    OUTPUTS,
    PACKED,
    PACKED_BACK,
    PACKED_OUT,
    PLACES,
    POSITIONS,
    SIZE,
    SIZES,
    SIZES_STOP,
    SOURCE,
    SQUARED_ERROR,
    START,
    TARGET,
    WEIGHT,
    block,
)
from engine.compiled.windows import Windows, send_back, send_on


@compiled
def pack_weights(net):
    """Fill `net.packed` with the matrices of the messages and of the read-out."""
    for message in net.messages:
        fan_in, fan_out = message[FAN_IN], message[FAN_OUT]
        weight = net.theta[message[START] : message[START] + fan_in * fan_out]
        into = net.packed[message[PACKED] :]
        if message[BACK]:
            pack(weight.reshape((fan_in, fan_out)).T, into)
        else:
            pack(weight.reshape((fan_in, fan_out)), into)
    if net.readout[KIND] != SQUARED_ERROR:
        size = net.layers[net.readout[LAYER]][SIZE] // net.readout[PLACES]
        outputs = net.readout[OUTPUTS]
        weight = net.theta[net.readout[WEIGHT] : net.readout[WEIGHT] + size * outputs]
        pack(weight.reshape((size, outputs)), net.packed[net.readout[PACKED_OUT] :])
        pack(weight.reshape((size, outputs)).T, net.packed[net.readout[PACKED_BACK] :])


@compiled
def send(net, stage, work, turn, rows):
    """Write the recurrent drive of the layers whose turn it is.

    A layer that nothing has stirred is as it began, at zero, and sends nothing.
    """
    capacity, turns = len(work.order), stage.turns
    for k in range(len(turns)):
        if turns[k] == turn:
            block(work.drive, capacity, net.layers[k], rows)[:] = 0
    for message in net.messages:
        source, target = net.layers[message[SOURCE]], net.layers[message[TARGET]]
        if turns[message[TARGET]] == turn and work.stirred[message[SOURCE]]:
            states = work.state[capacity * source[OFFSET] :]
            drive = work.drive[capacity * target[OFFSET] :]
            packed = net.packed[message[PACKED] :]
            size = target[SIZE]
            if message[GATHER] < 0:
                add_product(states, rows, source[SIZE], packed, drive, size, size, work.edge)
            elif message[BACK]:
                _send_back(net, message, states, rows, packed, drive, size, work)
            else:
                _send_on(net, message, states, rows, packed, drive, source[SIZE], work)
    for coupling in net.own:
        first, stop = coupling[ENDS], coupling[ENDS_STOP]
        wanted = False
        for layer in net.ends[first:stop]:
            wanted = wanted or turns[layer] == turn
        if wanted:  # it drives all its ends: nobody looks at those that have no turn
            sizes = net.sizes[coupling[SIZES] : coupling[SIZES_STOP]]
            constants = net.constants[coupling[CONSTANTS] : coupling[CONSTANTS_STOP]]
            starts, state, drive = work.starts[first:stop], work.state, work.drive
            call(coupling[ADDRESS], state, starts, rows, sizes, constants, work.scratch, drive)


@compiled
def _send_on(net, message, states, rows, packed, drive, size, work):
    """Add what the places of a link send on: each reads its units of the source, of `size`."""
    link = _windows(net, message, size)
    send_on(states, rows, link, packed, drive, work.windows, work.edge)


@compiled
def _send_back(net, message, states, rows, packed, drive, size, work):
    """Add what the places of a link send back to the source, of `size`."""
    link = _windows(net, message, size)
    send_back(states, rows, link, packed, drive, work.windows, work.edge)


@compiled
def _windows(net, message, size):
    """View the windows of a message, whose link has a source of `size`."""
    places = net.places[message[GATHER] : message[GATHER] + message[POSITIONS] + 1]
    return Windows(net.runs, places, size, message[FAN_IN], message[FAN_OUT])
