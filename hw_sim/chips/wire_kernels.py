"""Compiled crossbar arrays as their ends see them: pairs of cells behind the drops of their lines.

The current of a segment is that of the cells beyond it; a drop is the sum of the currents of all
segments up to a cell. Cells count as if they had no wires. A tile is summed from its first row
down, and then seen from its last row up, either way from the left; it may be done in pieces, as
what a piece begins with is `carried` over from those before it.
"""

import numpy as np

from hw_sim.chips.kernel_arguments import Carried
from hw_sim.chips.kernel_compiler import kernel


@kernel
def see_tiles(level, first, rows, columns, lines, top, bottom, currents, loud, at):
    """See all tiles of the rows from `top`, where some begin, to `bottom`; see `see_piece`."""
    along, dropped = np.zeros((2, rows)), np.zeros((2, rows))
    across, below = np.zeros((2, columns)), np.zeros((2, columns))
    carried = Carried(along, dropped, across, below)
    for start in range(top, bottom, lines.height):
        stop = min(start + lines.height, bottom)
        for left in range(0, columns, lines.width):
            right = min(left + lines.width, columns)
            along[:, start:stop] = dropped[:, start:stop] = 0.0
            across[:, left:right] = below[:, left:right] = 0.0
            tile = start, stop, left, right
            sum_piece(level, first, columns, lines, tile, carried)
            see_piece(level, first, columns, lines, tile, carried, currents, loud, at)


@kernel
def sum_piece(level, first, columns, lines, piece, carried):
    """Add the currents of a piece to those of its rows and its columns."""
    top, bottom, left, right = piece
    along, across, scale = carried.along, carried.across, 1.0 - lines.off
    for i in range(top, bottom):
        row, plus, minus = np.uint64(first + i * columns), along[0, i], along[1, i]
        for j in range(np.uint64(left), np.uint64(right)):
            up = lines.off + scale * level[0, row + j]
            down = lines.off + scale * level[1, row + j]
            plus += up
            minus += down
            across[0, j] += up
            across[1, j] += down
        along[0, i], along[1, i] = plus, minus


@kernel
def see_piece(level, first, columns, lines, piece, carried, currents, loud, at):
    """Write what pairs add to a current, from `at` on, and to its variance unless `loud` is empty.

    The pairs lie in `level (2, pairs)` from `first` on, row by row.
    """
    top, bottom, left, right = piece
    along, dropped, across, below = carried
    scale, is_loud = 1.0 - lines.off, loud.shape[0] > 0
    for i in range(bottom - 1, top - 1, -1):
        row, to = np.uint64(first + i * columns), np.uint64(at + i * columns)
        plus, minus, up_drop, down_drop = along[0, i], along[1, i], dropped[0, i], dropped[1, i]
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
        along[0, i], along[1, i], dropped[0, i], dropped[1, i] = plus, minus, up_drop, down_drop
