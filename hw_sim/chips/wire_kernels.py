"""The compiled sums of `wires`: drops along rows and columns, in one pass up the rows each."""

import numpy as np

from hw_sim.chips.kernel_compiler import kernel


@kernel
def see_through_wires(cells, resistance, height, width, seen):
    """Write what `cells (rows, columns)` are at the ends of their lines into `seen`.

    Each tile of `height` rows and `width` columns has lines of its own.
    """
    rows, columns = cells.shape
    below = np.zeros(columns)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            bottom, right = min(top + height, rows), min(left + width, columns)
            _see_tile(cells, resistance, top, bottom, left, right, below, seen)


@kernel
def _see_tile(cells, resistance, top, bottom, left, right, below, seen):
    """Write one tile of `seen`.

    The current of a segment is that of the cells beyond it; a drop is the sum of the currents of
    all segments up to a cell. Cells count as if they had no wires. `below (columns,)` is scratch.
    """
    for j in range(left, right):
        seen[top, j] = cells[top, j]
        below[j] = 0.0
    for i in range(top + 1, bottom):  # the current below each row
        for j in range(left, right):
            seen[i, j] = seen[i - 1, j] + cells[i, j]
    for i in range(bottom - 1, top - 1, -1):
        current = 0.0
        for j in range(left, right):
            current += cells[i, j]
        along = 0.0
        for j in range(left, right):
            below[j] += seen[i, j]
            along += current
            current -= cells[i, j]
            seen[i, j] = cells[i, j] / (1.0 + resistance * (along + below[j]))
