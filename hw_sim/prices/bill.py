"""What a run costs: counts times prices, with their ranges. `break_even` compares two.

Energies are in joules, latencies in seconds, areas in square metres.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np

from engine.arrays import FloatArray
from engine.model.network import Network
from hw_sim.counts import Key, OpCounts, WordCount, neuron_count
from hw_sim.prices.price import Parameters, Price
from hw_sim.prices.schedule import Mapped, rounds_of_one
from hw_sim.prices.technology import Technology

DRAWS = 2000
"""Of the prices within their ranges."""
LOW, HIGH = 5, 95
"""Percentiles of the draws that a range reports."""

Terms: TypeAlias = dict[str, tuple[float, Price]]
"""What a sum is made of: for each price how often it is paid."""


@dataclass(frozen=True)
class Design:
    """The network on its substrate: what prices scale with."""

    network: Network
    weight_bits: int
    state_bits: int
    memory: WordCount
    """Optimizer included."""
    settles: bool = False
    """Whether states are analog until they are read: input arrays then conduct in every step."""

    @property
    def memory_bits(self) -> int:
        """Bits of all words; analog cells are none."""
        return self.memory.bits(self.weight_bits, self.state_bits)

    @property
    def parameters(self) -> Parameters:
        """What prices depend on; a learning word is twice as wide as a weight."""
        weight, state, held = self.weight_bits, self.state_bits, self.memory
        return {
            "weight_bits": weight,
            "state_bits": state,
            "multiplier_bits": sqrt(weight * state),
            "weight_bytes": max(1.0, weight * held.weights / 8),
            "state_bytes": max(1.0, state * held.states / 8),
            "trace_bytes": max(1.0, 2 * weight * held.traces / 8),
        }

    @property
    def neurons(self) -> int:
        """Units, and the outputs where they are none."""
        return neuron_count(self.network)


@dataclass(frozen=True)
class Range:
    """A nominal value, and the 5th and 95th percentile over the ranges of the prices."""

    nominal: float
    low: float
    high: float


@dataclass(frozen=True)
class Bill:
    """What a run did, on a technology."""

    technology: Technology
    design: Design
    counts: OpCounts
    most_writes: int = 0
    """Of the weight cell that was written most."""

    def energy_parts(self) -> dict[Key, float]:
        """Return the energy of each phase, place and kind, which sum to the total."""
        terms = self.energy_terms()
        return {key: n * terms[key[2]][1].value for key, n in self.counts}

    def latency_parts(self) -> dict[Key, float]:
        """Return the time of each phase, place and kind that takes some."""
        terms = self.latency_terms()
        return {key: rounds * terms[key[2]][1].value for key, rounds in self._rounds.items()}

    @property
    def energy_j(self) -> float:
        """Energy at the nominal prices."""
        return sum(self.energy_parts().values())

    @property
    def latency_s(self) -> float:
        """Time at the nominal prices, as the machine of the technology has it."""
        return sum(self.latency_parts().values())

    def energy_terms(self) -> Terms:
        """Return for each kind the number of events and its price in this design."""
        kinds = grouped(dict(self.counts), "kind")
        return {kind: (n, self._price("energy", kind)) for kind, n in kinds.items()}

    def latency_terms(self) -> Terms:
        """Return for each kind that takes time how many rounds follow one another."""
        kinds = grouped(self._rounds, "kind")
        return {kind: (n, self._price("latency", kind)) for kind, n in kinds.items()}

    def area_terms(self) -> Terms:
        """Return neurons, bits and cells with their areas; nothing where no area has a price."""
        if not self.technology.prices["area"]:
            return {}
        design = self.design
        held = {
            "neuron": design.neurons,
            "memory_bit": design.memory_bits,
            "cell": design.memory.cells,
        }
        return {name: (n, self._price("area", name)) for name, n in held.items() if n}

    def energy(self) -> Range:
        """Return the energy with the ranges of its prices."""
        return spread(self.energy_terms())

    def latency(self) -> Range:
        """Return the time with the ranges of its prices."""
        return spread(self.latency_terms())

    def area(self) -> Range | None:
        """Return the area of neurons and memory, or `None` where it has no price."""
        terms = self.area_terms()
        return spread(terms) if terms else None

    def wear(self) -> Range | None:
        """Return the writes of the busiest cell over its endurance, `None` where none wears."""
        if "weight_write" not in self.technology.prices["endurance"]:
            return None
        price = self._price("endurance", "weight_write")
        lives = draw_prices({"weight_write": (1.0, price)})["weight_write"]
        return _range(self.most_writes / price.value, self.most_writes / lives)

    def _price(self, section: str, name: str) -> Price:
        return self.technology.price_at(section, name, self.design.parameters)

    @property
    def _rounds(self) -> dict[Key, float]:
        """Rounds of each phase, place and kind that takes time."""
        design, machine = self.design, self.technology.machine
        in_array = any(kind == "cell_read" for (_, _, kind), _ in self.counts)
        mapped = Mapped(design.network, in_array, design.settles)
        return {
            key: n * rounds_of_one(mapped, machine.stages[key[2]], *key)
            for key, n in self.counts
            if self.technology.takes_time(key[2])
        }


def grouped(parts: Mapping[Key, float], by: str) -> dict[str, float]:
    """Return the sums over parts of the same `phase`, `place` or `kind`."""
    column = ("phase", "place", "kind").index(by)
    groups: dict[str, float] = {}
    for key, value in parts.items():
        groups[key[column]] = groups.get(key[column], 0.0) + value
    return groups


def draw_prices(terms: Terms, seed: int = 0) -> dict[str, FloatArray]:
    """Draw prices within their ranges, triangular in the logarithm with the mode at the value."""
    rng, drawn = np.random.default_rng(seed), {}
    for name in sorted(terms):
        price = terms[name][1]
        if price.value == 0.0 or price.low == price.high:
            drawn[name] = np.full(DRAWS, price.value)
            continue
        edges = np.log([price.low, price.value, price.high])
        drawn[name] = np.exp(rng.triangular(edges[0], edges[1], edges[2], DRAWS))
    return drawn


def spread(terms: Terms) -> Range:
    """Propagate the ranges of the prices of a sum by Monte Carlo."""
    drawn = draw_prices(terms)
    total = sum((n * drawn[name] for name, (n, _) in terms.items()), np.zeros(DRAWS))
    return _range(nominal(terms), total)


def nominal(terms: Terms, name: str = "", value: float = 0.0) -> float:
    """Return the sum at nominal prices, but for the one called `name`, which costs `value`."""
    return sum(n * (value if key == name else p.value) for key, (n, p) in terms.items())


def _range(value: float, draws: FloatArray) -> Range:
    low, high = np.percentile(draws, [LOW, HIGH])
    return Range(float(value), float(low), float(high))
