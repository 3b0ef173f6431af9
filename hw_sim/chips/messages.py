"""How a network lies on a substrate: its links as messages, and the tables of the kernels.

What is held grows with the weights and with the places at which they are read, never with the
square of the units.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray
from engine.couplings.link import INPUT, ONE, OUTPUT, Link
from engine.errors import EngineError
from engine.learning.spectral import recurrent_links
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.kernel_arguments import Feeds, Messages, Wires
from hw_sim.places import homes, places

Held: TypeAlias = npt.NDArray[Any]
"""Words of all parameters, and those of blocks that are read backwards once more."""


def check_network(network: Network) -> None:
    """Refuse couplings and read-outs that no substrate has a model of."""
    for coupling in network.couplings:
        if coupling.name not in network.links:  # arrays hold blocks of products, and only those
            kind = type(coupling).__name__
            raise EngineError(
                f"coupling '{coupling.name}' ({kind}) has no model in hw_sim: it is no link."
            )
    if network.reading is None:
        raise EngineError(f"the read-out {type(network.readout).__name__} has no model in hw_sim.")


def check_activations(network: Network) -> None:
    """Refuse to relax units of which no substrate has a model: words of a state end at one."""
    for layer in network.layers:
        if layer.activation not in ("tanh", "hard_sigmoid"):
            raise EngineError(
                f"activation '{layer.activation}' has no model in hw_sim: no chip relaxes it."
            )


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

    @property
    def traffic(self) -> tuple[int, int]:
        """Words that are read and words that arrive, at all positions; none lies beyond an edge."""
        inside = int(np.count_nonzero(self.link.gather >= 0))
        ends = self.link.positions * self.link.fan_out
        return (ends, inside) if self.backwards else (inside, ends)

    @property
    def reverse(self) -> "Way":
        """The same link in the other direction."""
        return Way(self.link, not self.backwards)

    @property
    def apart(self) -> bool:
        """Whether totals are added to at several positions, one read after the other."""
        return self.backwards and self.link.positions > 1

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


def forward_ways(network: Network) -> tuple[Way, ...]:
    """Return every link between two layers once, from the earlier to the later of them."""
    first = {name: span.start for name, span in network.columns.items()}
    return tuple(w for w in recurrent_ways(network) if first[w.ends[0]] < first[w.ends[1]])


@lru_cache(maxsize=64)
def input_ways(network: Network) -> tuple[Way, ...]:
    """Return the links from the input, the first units that they drive first."""
    ways = [Way(link) for link in network.links.values() if link.source == INPUT]
    return tuple(sorted(ways, key=lambda way: network.columns[way.link.target].start))


def readout_ways(network: Network) -> tuple[Way, ...]:
    """Return the link of the read-out, if it is one."""
    reading = network.reading
    return (Way(reading.link),) if reading and reading.link else ()


def hold(params: Params, dtype: npt.DTypeLike) -> Held:
    """Return the words of all parameters, cast to `dtype`, and behind them those read backwards.

    A block that is read both ways is held twice, so that either reading runs along the memory.
    """
    network = params.network
    mirrored = [way.block(params).ravel() for way in recurrent_ways(network) if way.backwards]
    held: Held = np.concatenate([params.theta, *mirrored]).astype(dtype, copy=False)
    return held


@lru_cache(maxsize=64)
def mirrors(network: Network) -> Mapping[str, int]:
    """Return where in held words each block that is read backwards begins a second time."""
    found, start = {}, network.size
    for way in recurrent_ways(network):
        if way.backwards:
            found[way.link.block] = start
            start += way.link.fan_in * way.link.fan_out
    return found


def feeds(network: Network, held: Held) -> Feeds:
    """Lay out the clamped couplings of held words."""
    biased = sum_biases(network, np.broadcast_to(np.int64(1), held.shape))
    sent = messages(network, input_ways(network), held)
    return Feeds(sent, layer_table(network), sum_biases(network, held), biased)


def sum_biases(network: Network, held: Held) -> Held:
    """Return the sum of the biases of every unit."""
    bias = np.zeros(network.units, held.dtype)
    for link in network.links.values():
        if link.source == ONE:
            span, block = network.columns[link.target], held[network.blocks[link.block].span]
            sent = link.forward(block.reshape(1, -1), np.ones((1, 1), held.dtype))
            bias[span] += sent[0]
    return bias


def wires(network: Network, held: Held, fan_out: IntArray | None = None) -> Wires:
    """Lay out the recurrent couplings and the read-out of held words."""
    span, reading = network.columns[network.readout.layer], network.reading
    linked = reading is not None and reading.link is not None
    bias = held[network.blocks[reading.bias].span] if reading and linked else held[:0]
    return Wires(
        messages(network, recurrent_ways(network), held),
        messages(network, readout_ways(network), held),
        layer_table(network),
        span.start,
        span.stop,
        bias,
        np.zeros((network.units + network.outputs, 2), np.int64) if fan_out is None else fan_out,
    )


def messages(network: Network, ways: tuple[Way, ...], held: Held) -> Messages:
    """Let blocks be read where they are held."""
    return Messages(*_message_tables(network, ways), held)


@lru_cache(maxsize=256)
def _message_tables(network: Network, ways: tuple[Way, ...]) -> tuple[IntArray, IntArray]:
    """Return one row for each way (columns: see `Messages`), and the units they gather."""
    first = {name: span.start for name, span in network.columns.items()} | {INPUT: 0, OUTPUT: 0}
    place = {name: k for k, name in enumerate(network.columns)} | {OUTPUT: len(network.layers)}
    rows, lists, listed = [], [np.zeros(0, np.int64)], 0
    for way in ways:
        (source, target), (words, totals), name = way.ends, way.shape, way.link.block
        block = mirrors(network)[name] if way.backwards else network.blocks[name].span.start
        reads = writes = -1
        if not way.link.whole:
            lists.append(way.link.gather.ravel())
            reads, writes = (-1, listed) if way.backwards else (listed, -1)
            listed += way.link.gather.size
        ends = first[source], first[target], place[target]
        rows.append((*ends, way.link.positions, words, totals, block, reads, writes))
    return np.array(rows, np.int64).reshape(-1, 9), np.concatenate(lists).astype(np.int64)


@lru_cache(maxsize=64)
def block_table(network: Network) -> IntArray:
    """One row for each block, as an update goes through them.

    First and last word and place; the side of a lateral block, whose pairs share what they draw,
    or 0; columns, and where its mirror begins behind all parameters, or -1.
    """
    lateral = {link.block: link.fan_in for link in network.links.values() if link.tied}
    width = {way.link.block: way.link.fan_out for way in recurrent_ways(network)}
    rows = [
        (
            block.span.start, block.span.stop, places(network).index(homes(network)[name]),
            lateral.get(name, 0), width.get(name, 1),
            mirrors(network).get(name, network.size - 1) - network.size,
        )
        for name, block in network.blocks.items()
    ]  # fmt: skip
    return np.array(rows, np.int64)


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
    found = Params(network, theta.copy())
    for link in network.links.values():
        if link.tied:
            block = found[link.block]
            block[...] = (block + block.T) / 2
    return found
