"""Compiled crossbar arrays as their ends see them: pairs of cells behind the drops of their lines.

The current of a segment is that of the cells beyond it; a drop is the sum of the currents of all
segments up to a cell. Cells count as if they had no wires.
"""

import numpy as np

from hw_sim.chips.kernel_compiler import kernel


@kernel
def see_pairs(level, first, rows, columns, lines, currents, loud, at):
    """Write what pairs add to a current, from `at` on, and to its variance unless `loud` is empty.

    The pairs lie in `level (2, pairs)` from `first` on, row by row.
    """
    along, across, below = np.zeros((2, rows)), np.zeros((2, columns)), np.zeros((2, columns))
    for top in range(0, rows, lines.height):
        for left in range(0, columns, lines.width):
            tile = top, min(top + lines.height, rows), left, min(left + lines.width, columns)
            _sum_tile(level, first, columns, lines, tile, along, across)
            below[:] = 0.0
            _see_tile(level, first, columns, lines, tile, along, across, below, currents, loud, at)


@kernel
def _sum_tile(level, first, columns, lines, tile, along, across):
    """Write the currents of all rows of a tile into `along`, of all columns into `across`."""
    top, bottom, left, right = tile
    scale = 1.0 - lines.off
    across[:] = 0.0
    for i in range(top, bottom):
        row, plus, minus = np.uint64(first + i * columns), 0.0, 0.0
        for j in range(np.uint64(left), np.uint64(right)):
            up = lines.off + scale * level[0, row + j]
            down = lines.off + scale * level[1, row + j]
            plus += up
            minus += down
            across[0, j] += up
            across[1, j] += down
        along[0, i], along[1, i] = plus, minus


@kernel
def _see_tile(level, first, columns, lines, tile, along, across, below, currents, loud, at):
    """See a tile through its lines: up from the amplifiers, and along each row from its driver."""
    top, bottom, left, right = tile
    scale, is_loud = 1.0 - lines.off, loud.shape[0] > 0
    for i in range(bottom - 1, top - 1, -1):
        row, to = np.uint64(first + i * columns), np.uint64(at + i * columns)
        plus, minus, up_drop, down_drop = along[0, i], along[1, i], 0.0, 0.0
        for j in range(np.uint64(left), np.uint64(right)):
            up = lines.off + scale * level[0, row + j]
            down = lines.off + scale * level[1, row + j]
            below[0, j] += across[0, j]
            below[1, j] += across[1, j]
            across[0, j] -= up
            across[1, j] -= down
            up_drop += plus
            down_drop += minus
            plus -= up
            minus -= down
            up = up / (1.0 + lines.resistance * (up_drop + below[0, j]))
            down = down / (1.0 + lines.resistance * (down_drop + below[1, j]))
            currents[to + j] = lines.reach * (up - down)
            if is_loud:
                loud[to + j] = lines.loudness * (up * up + down * down)
