"""What units send each other in a step: the recurrent drive of every layer."""

from engine.compiled.addresses import call
from engine.compiled.compiler import inner
from engine.compiled.parts import clear, part
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
    OFFSET,
    PACKED,
    POSITIONS,
    PRODUCT,
    SEND_BACK,
    SEND_ON,
    SIZE,
    SIZES,
    SIZES_STOP,
    SOURCE,
    TARGET,
)
from engine.compiled.windows import Windows


@inner
def send(net, stage, work, turn, rows):
    """Write the recurrent drive of the layers whose turn it is.

    A layer that nothing has stirred is as it began, at zero, and sends nothing.
    """
    capacity, turns = len(work.order), stage.turns
    for k in range(len(turns)):
        if turns[k] == turn:
            first, size = capacity * net.layers[k, OFFSET], net.layers[k, SIZE]
            clear(part(work.drive, first, rows * size))
    for m in range(len(net.messages)):
        message = net.messages[m]
        source, target = net.layers[message[SOURCE]], net.layers[message[TARGET]]
        if turns[message[TARGET]] == turn and work.stirred[message[SOURCE]]:
            states = work.state[capacity * source[OFFSET] :]
            drive = work.drive[capacity * target[OFFSET] :]
            packed = net.packed[message[PACKED] :]
            size = target[SIZE]
            if message[GATHER] < 0:
                shape = source[SIZE], packed, drive, size, size
                call(net.calls[PRODUCT], states, rows, *shape, work.edge)
                continue
            first = message[GATHER]
            places = net.places[first : first + message[POSITIONS] + 1]
            read = size if message[BACK] else source[SIZE]
            link = Windows(net.runs, places, read, message[FAN_IN], message[FAN_OUT])
            way = net.calls[SEND_BACK if message[BACK] else SEND_ON]
            call(way, states, rows, link, packed, drive, work.windows, work.edge)
    for c in range(len(net.own)):
        coupling = net.own[c]
        first, stop = coupling[ENDS], coupling[ENDS_STOP]
        wanted = False
        for k in range(first, stop):
            wanted = wanted or turns[net.ends[k]] == turn
        if wanted:  # it drives all its ends: nobody looks at those that have no turn
            sizes = net.sizes[coupling[SIZES] : coupling[SIZES_STOP]]
            constants = net.constants[coupling[CONSTANTS] : coupling[CONSTANTS_STOP]]
            starts, state, drive = work.starts[first:stop], work.state, work.drive
            call(coupling[ADDRESS], state, starts, rows, sizes, constants, work.scratch, drive)
