"""Which weights of a network lie in crossbar arrays, and where in them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from engine.arrays import IntArray
from engine.errors import EngineError
from engine.model.network import Network
from hw_sim.chips.kernel_arguments import DRIVEN, JOINED
from hw_sim.chips.messages import Way, input_ways, readout_ways, recurrent_ways
from hw_sim.places import places


@lru_cache(maxsize=64)
def input_cells(network: Network) -> IntArray:
    """Cells of the arrays that the input drives, for each layer."""
    cells = np.zeros(len(network.layers), np.int64)
    for way in input_ways(network):
        cells[places(network).index(way.link.target)] += 2 * way.link.macs
    return cells


def cells_of(network: Network) -> Any:
    """Mark the parameters that are cells: all but the biases."""
    marks = np.zeros(network.size, bool)
    for way in arrays(network):
        marks[network.blocks[way.link.block].span] = True
    return marks


@lru_cache(maxsize=64)
def cell_starts(network: Network) -> dict[str, int]:
    """Return for each block in an array the first of its pairs: blocks lie in their order."""
    starts, count = {}, 0
    held = {way.link.block for way in arrays(network)}
    for name, block in network.blocks.items():
        if name in held:
            starts[name] = count
            count += block.size
    return starts


def arrays(network: Network) -> list[Way]:
    """Return every array once, in the direction of its link."""
    recurrent = [way for way in recurrent_ways(network) if not way.backwards]
    return [*input_ways(network), *recurrent, *readout_ways(network)]


def check_settling(network: Network) -> None:
    """Refuse an array that would have to conduct at several positions at once."""
    for way in arrays(network):
        if way.link.positions > 1:
            raise EngineError(
                f"the crossbar has convert_each_step False, but the array of '{way.link.block}' "
                f"is read at {way.link.positions} positions, one after the other."
            )


def tile_table(ways: Sequence[Way], tile: tuple[int, int], converts: bool) -> IntArray:
    """Return for each way the rows whose currents join, and the tiles that a row drives.

    `tile` has the rows and columns of a block, 0 is without end; backwards they change roles.
    Without converters between steps the currents of all tiles of a column join.
    """
    table = np.ones((len(ways), 2), np.int64)
    for k, way in enumerate(ways):
        (words, totals), (height, width) = way.shape, tile[::-1] if way.backwards else tile
        table[k, JOINED] = min(height, words) if height and converts else words
        table[k, DRIVEN] = -(-totals // width) if width else 1
    return table
