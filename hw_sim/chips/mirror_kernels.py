"""Compiled mirrors: words of a block that lie a second time, with rows and columns exchanged.

A block is turned in tiles, so that what it reads along and what it writes along stay in the cache.
"""

import numpy as np

from hw_sim.chips.kernel_arguments import FIRST, LAST, MIRROR, WIDTH
from hw_sim.chips.kernel_compiler import kernel

TILE = 16
"""Rows and columns that are turned at once: two lines of the cache each."""


@kernel
def mirror_blocks(words, mirror, blocks):
    """Copy every block that is read backwards to its place in `mirror`, turned."""
    for b in range(blocks.shape[0]):
        start, columns, to = blocks[b, FIRST], blocks[b, WIDTH], blocks[b, MIRROR]
        if to < 0:
            continue
        rows = (blocks[b, LAST] - start) // columns
        for left in range(0, columns, TILE):
            for top in range(0, rows, TILE):
                for j in range(left, min(left + TILE, columns)):
                    column, line = np.uint64(start + j), np.uint64(to + j * rows)
                    for i in range(np.uint64(top), np.uint64(min(top + TILE, rows))):
                        mirror[line + i] = words[column + i * np.uint64(columns)]


@kernel
def mirror_triangle(words, start, side):
    """Copy what lies above the diagonal of a square block below it, in place."""
    for top in range(0, side, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, side)):
                column, line = np.uint64(start + i), np.uint64(start + i * side)
                for j in range(np.uint64(left), np.uint64(min(left + TILE, i))):
                    words[line + j] = words[column + j * np.uint64(side)]
