"""How a network lies on a substrate: its links as messages, and the tables of the kernels.

What is held grows with the weights and with the places at which they are read, never with the
square of the units.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray
from engine.couplings.link import INPUT, ONE, OUTPUT, Link
from engine.errors import EngineError
from engine.learning.spectral import recurrent_links
from engine.model.network import Network
from engine.model.params import Params, partners
from hw_sim.chips.kernel_arguments import Feeds, Messages, Wires


def check_network(network: Network) -> None:
    """Refuse activations, couplings and read-outs that no substrate has a model of."""
    for layer in network.layers:
        if layer.activation not in ("tanh", "hard_sigmoid"):
            raise EngineError(f"activation '{layer.activation}' has no model in hw_sim.")
    for coupling in network.couplings:
        if coupling.name not in network.links:  # arrays hold blocks of products, and only those
            kind = type(coupling).__name__
            raise EngineError(
                f"coupling '{coupling.name}' ({kind}) has no model in hw_sim: it is no link."
            )
    if network.reading is None:
        raise EngineError(f"the read-out {type(network.readout).__name__} has no model in hw_sim.")


class Way(NamedTuple):
    """A link in one of its directions."""

    link: Link
    backwards: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        """From where to where it sends."""
        source, target = self.link.source, self.link.target
        return (target, source) if self.backwards else (source, target)

    @property
    def shape(self) -> tuple[int, int]:
        """Words that are read and totals that are added to, at each position."""
        fan_in, fan_out = self.link.fan_in, self.link.fan_out
        return (fan_out, fan_in) if self.backwards else (fan_in, fan_out)

    def block(self, params: Params) -> FloatArray:
        """Return the weights in the order in which they are read."""
        block = params[self.link.block].reshape(self.link.fan_in, self.link.fan_out)
        return block.T if self.backwards else block


@lru_cache(maxsize=64)
def recurrent_ways(network: Network) -> tuple[Way, ...]:
    """Return every direction of every recurrent link, the first units that send first.

    So each unit adds what others send in the order of the others.
    """
    ways = [Way(link) for link in recurrent_links(network)]
    ways += [Way(way.link, backwards=True) for way in ways if not way.link.tied]
    return tuple(sorted(ways, key=lambda way: [network.columns[end].start for end in way.ends]))


@lru_cache(maxsize=64)
def input_ways(network: Network) -> tuple[Way, ...]:
    """Return the links from the input, the first units that they drive first."""
    ways = [Way(link) for link in network.links.values() if link.source == INPUT]
    return tuple(sorted(ways, key=lambda way: network.columns[way.link.target].start))


def readout_ways(network: Network) -> tuple[Way, ...]:
    """Return the link of the read-out, if it is one."""
    reading = network.reading
    return (Way(reading.link),) if reading and reading.link else ()


def feeds(params: Params, dtype: npt.DTypeLike) -> Feeds:
    """Lay out the clamped couplings; values are those of `params`, cast to `dtype`."""
    network = params.network
    bias, biased = np.zeros(network.units), np.zeros(network.units, np.int64)
    for link in network.links.values():
        if link.source == ONE:
            span, block = network.columns[link.target], params[link.block].reshape(1, -1)
            bias[span] += link.forward(block, np.ones((1, 1)))[0]
            biased[span] += link.forward(np.ones_like(block), np.ones((1, 1)))[0].astype(np.int64)
    sent = messages(params, input_ways(network), dtype)
    return Feeds(sent, layer_table(network), bias.astype(dtype), biased)


def wires(params: Params, dtype: npt.DTypeLike, fan_out: IntArray | None = None) -> Wires:
    """Lay out the recurrent couplings and the read-out, cast to `dtype`."""
    network = params.network
    span, reading = network.columns[network.readout.layer], network.reading
    bias = params[reading.bias] if reading and reading.link else np.zeros(0)
    return Wires(
        messages(params, recurrent_ways(network), dtype),
        messages(params, readout_ways(network), dtype),
        layer_table(network),
        span.start,
        span.stop,
        np.ascontiguousarray(bias, dtype),
        np.zeros((network.units + network.outputs, 2), np.int64) if fan_out is None else fan_out,
    )


def messages(params: Params, ways: tuple[Way, ...], dtype: npt.DTypeLike) -> Messages:
    """Lay blocks out one after the other, each in the order in which it is read.

    A block that is read both ways is held twice, so that either reading runs along the memory.
    """
    table, gather = _message_tables(params.network, ways)
    weights = [way.block(params).astype(dtype).ravel() for way in ways]
    return Messages(table, gather, np.concatenate([np.zeros(0, dtype), *weights]))


@lru_cache(maxsize=256)
def _message_tables(network: Network, ways: tuple[Way, ...]) -> tuple[IntArray, IntArray]:
    """Return one row for each way (columns: see `Messages`), and the units they gather."""
    first = {name: span.start for name, span in network.columns.items()} | {INPUT: 0, OUTPUT: 0}
    place = {name: k for k, name in enumerate(network.columns)} | {OUTPUT: len(network.layers)}
    rows, lists, block, listed = [], [np.zeros(0, np.int64)], 0, 0
    for way in ways:
        (source, target), (words, totals) = way.ends, way.shape
        reads = writes = -1
        if not way.link.whole:
            lists.append(way.link.gather.ravel())
            reads, writes = (-1, listed) if way.backwards else (listed, -1)
            listed += way.link.gather.size
        ends = first[source], first[target], place[target]
        rows.append((*ends, way.link.positions, words, totals, block, reads, writes))
        block += words * totals
    return np.array(rows, np.int64).reshape(-1, 9), np.concatenate(lists).astype(np.int64)


def gathered(link: Link) -> IntArray:
    """Return what each position of a link reads, as a kernel takes it."""
    return np.ascontiguousarray(link.gather, np.int64)


@lru_cache(maxsize=64)
def layer_table(network: Network) -> IntArray:
    """One row for each layer: first unit, last unit, activation."""
    rows = [
        (network.columns[layer.name].start, network.columns[layer.name].stop, layer.rule.code)
        for layer in network.layers
    ]
    return np.array(rows, np.int64)


def symmetrised(network: Network, theta: FloatArray) -> Params:
    """Return parameters whose lateral blocks are `(W + W') / 2`."""
    return Params(network, (theta + theta[partners(network)]) / 2)
