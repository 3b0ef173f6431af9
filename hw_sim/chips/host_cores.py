"""Blocks of rows over the cores of the machine that simulates, each with a tally of its own.

Rows are samples, which a chip takes one by one, or rows of a block of weights: either way no row
sees another, so that results are the same bits for any number of blocks.
"""

from collections.abc import Callable

import numpy as np

from engine.arrays import IntArray
from engine.compiled.threads import row_blocks, run_blocks


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
