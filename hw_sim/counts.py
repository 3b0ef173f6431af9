"""What a run did: exact integers by phase, place and kind. What it costs is in `hw_sim.prices`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from engine.arrays import IntArray
from engine.border import checked
from engine.couplings.effort import effort_of
from engine.learning.optimizer import Optimizer
from engine.model.network import Network
from hw_sim.events import KINDS
from hw_sim.places import BORDER, homes, places

PHASES = ("input", "free", "nudged", "backward", "learn", "update", "readout")

Key = tuple[str, str, str]
"""Phase, place, kind."""


@dataclass
class OpCounts:
    """Counts of events; add, subtract and scale them like numbers."""

    events: Counter[Key] = field(default_factory=Counter)

    def add(self, phase: str, place: str, kind: str, count: int) -> None:
        """Count `count` more events."""
        if phase not in PHASES or kind not in KINDS:
            raise KeyError(f"no phase '{phase}' or no kind '{kind}'")
        if count:
            self.events[phase, place, kind] += int(count)

    def add_tally(self, phase: str, network: Network, tally: IntArray) -> None:
        """Count what a kernel tallied, `(places, kinds)`."""
        names = places(network)
        for row, column in zip(*np.nonzero(tally), strict=True):
            self.add(phase, names[row], KINDS[column], int(tally[row, column]))

    def copy(self) -> "OpCounts":
        """Return counts of their own."""
        return OpCounts(Counter(self.events))

    def __add__(self, other: "OpCounts") -> "OpCounts":
        return OpCounts(self.events + other.events)

    def __sub__(self, other: "OpCounts") -> "OpCounts":
        return OpCounts(self.events - other.events)

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return iter(sorted(self.events.items()))

    def total(self, kind: str, phase: str | None = None, place: str | None = None) -> int:
        """Return the number of events of a kind, of all phases and places or of one."""
        return sum(n for key, n in self.events.items() if _matches(key, kind, phase, place))

    def rows(self) -> list[list[str | int]]:
        """Return the counts as plain lists, for a file."""
        return [[*key, count] for key, count in self]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, str, str, int]]) -> "OpCounts":
        """Read what `rows` wrote."""
        counts = cls()
        for phase, place, kind, count in rows:
            counts.add(phase, place, kind, count)
        return counts


@dataclass(frozen=True)
class Amounts:
    """Events that need not be whole, for they lie between two counts; add them like numbers."""

    events: Mapping[Key, float] = field(default_factory=dict)

    @classmethod
    def between(cls, before: OpCounts, after: OpCounts, share: float) -> "Amounts":
        """Return `before + share (after - before)` of every event."""
        gained = after - before
        return cls({k: before.events[k] + share * gained.events[k] for k in after.events})

    def __add__(self, other: "Amounts") -> "Amounts":
        keys = {**self.events, **other.events}
        return Amounts({k: self.events.get(k, 0.0) + other.events.get(k, 0.0) for k in keys})

    def __iter__(self) -> Iterator[tuple[Key, float]]:
        return iter(sorted(self.events.items()))

    def total(self, kind: str, phase: str | None = None, place: str | None = None) -> float:
        """Return the events of a kind, of all phases and places or of one."""
        return sum(n for key, n in self.events.items() if _matches(key, kind, phase, place))


def _matches(key: Key, kind: str, phase: str | None, place: str | None) -> bool:
    """Tell whether an event is of a kind, and of a phase and at a place where they are named."""
    return key[2] == kind and phase in (None, key[0]) and place in (None, key[1])


@dataclass(frozen=True)
class WordCount:
    """Memory of a whole network: words by what they hold, and analog cells."""

    states: int
    weights: int
    traces: int
    """Learning words: gradients and the moments of the optimizer."""
    cells: int = 0
    wide: int = 0
    """Words of a width of their own: accumulators, exponentials."""
    wide_bits: int = 0
    """Bits of all these together."""

    @property
    def words(self) -> int:
        """Words and cells."""
        return self.states + self.weights + self.traces + self.cells + self.wide

    def bits(self, weight_bits: int, state_bits: int) -> int:
        """Return the bits of the words; a learning word is twice as wide as a weight."""
        learning = 2 * weight_bits * self.traces
        return state_bits * self.states + weight_bits * self.weights + learning + self.wide_bits


def neuron_count(network: Network) -> int:
    """Return the units, and the outputs where they are none of them."""
    outside = network.reading is not None and network.reading.link is not None
    return network.units + (network.outputs if outside else 0)


@dataclass(frozen=True)
class Footprint:
    """What a substrate holds, whatever the number of steps, by name."""

    neuron_words: tuple[str, ...]
    synapse_words: tuple[str, ...]
    cells: tuple[str, ...] = ()
    """Analog cells of each synapse."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """Words of each table that all neurons read."""
    widths: Mapping[str, int] = field(default_factory=dict)
    """Bits of neuron words and of tables that are not as wide as a state."""

    def by_width(self, words: Mapping[str, int]) -> dict[str, int]:
        """Sort words into the fields of a `WordCount`: as wide as a state, or of their own width.

        The tables are added.
        """
        named = [*words.items(), *self.tables.items()]
        wide = [(count, self.widths[name]) for name, count in named if name in self.widths]
        return {
            "states": sum(count for _, count in named) - sum(count for count, _ in wide),
            "wide": sum(count for count, _ in wide),
            "wide_bits": sum(count * bits for count, bits in wide),
        }

    def count(self, network: Network, moments: int = 0) -> WordCount:
        """Return the words of a whole network; `moments` are the optimizer's for each weight.

        Couplings that are no link hold words of their own, results in between.
        """
        neurons, size = neuron_count(network), network.size
        held = self.synapse_words.count("weight")
        efforts = [effort_of(coupling, network.shapes) for coupling in network.couplings]
        between = sum(effort.words for effort in efforts if effort)
        return WordCount(
            weights=size * held,
            traces=size * (len(self.synapse_words) - held + moments),
            cells=size * len(self.cells),
            **self.by_width(dict.fromkeys(self.neuron_words, neurons) | {"between": between}),
        )


@checked
def optimizer_counts(
    network: Network, optimizer: Optimizer, updates: int, local: bool = False
) -> OpCounts:
    """Return what `updates` steps of the optimizer do, beside writing the weights.

    Each parameter reads and writes its own moments. A moment takes two multiplications, and the
    scaled step one more; Adam also takes a root and a quotient. Unless the optimizer is `local`, at
    the synapses, each gradient word leaves the chip for a controller and an update comes back.
    """
    counts, moments = OpCounts(), optimizer.moments
    for name, place in homes(network).items():
        times = updates * network.blocks[name].size
        counts.add("update", place, "mac", (2 * moments + 1) * times)
        counts.add("update", place, "activation", (moments - 1) * times)
        counts.add("update", place, "divide", (moments - 1) * times)
        counts.add("update", place, "trace_read", moments * times)
        counts.add("update", place, "trace_write", moments * times)
        if not local:
            counts.add("update", BORDER, "off_chip", 2 * times)
    return counts
