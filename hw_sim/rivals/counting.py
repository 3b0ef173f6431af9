"""What a chip does for one sample of backprop: the events of every product, by phase and place.

Nothing depends on the data: every state and every delta is sent, whatever its value. Work is
counted where it arrives, and that of the read-out at the read-out, there and back. Between tiles
each product sends its words as in EqProp; to learn, deltas are where they were sent back to, and
states are sent once more. Between cores a product sends events as in EqProp: units lie on the same
cores, messages take the same ways, and both are counted where they are sent.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.arrays import IntArray
from engine.couplings.link import INPUT, ONE, OUTPUT, Link
from engine.model.network import Layer, Network
from hw_sim.chips.arrays import tile_table
from hw_sim.chips.kernel_arguments import DRIVEN, JOINED
from hw_sim.chips.landing import Meetings, cores_of, products_on_cores
from hw_sim.chips.mesh import fan_from_inputs, hops_between
from hw_sim.chips.messages import Way, forward_ways, input_ways, readout_ways, recurrent_ways
from hw_sim.chips.tile_mesh import tile_mesh
from hw_sim.counts import OpCounts
from hw_sim.events import BUSY_UPDATE, KINDS
from hw_sim.places import READOUT, places

SLOPES = {
    "tanh": {"mac": 2},
    "hard_sigmoid": {"mac": 1, "compare": 2},
    "relu": {"mac": 1, "compare": 1},
    "mirrored_relu": {"mac": 1, "compare": 1},
    "linear": {"mac": 1},
}
"""What a delta takes to be multiplied by the slope of its unit and added to the others."""
UPDATES, SPIKES, SENDS, RECEIVES, SYNAPSES = range(5)
BUSY = KINDS[BUSY_UPDATE : BUSY_UPDATE + 5]
"""What a core works on in a step: what it sends in one part, what it receives in another."""


class Medium(NamedTuple):
    """How products are done: in arrays, cut into tiles, or not; on cores of so many neurons or
    none, whose parts take so long (`lengths_ns`, of each of `BUSY`)."""

    in_array: bool
    tile: tuple[int, int]
    per_core: int
    lengths_ns: tuple[float, ...]


def stages(network: Network, steps: int) -> list[tuple[tuple[Layer, ...], tuple[Way, ...]]]:
    """Return the layers of each stage, one or in steps all, and what they hear."""
    if steps:
        return [(network.layers, ())] + steps * [(network.layers, recurrent_ways(network))]
    ways = forward_ways(network)
    return [
        ((layer,), tuple(way for way in ways if way.ends[1] == layer.name))
        for layer in network.layers
    ]


@lru_cache(maxsize=64)
def forward_events(network: Network, steps: int, medium: Medium) -> OpCounts:
    """Return what one sample takes from its input to the errors of its outputs."""
    sample = _Sample(network, medium)
    sample.send("input", input_ways(network))
    for link in network.links.values():
        if link.source == ONE:
            sample.add("input", link.target, weight_read=_reads(link) * link.fan_out)
    for layer in network.layers:
        sample.add("input", layer.name, state_write=layer.size)
    for layers, ways in stages(network, steps):
        sample.send("free", ways)
        for layer in layers:
            drive = layer.size if ways else 0
            sample.add("free", layer.name, state_read=drive, activation=layer.size)
            sample.add("free", layer.name, state_write=layer.size)
    sample.send("free", readout_ways(network))
    outputs, softmaxes = network.outputs, sum(way.link.positions for way in readout_ways(network))
    sample.add("free", READOUT, weight_read=outputs, activation=outputs, state_write=outputs)
    sample.add("free", READOUT, compare=outputs - softmaxes, divide=outputs)
    return sample.counts


@lru_cache(maxsize=64)
def backward_events(network: Network, steps: int, medium: Medium) -> OpCounts:
    """Return what one sample takes from the errors of its outputs to all slopes."""
    sample, out = _Sample(network, medium), readout_ways(network)
    sample.send_back(out)
    sample.learn(way.link for way in out)
    sample.learn_bias(READOUT, network.outputs, network.outputs)
    for layers, ways in reversed(stages(network, steps)):
        for layer in layers:
            slopes = {kind: n * layer.size for kind, n in SLOPES[layer.activation].items()}
            sample.add("backward", layer.name, **slopes)
            sample.add("backward", layer.name, state_read=2 * layer.size)
            sample.add("backward", layer.name, state_write=2 * layer.size)
        sample.send_back(ways)
        sample.learn(way.link for way in ways)
        for way in ways:
            sample.tell(way.link, from_rows=not way.backwards)
    inputs = [way.link for way in input_ways(network)]
    sample.learn(inputs)
    for link in inputs:
        sample.tell(link, from_rows=True)
        sample.tell(link, from_rows=False)
    heard = {link.target for link in inputs}  # and their deltas have just been read
    for link in network.links.values():
        if link.source == ONE:
            words = _reads(link) * link.fan_out
            sample.learn_bias(link.target, words, 0 if link.target in heard else words)
    return sample.counts


class _Sample:
    """Counts of one sample, and the cores that hold the network."""

    def __init__(self, network: Network, medium: Medium) -> None:
        self.counts, self._network, self._medium = OpCounts(), network, medium
        self._mesh = tile_mesh(network, medium.tile)
        self._size = network.sizes | {OUTPUT: network.outputs}
        spans = {name: (span.start, span.stop) for name, span in network.columns.items()}
        self._span = spans | {OUTPUT: (network.units, network.units + network.outputs)}
        if medium.per_core:
            cores = cores_of(network, medium.per_core, medium.lengths_ns)
            self._home, self._places = cores.home, [places(network)[k] for k in cores.place]

    def add(self, phase: str, place: str, **events: int) -> None:
        """Count events by kind."""
        for kind, count in events.items():
            self.counts.add(phase, place, kind, count)

    def send(self, phase: str, ways: Sequence[Way]) -> None:
        """Count products that are done at once, in arrays or word by word, and between cores."""
        converted = {}
        for way, tiles in zip(ways, tile_table(ways, self._medium.tile, True), strict=True):
            place, (reads, _) = _place(way), way.traffic
            self.add(phase, place, state_read=reads)
            if not self._medium.in_array:
                products = self._products(way.link)
                self.add(phase, place, mac=products, weight_read=products)
                continue
            self.add(phase, place, cell_read=2 * way.link.macs, conversion=reads * tiles[DRIVEN])
            self.add(phase, place, hop=int(self._mesh.read(way).sum()))
            if way.apart or way.shape[0] > tiles[JOINED]:
                self._convert_tiles(phase, way, int(tiles[JOINED]))
            else:
                converted[place] = self._size[way.ends[1]]  # once, whatever joins
        for place, units in converted.items():
            self.add(phase, place, conversion=units)
        if ways and self._medium.per_core:
            self._exchange(phase, ways)

    def send_back(self, ways: Sequence[Way]) -> None:
        """Count deltas that go from the targets of ways to their sources, where each is written."""
        back = [way.reverse for way in ways]
        self.send("backward", back)
        for name, place in {way.ends[1]: _place(way) for way in back}.items():
            self.add("backward", place, state_write=self._size[name])

    def learn(self, links: Iterable[Link]) -> None:
        """Count products of both ends that are added to slopes; cores do theirs side by side."""
        found = list(links)
        for link in found:
            ends, products = _reads(link) + link.positions * link.fan_out, link.macs
            self.add("learn", _home(link), mac=products, state_read=ends)
            self.add("learn", _home(link), trace_read=products, trace_write=products)
        if found and self._medium.per_core:
            starts = [self._span[link.target][0] for link in found]
            work = products_on_cores(found, starts, self._home)
            outside = found[0].target == OUTPUT
            place = READOUT if outside else self._places[int(work.argmax())]
            self.add("learn", place, busy_synapse=int(work.max()))

    def tell(self, link: Link, from_rows: bool) -> None:
        """Count the hops of the words of one end to all tiles of a link, which learns from them."""
        if self._medium.in_array:
            self.add("learn", _home(link), hop=int(self._mesh.sent(link, from_rows).sum()))

    def learn_bias(self, place: str, words: int, reads: int) -> None:
        """Count deltas that are added to the slopes of biases."""
        self.add("learn", place, trace_read=words, trace_write=words, state_read=reads)

    def _products(self, link: Link) -> int:
        """Multiply-adds of a signal; beyond an edge nobody speaks or listens between cores."""
        return _reads(link) * link.fan_out if self._medium.per_core else link.macs

    def _convert_tiles(self, phase: str, way: Way, height: int) -> None:
        """Convert what arrives from each tile at each position, and add it up."""
        tiles, (_, arrivals) = -(-way.shape[0] // height), way.traffic
        self.add(phase, _place(way), conversion=arrivals * tiles, addition=arrivals * (tiles - 1))

    def _exchange(self, phase: str, ways: Sequence[Way]) -> None:
        """Count a step of all cores: messages and hops, and what the longest work of one is."""
        outside, home = ways[0].link.target == OUTPUT, self._home
        first = {INPUT: 0} | {name: start for name, (start, _) in self._span.items()}
        met = Meetings(self._network.inputs if phase == "input" else len(home), home)
        for way in ways:
            met.add(way, *(first[end] for end in way.ends))
        landing = met.listed()
        work = np.zeros((len(BUSY), len(self._places)), np.int64)
        np.add.at(work[RECEIVES], landing.core, 1)
        np.add.at(work[SYNAPSES], landing.core, landing.synapses)
        for name in dict.fromkeys(way.ends[0] for way in ways if way.ends[0] != INPUT):
            senders, rows = slice(*self._span[name]), slice(*landing.first[list(self._span[name])])
            told, reached = np.diff(landing.first)[senders], landing.core[rows]
            for kind, events in ((UPDATES, 1), (SPIKES, 1), (SENDS, told)):
                np.add.at(work[kind], home[senders], events)
            hops = hops_between(np.repeat(home[senders], told), reached, len(self._places))
            sent = {"message": len(reached), "hop": int(hops.sum())}
            self.add(phase, READOUT if outside else name, spike_out=self._size[name], **sent)
        if phase == "input":
            fan = fan_from_inputs(self._network, self._medium.per_core).sum(0)
            for layer, heard in zip(self._network.layers, fan.tolist(), strict=True):
                self.add(phase, layer.name, message=heard)
        self._wait(phase, work, outside)

    def _wait(self, phase: str, work: IntArray, outside: bool) -> None:
        """Wait for the core that sends or receives longest, and for the barrier."""
        times = work * np.array(self._medium.lengths_ns)[:, None]
        sent, received = times[:RECEIVES].sum(0), times[RECEIVES:].sum(0)
        receives = received.max() > sent.max()
        core = int((received if receives else sent).argmax())
        part = slice(RECEIVES, None) if receives else slice(RECEIVES)
        events = dict(zip(BUSY[part], work[part, core].tolist(), strict=True))
        self.add(phase, READOUT if outside else self._places[core], barrier=1, **events)


def _reads(link: Link) -> int:
    return Way(link).traffic[0]


def _place(way: Way) -> str:
    return READOUT if way.link.target == OUTPUT else way.ends[1]


def _home(link: Link) -> str:
    return READOUT if link.target == OUTPUT else link.target
