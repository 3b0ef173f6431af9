"""On which cores events land: the synapses that each event meets there, and what cores learn."""

from collections.abc import Sequence

import numpy as np

from engine.arrays import IntArray
from engine.couplings.link import ONE, Link
from engine.model.network import Network
from hw_sim.chips.kernel_arguments import Cores, Landing
from hw_sim.chips.messages import Way, input_ways, readout_ways, recurrent_ways
from hw_sim.counts import neuron_count
from hw_sim.places import places


def cores_of(network: Network, per_core: int, lengths_ns: Sequence[float]) -> Cores:
    """Return the cores that hold a network: its units in their order, the outputs after them."""
    home = homes_on_cores(network, per_core)
    count = int(home[-1]) + 1
    first = np.searchsorted(home, np.arange(count))
    ends = [span.stop for span in network.columns.values()]
    place = np.searchsorted(ends, first, side="right")
    outside = home[network.units : neuron_count(network)]
    return Cores(
        home=home,
        place=np.minimum(place, len(places(network)) - 1),
        units=np.bincount(home[: network.units], minlength=count),
        outputs=np.bincount(outside, minlength=count),
        idle=np.zeros(count, np.int64),
        landing=landing(network, home),
        lengths_ns=np.array(lengths_ns, np.float64),
        work=np.zeros((len(lengths_ns), count), np.int64),
        done=np.zeros((len(lengths_ns), count), np.int64),
    )


def homes_on_cores(network: Network, per_core: int) -> IntArray:
    """Return the core of each unit and of each output, `(units + outputs,)`."""
    return np.arange(network.units + network.outputs) // per_core


def landing(network: Network, home: IntArray) -> Landing:
    """Say which synapses an event of each unit and each output meets."""
    found = Meetings(len(home), home)
    for way in recurrent_ways(network):
        found.add(way, *(network.columns[end].start for end in way.ends))
    span = network.columns[network.readout.layer]
    for way in readout_ways(network):
        found.add(way, span.start, network.units)
        found.add(Way(way.link, backwards=True), network.units, span.start)
    return found.listed()


def landing_on_outputs(network: Network, home: IntArray) -> Landing:
    """Say which synapses of the outputs alone each unit that is read out meets."""
    span = network.columns[network.readout.layer]
    found = Meetings(span.stop - span.start, home)
    for way in readout_ways(network):
        found.add(way, 0, network.units)
    return found.listed()


def landing_of_inputs(network: Network, home: IntArray) -> Landing:
    """Say which synapses each input meets."""
    found = Meetings(network.inputs, home)
    for way in input_ways(network):
        found.add(way, 0, network.columns[way.link.target].start)
    return found.listed()


def learned(network: Network, home: IntArray) -> tuple[IntArray, IntArray]:
    """Return the products of the local rule on each core, and those of the delta rule, `(cores,)`.

    A synapse lies where it ends. In a window that reaches beyond an edge it multiplies, too.
    """
    inside = [link for link in network.links.values() if link.source != ONE]
    starts = [network.columns[link.target].start for link in inside]
    outside = [way.link for way in readout_ways(network)]
    return (
        products_on_cores(inside, starts, home),
        products_on_cores(outside, [network.units for _ in outside], home),
    )


def products_on_cores(links: Sequence[Link], starts: Sequence[int], home: IntArray) -> IntArray:
    """Return the products of both ends of links whose targets begin at `starts`, `(cores,)`."""
    found = np.zeros(int(home[-1]) + 1, np.int64)
    for link, start in zip(links, starts, strict=True):
        ends = home[start : start + link.positions * link.fan_out]
        found += link.fan_in * np.bincount(ends, minlength=len(found))
    return found


class Meetings:
    """Who meets synapses where: pairs of sender and core as one number, and how many, in parts."""

    def __init__(self, senders: int, home: IntArray) -> None:
        self.senders, self.home, self.cores = senders, home, int(home[-1]) + 1
        self.pairs, self.counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]

    def add(self, way: Way, first: int, target: int) -> None:
        """Enter the synapses of a way from neurons after `first` to those after `target`."""
        fan_out = way.link.fan_out
        for p, units in enumerate(way.link.gather):
            there, here = units[units >= 0], np.arange(p * fan_out, (p + 1) * fan_out)
            sources, targets = (here, there) if way.backwards else (there, here)
            met, counts = np.unique(self.home[target + targets], return_counts=True)
            pairs = (first + sources)[:, None] * self.cores + met
            self.pairs.append(pairs.ravel())
            self.counts.append(np.broadcast_to(counts, pairs.shape).ravel())

    def listed(self) -> Landing:
        """Return all of them, sender by sender."""
        pairs, inverse = np.unique(np.concatenate(self.pairs), return_inverse=True)
        synapses = np.zeros(len(pairs), np.int64)
        np.add.at(synapses, inverse, np.concatenate(self.counts))
        first = np.searchsorted(pairs, np.arange(self.senders + 1) * self.cores)
        return Landing(first, pairs % self.cores, synapses)
