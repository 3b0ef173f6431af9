"""Tiles of a crossbar on a square mesh: where blocks lie, and which words move between tiles.

A tile is a pair of arrays, of `g+` and of `g-`, and holds a part of one block. Tiles lie on the
mesh in the order of the blocks, row by row of a block. Every unit has a home, the tile on which its
words are kept. A word goes from there to each tile that it drives, and what the tiles of a column
converted goes home to be added up; a hop is one word that moves on to the next tile. Currents that
join before a converter are no words, and nothing moves without tiles.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.couplings.link import INPUT, OUTPUT, Link
from engine.model.network import Network
from hw_sim.chips.arrays import arrays
from hw_sim.chips.mesh import side_of
from hw_sim.chips.messages import Way

Tile = tuple[int, int]
"""Rows and columns of the largest array; 0 is without end."""


class TiledBlock(NamedTuple):
    """The tiles of one block: `down` times `across`, the first of them is number `first`."""

    link: Link
    first: int
    height: int
    width: int

    @property
    def down(self) -> int:
        """Tiles below one another."""
        return -(-self.link.fan_in // self.height)

    @property
    def across(self) -> int:
        """Tiles beside one another."""
        return -(-self.link.fan_out // self.width)

    @property
    def tiles(self) -> int:
        """All tiles of the block."""
        return self.down * self.across

    def crossed(self, lines: IntArray, rows: bool) -> IntArray:
        """Return the tiles that rows, or columns, cross, `(tiles, lines)`."""
        if rows:
            return self.first + lines // self.height * self.across + _upright(self.across)
        return self.first + lines // self.width + _upright(self.down) * self.across

    def used(self, number: int) -> tuple[slice, slice]:
        """Return the rows and columns of the block that its tile `number` holds."""
        top, left = number // self.across * self.height, number % self.across * self.width
        return (
            slice(top, min(top + self.height, self.link.fan_in)),
            slice(left, min(left + self.width, self.link.fan_out)),
        )


def _upright(count: int) -> IntArray:
    return np.arange(count, dtype=np.int64)[:, None]


@lru_cache(maxsize=64)
def tiled_blocks(network: Network, tile: Tile) -> tuple[TiledBlock, ...]:
    """Return how every block is cut, in the order in which they lie on the mesh."""
    found, first = [], 0
    for way in arrays(network):
        sizes = way.link.fan_in, way.link.fan_out
        height, width = (min(most or size, size) for most, size in zip(tile, sizes, strict=True))
        found.append(TiledBlock(way.link, first, height, width))
        first += found[-1].tiles
    return tuple(found)


def tile_shapes(network: Network, tile: Tile) -> list[tuple[int, int]]:
    """Return the rows and columns in use on every tile."""
    spans = [block.used(k) for block in tiled_blocks(network, tile) for k in range(block.tiles)]
    return [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in spans]


def leaving(start: IntArray, end: IntArray, count: int) -> IntArray:
    """Return how many words leave each of `count` tiles, `(count,)`, if one goes each way.

    `start` and `end` are tiles, one for each word. Words go along their row of the mesh and then
    along a column; from the last row, which may not be full, they leave along their column. The sum
    is the number of hops.
    """
    side = side_of(count)
    (y, x), (to_y, to_x) = np.divmod(start, side), np.divmod(end, side)
    is_last = y == (count - 1) // side
    row, column = np.where(is_last, to_y, y), np.where(is_last, x, to_x)
    # Marks where words begin and cease to leave tiles; running sums then count them.
    across, down = (np.zeros((side, side + 1), np.int64) for _ in range(2))
    for marks, line, here, there in ((across, row, x, to_x), (down, column, y, to_y)):
        onward = there > here
        np.add.at(marks, (line, np.where(onward, here, there + 1)), there != here)
        np.add.at(marks, (line, np.where(onward, there, here + 1)), -(there != here).astype(int))
    passed: IntArray = across.cumsum(1)[:, :side] + down.cumsum(1)[:, :side].T
    return passed.reshape(-1)[:count]


class TileMesh:
    """A network on tiles; without a size of tiles nothing moves.

    Where states stay analog (`converts` false) only inputs, errors and what synapses are told are
    words.
    """

    def __init__(self, network: Network, tile: Tile, converts: bool) -> None:
        self.converts, self.is_cut = converts, any(tile)
        self.blocks = {block.link.block: block for block in tiled_blocks(network, tile)}
        self.count = sum(block.tiles for block in self.blocks.values())
        self.homes = _homes(network, tuple(self.blocks.values()))
        """Of each unit of a layer, of the inputs and of the outputs: the tile of its words."""

    def driven(self, way: Way) -> IntArray:
        """Return the words that leave each tile so that a way is driven, `(tiles,)`."""
        if way.ends[0] in (INPUT, OUTPUT) or self.converts:
            return self.sent(way.link, from_rows=not way.backwards)
        return self.sent_nothing

    def joined(self, way: Way) -> IntArray:
        """Return the words that leave each tile to be added up at home, `(tiles,)`.

        Where the lines that join lie on one tile, their currents do, and no word moves.
        """
        block = self.blocks[way.link.block]
        parts = block.across if way.backwards else block.down
        if not (self.is_cut and self.converts and parts > 1):
            return self.sent_nothing
        home, tiles = self._crossed(block, rows=way.backwards)
        return leaving(tiles, np.broadcast_to(home, tiles.shape), self.count)

    def read(self, way: Way) -> IntArray:
        """Return the words that leave each tile for one read of an array at all its positions."""
        return self.driven(way) + self.joined(way)

    def told(self, link: Link) -> IntArray:
        """Return the words that leave each tile so that synapses see both ends, `(tiles,)`."""
        return self.sent(link, from_rows=True) + self.sent(link, from_rows=False)

    def sent(self, link: Link, from_rows: bool) -> IntArray:
        """Return what leaves each tile so that the words of all rows, or columns, reach theirs."""
        if not self.is_cut:
            return self.sent_nothing
        home, tiles = self._crossed(self.blocks[link.block], from_rows)
        return leaving(np.broadcast_to(home, tiles.shape), tiles, self.count)

    @property
    def sent_nothing(self) -> IntArray:
        """No word leaves any tile."""
        return np.zeros(self.count, np.int64)

    def _crossed(self, block: TiledBlock, rows: bool) -> tuple[IntArray, IntArray]:
        """Return the home of each word of the rows or columns, and the tiles it crosses.

        `(words,)` and `(tiles, words)`, the words of one position after those of another.
        """
        lines, units = _lines_of(block.link, rows)
        home = self.homes[block.link.source if rows else block.link.target][units]
        return home, block.crossed(lines, rows)


@lru_cache(maxsize=64)
def tile_mesh(network: Network, tile: Tile, converts: bool = True) -> TileMesh:
    """Return the tiles that hold a network."""
    return TileMesh(network, tile, converts)


def _lines_of(link: Link, rows: bool) -> tuple[IntArray, IntArray]:
    """Return the line and the unit of every word at one end of a link, position by position."""
    units = link.gather if rows else np.arange(link.positions * link.fan_out)
    lines = np.resize(np.arange(link.fan_in if rows else link.fan_out), units.size)
    there = units.ravel() >= 0
    return lines[there], units.ravel()[there]


def _homes(network: Network, blocks: Sequence[TiledBlock]) -> dict[str, IntArray]:
    """Return the home of each unit, input and output.

    That is the first tile of the column in which it hears others, else of a row that it drives;
    recurrent arrays first, as they are read most often.
    """
    sizes = {INPUT: network.inputs, **network.sizes, OUTPUT: network.outputs}
    found = {name: np.full(size, -1, np.int64) for name, size in sizes.items()}
    ordered = sorted(blocks, key=lambda block: block.link.source == INPUT)
    for rows in (False, True):
        for block in ordered:
            home = found[block.link.source if rows else block.link.target]
            lines, units = _lines_of(block.link, rows)
            units, first = np.unique(units, return_index=True)  # a pixel lies in several windows
            is_open = home[units] < 0
            home[units[is_open]] = block.crossed(lines[first[is_open]], rows)[0]
    return {name: np.maximum(home, 0) for name, home in found.items()}
