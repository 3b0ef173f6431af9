"""How a network lies on the cores: one for each unit and each output, with rows for who it hears.

A core holds the words that it multiplies, one row after the other: its bias, the inputs, the units
whose weights it owns, then copies of weights that others own (what a matrix sends backwards, and
what errors come back through). `docs/rtl.md` has the schedule that reads them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import log2

import numpy as np

from engine.couplings.link import INPUT, ONE, Link
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.messages import check_activations, check_network, recurrent_ways

GAIN_BITS = 16
"""Of the nudge: betas below 8."""
BATCH_BITS = 9
"""A trace holds the products of 2^9 phases: a batch of 256 samples."""
FURTHEST_SHIFT = 63
"""How far a trace is shifted to become an update, either way."""


class RtlError(EngineError):
    """A network, or widths, that no description is written for, as one sentence."""


ERRORS = "errors"
"""By whom the units that a softmax reads hear how far its outputs are off."""


@dataclass
class CoreRows:
    """What the cores of a layer, or of the outputs, hold: the first row of everything heard."""

    name: str
    first_core: int
    size: int
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    """First row and number of rows, by whom it hears: a layer, `input`, `one` or `errors`."""
    owned: int = 0

    def add(self, source: str, count: int, owned: bool) -> int:
        """Append rows; return the first of them."""
        first = self.count
        self.rows[source] = first, count
        if owned:
            self.owned = first + count
        return first

    @property
    def count(self) -> int:
        """All rows."""
        return sum(count for _, count in self.rows.values())


@dataclass(frozen=True)
class BlockPlace:
    """Where a parameter block lies: columns are cores, rows are theirs from `base` on."""

    name: str
    rows: int
    columns: int
    first_core: int
    base: int
    symmetric: bool = False
    copy: tuple[int, int] | None = None
    """Core of the first row, and row of the first column there, of a second copy."""
    read_out: bool = False


class Plan:
    """A network on cores, with the widths of its words."""

    def __init__(self, network: Network, config: DigitalConfig) -> None:
        self.network, self.config = network, config
        _check(network, config)
        assert network.reading is not None, "it was checked"
        self.read_link = network.reading.link
        span = network.columns[network.readout.layer]
        self.first_read, self.last_read = span.start, span.stop - 1
        self.layers = [
            CoreRows(layer.name, network.columns[layer.name].start, layer.size)
            for layer in network.layers
        ]
        self.blocks: list[BlockPlace] = []
        self.output_cores = CoreRows("outputs", network.units, network.outputs)
        self._lay_out()

    @property
    def direct(self) -> bool:
        """Whether the units that are read are the outputs themselves."""
        return self.read_link is None

    @property
    def cores(self) -> int:
        """One for each unit and, where a softmax reads them, for each output."""
        return self.network.units + (0 if self.direct else self.network.outputs)

    @cached_property
    def index_bits(self) -> int:
        """Bits of all indices and addresses of rows."""
        rows = [layer.count for layer in (*self.layers, self.output_cores)]
        return max(self.network.inputs, self.cores, len(self.blocks), *rows).bit_length()

    @property
    def word_bits(self) -> int:
        """Of a word that is broadcast: an input, an error, or the one of a bias."""
        config = self.config
        return max(1 + config.state_fraction + int(log2(config.input_range)), config.state_bits + 1)

    @property
    def target_bits(self) -> int:
        """Of targets within one."""
        return self.config.state_bits + 1

    @property
    def trace_bits(self) -> int:
        """Of the sum of the products that a synapse sees in a batch."""
        return self.word_bits + max(self.target_bits, self.config.weight_bits) + BATCH_BITS

    @property
    def host_bits(self) -> int:
        """Of a word from outside; an update that leaves them saturates every weight."""
        return max(self.config.weight_bits + 18, self.word_bits, self.target_bits)

    @property
    def pull_bits(self) -> int:
        """Of what nudges a unit."""
        from_softmax = self.config.accumulator_bits + GAIN_BITS
        from_units = self.target_bits + GAIN_BITS + self.config.weight_fraction
        return from_units if self.direct else from_softmax

    @property
    def address_bits(self) -> int:
        """Of the address of an activation: the tables have a power of two of entries."""
        return int(log2(2 * self.config.table_range * 2.0**self.config.table_fraction))

    @property
    def activations(self) -> list[str]:
        """Each once, in the order of the layers."""
        return list(dict.fromkeys(layer.activation for layer in self.network.layers))

    def order(self) -> Iterator[int]:
        """Yield the parameters as the chip walks them: after each of a pair its partner."""
        for place in self.blocks:
            start = self.network.blocks[place.name].start
            for row in range(place.rows):
                for column in range(row if place.symmetric else 0, place.columns):
                    yield start + row * place.columns + column
                    if place.symmetric and row != column:
                        yield start + column * place.columns + row

    def _lay_out(self) -> None:
        """Give every block its cores and rows, owned rows first."""
        network = self.network
        by_name = {layer.name: layer for layer in self.layers}
        places: dict[str, BlockPlace] = {}
        links = sorted(network.links.values(), key=lambda link: link.source != ONE)  # biases first
        for link in sorted(links, key=lambda link: link.source not in (ONE, INPUT)):
            target = by_name[link.target]
            base = target.add(link.source, link.fan_in, owned=True)
            places[link.block] = BlockPlace(
                link.block, link.fan_in, link.fan_out, target.first_core, base, link.tied
            )
        for link in (way.link for way in recurrent_ways(network) if way.backwards):
            source, target = by_name[link.source], by_name[link.target]
            base = source.add(link.target, link.fan_out, owned=False)
            places[link.block] = _copied(places[link.block], source.first_core, base)
        if self.read_link is not None:
            places |= self._read_out_places(by_name[network.readout.layer], self.read_link)
        self.blocks = [places[name] for name in network.blocks]

    def _read_out_places(self, read: CoreRows, link: Link) -> dict[str, BlockPlace]:
        reading, outputs = self.network.reading, self.output_cores
        assert reading is not None, "it was checked"
        bias = outputs.add(ONE, 1, owned=True)
        base = outputs.add(read.name, link.fan_in, owned=True)
        back = read.add(ERRORS, link.fan_out, owned=False)
        shape = link.fan_out, outputs.first_core
        return {
            link.block: BlockPlace(
                link.block, link.fan_in, *shape, base, copy=(read.first_core, back), read_out=True
            ),
            reading.bias: BlockPlace(reading.bias, 1, *shape, bias, read_out=True),
        }


def _copied(place: BlockPlace, core: int, row: int) -> BlockPlace:
    """Return the same with a copy that is read backwards."""
    return BlockPlace(
        place.name, place.rows, place.columns, place.first_core, place.base, copy=(core, row)
    )


def _check(network: Network, config: DigitalConfig) -> None:
    """Refuse what is no looped or layered network, and widths that the tables cannot have."""
    if network.squares:
        raise RtlError(
            f"the network is resistive (coupling '{next(iter(network.squares))}'): it becomes a "
            "netlist, by `python -m experiments.circuit spice`, and no Verilog."
        )
    check_network(network)
    check_activations(network)
    for link in network.links.values():
        if not link.whole:
            raise RtlError(
                f"coupling '{link.block}' is read at {link.positions} places through windows: "
                "Verilog is written for plain matrices, as in looped and layered networks."
            )
    pairs = [(link.source, link.target) for link in network.links.values()]
    pairs += [(b, a) for a, b in pairs if a != b]
    for one, other in pairwise(sorted(pairs)):
        if one == other and ONE in one:
            doubled = one[1 - one.index(ONE)]
            raise RtlError(f"layer '{doubled}' has two biases: Verilog begins its sums with one.")
        if one == other:
            raise RtlError(
                f"two couplings join '{one[0]}' and '{one[1]}': Verilog is written for one matrix "
                "between two layers."
            )
    for name in network.columns:
        if name in (ONE, ERRORS):
            raise RtlError(f"a layer is called '{name}', which Verilog calls something else.")
    biased = {link.target for link in network.links.values() if link.source == ONE}
    for layer in network.layers:
        if layer.name not in biased:
            raise RtlError(f"layer '{layer.name}' has no bias, which Verilog begins its sums with.")
    reading = network.reading
    if reading is not None and reading.positions > 1:
        raise RtlError(
            f"the read-out has {reading.positions} softmaxes: Verilog is written for one."
        )
    if config.readout_bits not in (None, config.state_bits):
        raise RtlError(
            f"readout_bits {config.readout_bits} differs from state_bits {config.state_bits}: "
            "in Verilog synapses see states as they are."
        )
    if 2 * config.table_range * 2.0**config.table_fraction < 4:
        raise RtlError(
            f"table_range {config.table_range:g} leaves fewer than 4 entries to a table of "
            f"activations at weight_bits {config.weight_bits} and state_bits {config.state_bits}."
        )


def check_weights(params: Params, config: DigitalConfig) -> None:
    """Refuse a weight beyond the largest word, and a matrix that would be nothing but zeros."""
    most = (2 ** (config.weight_bits - 1) - 1) * 2.0**-config.weight_fraction
    half = 2.0 ** -(config.weight_fraction + 1)
    for name in params.network.blocks:
        largest = float(np.abs(params[name]).max())
        if params[name].ndim > 1 and 0.0 < largest < half:
            raise RtlError(
                f"'{name}' has weights of at most {largest:.4g}, which all become zero: the step "
                f"of {config.weight_bits} bits with weight_range {config.weight_range:g} is "
                f"{2 * half:g}."
            )
        if largest > most + half:
            raise RtlError(
                f"'{name}' holds a weight of {largest:.4g}, but {config.weight_bits} bits with "
                f"weight_range {config.weight_range:g} hold at most {most:.4g}."
            )
