"""Floor plans: which part of a network lies on which tile or core of a square mesh."""

from dataclasses import dataclass

import numpy as np

from engine.model.network import Network
from hw_sim.chips.landing import homes_on_cores, learned
from hw_sim.chips.mesh import side_of
from hw_sim.chips.tile_mesh import Tile, tiled_blocks
from hw_sim.counts import neuron_count
from hw_sim.places import READOUT


@dataclass(frozen=True)
class Spot:
    """A tile or a core, and what of it is in use."""

    holds: str
    """A block, or the layers whose units lie here."""
    rows: int
    columns: int
    """Lines of a tile that are in use; a core has a column of neurons."""
    used: int
    room: int
    """Pairs of cells, or neurons."""
    synapses: int
    """That lie here: pairs of cells, or those that end at its neurons, at all their positions."""


@dataclass(frozen=True)
class FloorPlan:
    """All tiles or cores, in their order on the mesh, row by row."""

    part: str
    """What a spot is."""
    shape: Tile
    """Rows and columns that a spot has room for."""
    counted_in: str
    """What it has room for."""
    busy_in: str
    """How its hot spots are measured."""
    spots: tuple[Spot, ...]

    @property
    def side(self) -> int:
        """Of the mesh."""
        return side_of(len(self.spots))

    @property
    def utilisation(self) -> float:
        """Share of the room that is in use."""
        return sum(spot.used for spot in self.spots) / sum(spot.room for spot in self.spots)


def on_tiles(network: Network, tile: Tile) -> FloorPlan:
    """Lay a network out on the tiles of a crossbar; a tile holds a part of one block."""
    blocks = tiled_blocks(network, tile)
    largest = max(b.height for b in blocks), max(b.width for b in blocks)
    shape = tile[0] or largest[0], tile[1] or largest[1]
    spots = []
    for block in blocks:
        for number in range(block.tiles):
            rows, columns = (span.stop - span.start for span in block.used(number))
            pairs, room = rows * columns, shape[0] * shape[1]
            spots.append(Spot(block.link.block, rows, columns, pairs, room, pairs))
    return FloorPlan("tile", shape, "pairs", "words passed on", tuple(spots))


def on_cores(network: Network, per_core: int) -> FloorPlan:
    """Lay a network out on cores: units in their order, the outputs after them."""
    home = homes_on_cores(network, per_core)
    neurons = neuron_count(network)
    inside, outside = learned(network, home)
    owners = [name for name, span in network.columns.items() for _ in range(span.stop - span.start)]
    owners += [READOUT] * (neurons - network.units)
    spots = []
    for core in range(int(home[neurons - 1]) + 1):
        held = np.flatnonzero(home[:neurons] == core)
        names = dict.fromkeys(owners[unit] for unit in held)
        count = len(held)
        spots.append(
            Spot(", ".join(names), count, 1, count, per_core, int(inside[core] + outside[core]))
        )
    return FloorPlan("core", (per_core, 1), "neurons", "ns of work", tuple(spots))
