"""Blocks of rows over the cores of the machine that simulates, each with a tally of its own.

Rows are samples, which a chip takes one by one, or rows of a block of weights: either way no row
sees another, so that results are the same bits for any number of blocks. Where rows do see each
other, pieces go over the cores in an order in which each finds what it needs.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from engine.arrays import IntArray
from engine.compiled.threads import row_blocks, run_blocks

STRIPES = 8
"""Rows of pieces for each core: in the first and the last some cores wait."""


def over_cores(run: Callable[[slice, IntArray], int], rows: int, work: int, tally: IntArray) -> int:
    """Call `run(rows, tally)` for every block of rows; return the sum of what it returns.

    `work` are the multiply-adds of a row. What the blocks tally is added to `tally`.
    """
    blocks = row_blocks(rows, work)
    tallies, found = [np.zeros_like(tally) for _ in blocks], [0] * len(blocks)

    def run_block(number: int) -> None:
        found[number] = run(blocks[number], tallies[number])

    run_blocks(run_block, range(len(blocks)))
    for part in tallies:
        tally += part
    return sum(found)


def over_pieces(
    run: Callable[[slice, slice], None], rows: int, columns: int, work: int, upwards: bool = False
) -> None:
    """Call `run(rows, columns)` for pieces of a matrix, each after those before and left of it.

    Before it are the pieces above, or `upwards` those below. What lies on a diagonal is done at
    once, one piece on a core; a matrix that is too small for several cores is one piece. `work` are
    the multiply-adds of a column.
    """
    across = row_blocks(columns, work)
    count = STRIPES * len(across) if len(across) > 1 else 1
    down = [slice(*ends) for ends in pairwise(rows * k // count for k in range(count + 1))]
    if upwards:
        down.reverse()
    for last in range(count + len(across) - 1):
        diagonal = [(last - k, k) for k in range(len(across)) if 0 <= last - k < count]
        run_blocks(lambda at: run(down[at[0]], across[at[1]]), diagonal)
