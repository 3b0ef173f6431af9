"""The compiled update of the digital chip: random words, and weights that are rounded by them."""

import math

import numpy as np

from hw_sim.chips.digital_kernels import clipped
from hw_sim.chips.kernel_arguments import FIRST, HOME, LAST, SIDE
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.chips.mirror_kernels import mirror_triangle
from hw_sim.events import RANDOM, TRACE_READ, WEIGHT_READ, WEIGHT_WRITE

LARGEST = 2.0**60
"""Beyond the widest weight in any format, and within the integers of the simulating machine."""


@kernel
def draw_words(noise, blocks, register, tally):
    """Fill `noise (size,)` from a xorshift register, block by block; return the register.

    A pair of lateral weights shares the random word of the first of them.
    """
    for b in range(blocks.shape[0]):
        start, stop, side = blocks[b, FIRST], blocks[b, LAST], blocks[b, SIDE]
        row, drawn = 0, 0
        k = start
        while k < stop:
            until = stop if side == 0 else start + (row + 1) * side
            for at in range(np.uint64(k), np.uint64(until)):
                register = register ^ ((register << 13) & 0xFFFFFFFF)
                register = register ^ (register >> 17)
                register = register ^ ((register << 5) & 0xFFFFFFFF)
                noise[at] = register & 0xFFFF
            drawn += until - k
            row += 1
            k = until + row  # the words before the diagonal are those of earlier rows
        mirror_triangle(noise, start, side)
        tally[blocks[b, HOME], RANDOM] += drawn
    return register


@kernel
def write_words(theta, update, noise, blocks, formats, tally):
    """Add `update` with the rounding that `noise` decides; return the saturations.

    The chip writes a word only where it changes, and that is what is tallied. The simulation
    stores them all: a loop without branches is vectorised.
    """
    saturated = 0
    for b in range(blocks.shape[0]):
        start, stop, written = blocks[b, FIRST], blocks[b, LAST], 0
        for k in range(np.uint64(start), np.uint64(stop)):
            wanted = clipped(update[k] * formats.scale, -LARGEST, LARGEST)
            step = (math.floor(wanted) + noise[k]) >> formats.shift
            total = theta[k] + step
            word = clipped(total, formats.low, formats.high)
            theta[k] = word
            saturated += total != word
            written += step != 0
        tally[blocks[b, HOME], TRACE_READ] += stop - start
        tally[blocks[b, HOME], WEIGHT_READ] += written
        tally[blocks[b, HOME], WEIGHT_WRITE] += written
    return saturated
