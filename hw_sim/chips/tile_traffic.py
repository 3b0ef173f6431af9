"""How many hops each pass of a crossbar takes, place by place: exact, whatever the states are."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.couplings.link import ONE, Link
from engine.model.network import Network
from hw_sim.chips.messages import Way, input_ways, readout_ways, recurrent_ways
from hw_sim.chips.tile_mesh import Tile, TileMesh, tile_mesh
from hw_sim.counts import OpCounts
from hw_sim.places import READOUT, places


class Traffic(NamedTuple):
    """Hops of one sample at each place, `(places,)`."""

    input: IntArray
    """Of its drive, in one set of arrays."""
    step: IntArray
    """Of one step without a nudge."""
    readout: IntArray
    """Of the read-out, once."""
    errors: IntArray
    """Of errors that are sent back through it, once."""
    told: IntArray
    """So that the synapses of all links see both their ends, once for each phase."""
    corrected: IntArray
    """So that those of the read-out see the errors; states have just been sent."""

    def of_step(self, nudged: bool) -> IntArray:
        """Return what one step of a relaxation sends."""
        return self.step + nudged * (self.readout + self.errors)

    def of_learning(self, energy: bool, cost: bool) -> IntArray:
        """Return what the local rule of the energy and that of the read-out are told."""
        return energy * self.told + cost * self.corrected


@lru_cache(maxsize=64)
def traffic_of(network: Network, tile: Tile, converts: bool = True) -> Traffic:
    """Return what moves between the tiles of a network; without tiles nothing does."""
    mesh, names = tile_mesh(network, tile, converts), places(network)

    def summed(found: Iterable[tuple[str, IntArray]]) -> IntArray:
        hops = np.zeros(len(names), np.int64)
        for place, words in found:
            hops[names.index(place)] += words.sum()
        return hops

    out = [way.link for way in readout_ways(network)]
    return Traffic(
        summed((way.ends[1], mesh.read(way)) for way in input_ways(network)),
        summed((way.ends[1], mesh.read(way)) for way in recurrent_ways(network)),
        summed((READOUT, mesh.read(Way(link))) for link in out),
        summed((READOUT, mesh.read(Way(link, backwards=True))) for link in out),
        summed((link.target, mesh.told(link)) for link in synaptic_links(network)),
        summed((READOUT, mesh.sent(link, from_rows=False)) for link in out),
    )


def words_passed(network: Network, tile: Tile, converts: bool, counts: OpCounts) -> IntArray:
    """Return the words that left each tile in a run of EqProp, `(tiles,)`, from its counted hops.

    All passes of a phase at a place send the same words on the same ways.
    """
    mesh = tile_mesh(network, tile, converts)
    passed = mesh.sent_nothing
    for (phase, place, kind), hops in counts:
        if kind == "hop":
            once = _words_of_pass(network, mesh, phase, place)
            passed += hops // int(once.sum()) * once
    return passed


def _words_of_pass(network: Network, mesh: TileMesh, phase: str, place: str) -> IntArray:
    """Return the words that leave each tile in one pass of a phase."""
    if place == READOUT:
        (way,) = readout_ways(network)
        found = [mesh.read(way)]
        if phase == "nudged":
            found.append(mesh.read(Way(way.link, backwards=True)))
        if phase == "learn":
            found.append(mesh.sent(way.link, from_rows=False))
    elif phase == "learn":
        found = [mesh.told(link) for link in synaptic_links(network) if link.target == place]
    else:
        ways = input_ways(network) if phase == "input" else recurrent_ways(network)
        found = [mesh.read(way) for way in ways if way.ends[1] == place]
    return sum(found, mesh.sent_nothing)


def synaptic_links(network: Network) -> list[Link]:
    """Return the links whose synapses lie in arrays, but for the read-out."""
    return [link for link in network.links.values() if link.source != ONE]
