"""The compiled update of the digital chip: random words, and weights that are rounded by them."""

import math

from hw_sim.chips.digital_kernels import clipped
from hw_sim.chips.kernel_arguments import FIRST, HOME, LAST, MIRROR, SIDE, WIDTH
from hw_sim.chips.kernel_compiler import kernel
from hw_sim.events import RANDOM, TRACE_READ, WEIGHT_READ, WEIGHT_WRITE

TILE = 32
"""Rows and columns of a block that are turned at once."""
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
            for at in range(k, until):
                register = register ^ ((register << 13) & 0xFFFFFFFF)
                register = register ^ (register >> 17)
                register = register ^ ((register << 5) & 0xFFFFFFFF)
                noise[at] = register & 0xFFFF
            drawn += until - k
            row += 1
            k = until + row  # the words before the diagonal are those of earlier rows
        for top in range(0, side, TILE):  # in tiles, so that a column stays in the cache
            for left in range(0, top + 1, TILE):
                for i in range(top, min(top + TILE, side)):
                    for j in range(left, min(left + TILE, i)):
                        noise[start + i * side + j] = noise[start + j * side + i]
        tally[blocks[b, HOME], RANDOM] += drawn
    return register


@kernel
def write_words(theta, mirror, update, noise, blocks, formats, tally):
    """Add `update` with the rounding that `noise` decides; return the saturations.

    A word that does not change is not written, nor is its copy in `mirror`, from which blocks are
    read backwards.
    """
    saturated = 0
    for b in range(blocks.shape[0]):
        start, stop, columns = blocks[b, FIRST], blocks[b, LAST], blocks[b, WIDTH]
        written = 0
        for k in range(start, stop):
            wanted = clipped(update[k] * formats.scale, -LARGEST, LARGEST)
            step = (math.floor(wanted) + noise[k]) >> formats.shift
            if step != 0:
                total = theta[k] + step
                word = clipped(total, formats.low, formats.high)
                theta[k] = word
                saturated += total != word
                written += 1
                if blocks[b, MIRROR] >= 0:
                    row, column = (k - start) // columns, (k - start) % columns
                    there = column * ((stop - start) // columns) + row
                    mirror[blocks[b, MIRROR] + there] = word
        tally[blocks[b, HOME], TRACE_READ] += stop - start
        tally[blocks[b, HOME], WEIGHT_READ] += written
        tally[blocks[b, HOME], WEIGHT_WRITE] += written
    return saturated
