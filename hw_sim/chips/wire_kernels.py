"""The compiled sums of `wires`: drops along rows and columns, in one pass up the rows each."""

import numpy as np
from numba import njit


@njit(cache=True)
def see_through_wires(cells, resistance, seen):
    """Write what `cells (rows, columns)` are at the ends of their lines into `seen`.

    The current of a segment is that of the cells beyond it; a drop is the sum of the currents of
    all segments up to a cell. Cells count as if they had no wires.
    """
    rows, columns = cells.shape
    for j in range(columns):
        seen[0, j] = cells[0, j]
    for i in range(1, rows):  # the current below each row
        for j in range(columns):
            seen[i, j] = seen[i - 1, j] + cells[i, j]
    below = np.zeros(columns)
    for i in range(rows - 1, -1, -1):
        current = 0.0
        for j in range(columns):
            current += cells[i, j]
        along = 0.0
        for j in range(columns):
            below[j] += seen[i, j]
            along += current
            current -= cells[i, j]
            seen[i, j] = cells[i, j] / (1.0 + resistance * (along + below[j]))
