"""How long counted work takes on a machine: events over the lanes where they are worked off.

Counts know a phase and a place, and a place may stand for work at both ends of a link: what the
read-out sends back arrives at the units that it reads. So each place has a fixed pass of parts,
each with its own lanes, and all passes of a phase are alike. Where arrays are cut into tiles, each
tile has lines, converters, write drivers and a router of its own, and all tiles of a block work at
once.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.model.network import Network
from hw_sim.chips.messages import Way, forward_ways, input_ways, readout_ways, recurrent_ways
from hw_sim.chips.tile_mesh import Tile, TileMesh, tile_mesh
from hw_sim.chips.tile_traffic import synaptic_links
from hw_sim.places import BORDER, READOUT, homes
from hw_sim.prices.machine import Resource

UPDATE = "update"
"""Phase that happens once for a batch, and not once for a sample."""
LEARNING = ("learn", UPDATE)
"""Phases in which every weight of a place works."""
SENT = ("cell_read", "conversion")
"""Events of signals, whatever the phase: errors of the read-out are computed to learn, too."""


class Part(NamedTuple):
    """So many events of a pass, and how many rounds they take."""

    events: float
    rounds: float


class Mapped(NamedTuple):
    """A network on its substrate."""

    network: Network
    in_array: bool = False
    """Whether products are reads of arrays."""
    settles: bool = False
    """Whether states stay analog, so that input arrays conduct all the while."""
    tile: Tile = (0, 0)
    """Rows and columns of the largest array; 0 is without end."""
    one_way: bool = False
    """Whether a layer hears earlier layers alone, and later ones on the way back."""


def rounds_of_one(mapped: Mapped, resource: Resource, phase: str, place: str, kind: str) -> float:
    """Return how many rounds one event takes on average: its share of the lanes it is worked on."""
    if place == BORDER or resource.per == "chip":
        return 1.0 / resource.count
    if resource.per == "tile":
        parts = _routers(mapped, resource, phase, place)
    elif resource.per == "launch" and phase == UPDATE:
        parts = _owned(mapped, Resource("array", resource.count), place)
    elif resource.per in ("unit", "launch"):
        parts = _units(mapped, resource, phase, place, kind)
    elif phase in LEARNING and kind not in SENT:
        parts = _owned(mapped, resource, place)
    elif resource.per == "line":
        parts = _lines(mapped, resource, phase, place)
    else:
        parts = _arrays(mapped, resource, phase, place, kind)
    events = sum(part.events for part in parts)
    return sum(part.rounds for part in parts) / events if events else 1.0 / resource.count


def _units(mapped: Mapped, resource: Resource, phase: str, place: str, kind: str) -> list[Part]:
    """Units work off what arrives: products that the read-out sends back, those that it reads."""
    network, ways = mapped.network, readout_ways(mapped.network)
    here = network.outputs if place == READOUT else network.sizes[place]
    if place != READOUT or kind != "mac" or not ways or phase not in ("nudged", "backward"):
        return [Part(here, here / resource.lanes(here))]
    link, there = ways[0].link, network.sizes[network.readout.layer]
    products = 0 if mapped.in_array else link.macs
    back = products + (_reads(ways[0]) if phase == "nudged" else 0)  # times beta
    parts = [Part(back, back / resource.lanes(there))]
    if phase == "nudged":
        parts.append(Part(products, products / resource.lanes(here)))
    return parts


def _lines(mapped: Mapped, resource: Resource, phase: str, place: str) -> list[Part]:
    """Lines of arrays are converted at both ends, position after position.

    Arrays whose currents join are driven at once, and each unit is converted once; those that are
    read apart follow one another, and are converted each time. What is cut is converted on each of
    its tiles, on all of them at once.
    """
    if place == READOUT:
        parts = []
        for way in _readout_passes(mapped.network, phase):
            drives, arrives = _ends(mapped, way, resource)
            outputs = drives if way.backwards else arrives
            parts += [outputs] if mapped.settles else [drives, arrives]  # units stay analog
        return parts
    joined, apart = _heard(mapped, phase, place)
    parts = [part for way in apart for part in _ends(mapped, way, resource)]
    ends = [_ends(mapped, way, resource) for way in joined]
    if phase == "input" or not mapped.settles:
        parts.append(_at_once([drives for drives, _ in ends]))
    units = mapped.network.sizes[place]
    if mapped.settles:  # converted once, when they are read
        turns = resource.turns(_on_tile(units, mapped.tile[1]))
        return parts + ([Part(units, turns)] if phase != "input" else [])
    whole = [not _is_cut(mapped, way) for way in joined]
    shared = Part(units if any(whole) else 0, 0)  # the converters of units, for all that join
    words = [
        Part(0 if is_whole else arrives.events, arrives.rounds)
        for (_, arrives), is_whole in zip(ends, whole, strict=True)
    ]
    return [*parts, _at_once([shared, *words])]


def _at_once(parts: Iterable[Part]) -> Part:
    """Return what is done side by side as one part: it takes as long as the longest."""
    found = list(parts)
    return Part(sum(p.events for p in found), max((p.rounds for p in found), default=0))


def _arrays(mapped: Mapped, resource: Resource, phase: str, place: str, kind: str) -> list[Part]:
    """All cells of an array at once, and all arrays that join; each at all its positions."""
    cells = 2 if kind == "cell_read" else 1
    joined, apart = (
        ((), _readout_passes(mapped.network, phase))
        if place == READOUT
        else _heard(mapped, phase, place, held=mapped.settles)
    )
    parts = [Part(cells * way.link.macs, way.link.positions / resource.count) for way in apart]
    if joined:
        macs = sum(way.link.macs for way in joined)
        parts.append(Part(cells * macs, _most_positions(joined) / resource.count))
    return parts


def _owned(mapped: Mapped, resource: Resource, place: str) -> list[Part]:
    """Every weight of the blocks of a place: all at once, or one row of a tile after the other."""
    network, (height, width) = mapped.network, mapped.tile
    blocks = [network.blocks[name] for name, home in homes(network).items() if home == place]
    if resource.per == "array":
        size = sum(block.size for block in blocks)
        return [Part(size, 1 / resource.count)] if size else []
    parts = []
    for block in blocks:
        columns = block.shape[-1]
        rows = _on_tile(block.size // columns, height)
        parts.append(Part(block.size, rows * resource.turns(_on_tile(columns, width))))
    return parts


def _routers(mapped: Mapped, resource: Resource, phase: str, place: str) -> list[Part]:
    """Words that move between tiles wait for the router that passes most of them on.

    First all words that drive arrays which are read at once are sent, then all that are added up.
    """
    network, mesh = mapped.network, tile_mesh(mapped.network, mapped.tile, not mapped.settles)
    if phase == "learn" and place != READOUT:
        told = [mesh.told(link) for link in synaptic_links(network) if link.target == place]
        return [_passed(mesh, told, resource)]
    passes: list[tuple[Way, ...]]
    if place == READOUT:
        passes = [(way,) for way in _readout_passes(network, phase)]
    else:
        joined, apart = _heard(mapped, phase, place)
        passes = [joined, *((way,) for way in apart)]
    parts = []
    for ways in passes:
        parts.append(_passed(mesh, [mesh.driven(way) for way in ways], resource))
        parts.append(_passed(mesh, [mesh.joined(way) for way in ways], resource))
    if phase == "learn":  # the errors, to the synapses of the read-out
        back = [mesh.sent(way.link, from_rows=False) for way in readout_ways(network)]
        parts.append(_passed(mesh, back, resource))
    return parts


def _passed(mesh: TileMesh, words: Iterable[IntArray], resource: Resource) -> Part:
    """Return words that move at once: all routers work, and the busiest is waited for."""
    total = sum(words, mesh.sent_nothing)
    return Part(int(total.sum()), int(total.max(initial=0)) / resource.count)


def _readout_passes(network: Network, phase: str) -> tuple[Way, ...]:
    """Return the read-out there, and back where errors are sent."""
    back = tuple(Way(way.link, backwards=True) for way in readout_ways(network))
    return {"nudged": readout_ways(network) + back, "backward": back}.get(
        phase, readout_ways(network)
    )


def _heard(
    mapped: Mapped, phase: str, place: str, held: bool = False
) -> tuple[tuple[Way, ...], tuple[Way, ...]]:
    """Return the arrays that a place hears: those that join, and those that are read apart."""
    ways: tuple[Way, ...] = ()
    if phase != "input":
        ways = _one_way(mapped.network, phase) if mapped.one_way else recurrent_ways(mapped.network)
    if phase == "input" or held:
        ways += input_ways(mapped.network)
    heard = [way for way in ways if way.ends[1] == place]
    return tuple(w for w in heard if not w.apart), tuple(w for w in heard if w.apart)


def _one_way(network: Network, phase: str) -> tuple[Way, ...]:
    ways = forward_ways(network)
    return tuple(way.reverse for way in ways) if phase == "backward" else ways


def _ends(mapped: Mapped, way: Way, resource: Resource) -> tuple[Part, Part]:
    """Return what drives the lines of an array, and what arrives at the others.

    A word drives all tiles of its line; lines take turns with those on their own tile.
    """
    (words, totals), positions = way.shape, way.link.positions
    height, width = mapped.tile[::-1] if way.backwards else mapped.tile
    outside = way.link.gather.size - _reads(way)  # words beyond an edge are not converted
    driven, arrived = positions * words, positions * totals
    if way.backwards:
        arrived -= outside
    else:
        driven -= outside
    parts = _tiles(words, height) if _is_cut(mapped, way) else 1
    return (
        Part(driven * _tiles(totals, width), positions * resource.turns(_on_tile(words, height))),
        Part(arrived * parts, positions * resource.turns(_on_tile(totals, width))),
    )


def _is_cut(mapped: Mapped, way: Way) -> bool:
    """Whether the words of several tiles are added up; analog currents of all tiles join."""
    height = mapped.tile[1 if way.backwards else 0]
    return not mapped.settles and _tiles(way.shape[0], height) > 1


def _tiles(lines: int, most: int) -> int:
    """Return how many tiles hold so many lines."""
    return -(-lines // most) if most else 1


def _on_tile(lines: int, most: int) -> int:
    """Return how many of so many lines lie on the fullest tile."""
    return min(lines, most or lines)


def _reads(way: Way) -> int:
    return int(np.count_nonzero(way.link.gather >= 0))


def _most_positions(ways: Iterable[Way]) -> int:
    return max((way.link.positions for way in ways), default=1)
