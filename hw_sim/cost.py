"""What a run costs: counts times prices, with ranges, sensitivities and break-even points.

Everything is linear in the prices and in the number of relaxation steps, so that break-even points
are exact. Energies are in joules, latencies in seconds, areas in square metres.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from engine.network import Network
from hw_sim.counts import BORDER, Key, OpCounts
from hw_sim.technology import Price, Technology, TechnologyError
from hw_sim.wiring import READOUT, owners, places

DRAWS = 2000
"""Of the prices within their ranges."""


@dataclass(frozen=True)
class Design:
    """The network on its substrate: what prices scale with."""

    network: Network
    weight_bits: int
    state_bits: int
    words: int
    """Of memory, optimizer included."""
    cells_per_weight: int = 1

    @property
    def memory_bits(self) -> int:
        """Words of memory at the width of a weight, the wider of the two by custom."""
        return self.words * self.weight_bits

    def units(self, place: str) -> int:
        """Units that work side by side at a place."""
        return self.network.outputs if place in (READOUT, BORDER) else self.network.sizes[place]

    def synapses(self, place: str) -> int:
        """Cells or words of weights that work side by side at a place."""
        if place == BORDER:
            return 1
        owned = owners(self.network) == places(self.network).index(place)
        return max(1, self.cells_per_weight * int(owned.sum()))


@dataclass(frozen=True)
class Range:
    """A nominal value, and the 5th and 95th percentile over the ranges of the prices."""

    nominal: float
    low: float
    high: float


@dataclass(frozen=True)
class Bill:
    """A run on a technology: `amounts[key]` events at `prices[key]` each."""

    technology: Technology
    design: Design
    counts: OpCounts

    def energy_parts(self) -> dict[Key, float]:
        """Return the energy of each phase, place and kind, which sum to the total."""
        return {key: n * self._energy_of(key[2]).value for key, n in self.counts}

    def latency_parts(self) -> dict[Key, float]:
        """Return the time of each phase, place and kind; kinds without a price are hidden."""
        times = {}
        for key, n in self.counts:
            price = self.technology.prices["latency"].get(key[2])
            if price is not None:
                times[key] = n * price.value / self._lanes(price, key[1])
        return times

    @property
    def energy_j(self) -> float:
        """Energy at the nominal prices."""
        return sum(self.energy_parts().values())

    @property
    def latency_s(self) -> float:
        """Time at the nominal prices; nothing overlaps."""
        return sum(self.latency_parts().values())

    def energy_by_kind(self) -> dict[str, float]:
        """Return joules for each kind of event."""
        return _grouped(self.energy_parts(), 2)

    def energy_by_phase(self) -> dict[str, float]:
        """Return joules for each phase."""
        return _grouped(self.energy_parts(), 0)

    def energy_by_place(self) -> dict[str, float]:
        """Return joules for each layer, the read-out and the border."""
        return _grouped(self.energy_parts(), 1)

    def _energy_of(self, kind: str) -> Price:
        price, design = self.technology.price("energy", kind), self.design
        bits = self.technology.reference_bits
        weight, state = design.weight_bits / bits, design.state_bits / bits
        factor = {"none": 1.0, "weight": weight, "state": state, "product": weight * state}
        by = factor[price.scales]
        return replace(price, value=by * price.value, low=by * price.low, high=by * price.high)

    def _lanes(self, price: Price, place: str) -> int:
        if price.parallel == "unit":
            return self.design.units(place)
        if price.parallel == "synapse":
            return self.design.synapses(place)
        return int(price.parallel)

    def latency_weight(self, kind: str) -> float:
        """Return how many events of a kind follow one another."""
        price = self.technology.prices["latency"].get(kind)
        if price is None:
            return 0.0
        own = [(place, n) for (_, place, of), n in self.counts if of == kind]
        return sum(n / self._lanes(price, place) for place, n in own)

    def energy_weights(self) -> dict[str, tuple[float, Price]]:
        """Return for each kind the number of events and its price at these widths."""
        kinds: dict[str, float] = {}
        for (_, _, kind), n in self.counts:
            kinds[kind] = kinds.get(kind, 0.0) + n
        return {kind: (n, self._energy_of(kind)) for kind, n in kinds.items()}

    def area_m2(self) -> float | None:
        """Return the area of neurons and memory, or `None` where it has no price."""
        prices = self.technology.prices["area"]
        if "neuron" not in prices or "synapse_bit" not in prices:
            return None
        neurons = self.design.network.units + self.design.network.outputs
        bits = self.design.memory_bits
        return neurons * prices["neuron"].value + bits * prices["synapse_bit"].value

    def wear(self) -> float | None:
        """Return the writes of a weight cell over its endurance, or `None` if it does not wear."""
        price = self.technology.prices["endurance"].get("weight_write")
        if price is None:
            return None
        cells = self.design.network.size * self.design.cells_per_weight
        return self.counts.total("weight_write") / cells / price.value


def _grouped(parts: Mapping[Key, float], part: int) -> dict[str, float]:
    groups: dict[str, float] = {}
    for key, value in parts.items():
        groups[key[part]] = groups.get(key[part], 0.0) + value
    return groups


def draw_factors(
    kinds: Mapping[str, tuple[float, Price]], rng: np.random.Generator, draws: int = DRAWS
) -> dict[str, FloatArray]:
    """Draw prices within their ranges, triangular in the logarithm with the mode at the value."""
    drawn: dict[str, FloatArray] = {}
    for kind in sorted(kinds):
        price = kinds[kind][1]
        if price.value == 0.0 or price.low == price.high:
            drawn[kind] = np.full(draws, price.value)
            continue
        edges = np.log([price.low, price.value, price.high])
        drawn[kind] = np.exp(rng.triangular(edges[0], edges[1], edges[2], draws))
    return drawn


def energy_range(bill: Bill, seed: int = 0) -> Range:
    """Propagate the ranges of the energy prices by Monte Carlo."""
    kinds = bill.energy_weights()
    drawn = draw_factors(kinds, np.random.default_rng(seed))
    total = sum((n * drawn[kind] for kind, (n, _) in kinds.items()), np.zeros(DRAWS))
    low, high = np.percentile(total, [5, 95])
    return Range(bill.energy_j, float(low), float(high))


def ratio_range(ours: Bill, theirs: Bill, seed: int = 0) -> Range:
    """Return our energy over theirs; both are priced with the same draw of the prices."""
    kinds = ours.energy_weights() | theirs.energy_weights()
    drawn = draw_factors(kinds, np.random.default_rng(seed))
    totals = []
    for bill in (ours, theirs):
        parts = [n * drawn[kind] for kind, (n, _) in bill.energy_weights().items()]
        totals.append(np.sum(parts, axis=0))
    low, high = np.percentile(totals[0] / totals[1], [5, 95])
    return Range(ours.energy_j / theirs.energy_j, float(low), float(high))


@dataclass(frozen=True)
class Swing:
    """What a ratio becomes when one price goes from its low to its high end."""

    kind: str
    low: float
    high: float

    @property
    def size(self) -> float:
        """Factor between the ends, at least one."""
        return max(self.low, self.high) / min(self.low, self.high)


def sensitivities(ours: Bill, theirs: Bill) -> list[Swing]:
    """Rank the prices by how much they move our energy over theirs, the strongest first."""
    swings = []
    kinds = ours.energy_weights() | theirs.energy_weights()
    for kind, (_, price) in kinds.items():
        ends = [_with_price(ours, kind, v) / _with_price(theirs, kind, v) for v in _ends(price)]
        swings.append(Swing(kind, *ends))
    return sorted(swings, key=lambda swing: (-swing.size, swing.kind))


def _ends(price: Price) -> tuple[float, float]:
    return price.low, price.high


def _with_price(bill: Bill, kind: str, value: float) -> float:
    return sum(n * (value if k == kind else p.value) for k, (n, p) in bill.energy_weights().items())


def break_even_price(ours: Bill, theirs: Bill, kind: str) -> float | None:
    """Return the price of `kind`, in joules, at which both cost the same; `None` if there is none.

    Both energies are straight lines in the price.
    """
    free = _with_price(theirs, kind, 0.0) - _with_price(ours, kind, 0.0)
    more = ours.counts.total(kind) - theirs.counts.total(kind)
    price = free / more if more else -1.0
    return price if price > 0.0 else None


def break_even_time(ours: Bill, theirs: Bill, kind: str) -> float | None:
    """Return the seconds of one `kind` at which both take as long; `None` if there are none."""
    price = ours.technology.prices["latency"].get(kind)
    more = ours.latency_weight(kind) - theirs.latency_weight(kind)
    if price is None or more == 0.0:
        return None
    free = theirs.latency_s - ours.latency_s + more * price.value
    return free / more if free / more > 0.0 else None


def break_even_steps(ours: Bill, theirs: Bill) -> float | None:
    """Return the factor on our relaxation steps at which both cost the same, or `None`."""
    parts = ours.energy_by_phase()
    relaxing = parts.get("free", 0.0) + parts.get("nudged", 0.0)
    room = theirs.energy_j - (ours.energy_j - relaxing)
    if relaxing <= 0.0:
        raise TechnologyError("break-even needs a run that relaxed.")
    return room / relaxing if room > 0.0 else None


def break_even_map(
    ours: Bill, theirs: Bill, kind: str, factors: FloatArray, prices: FloatArray
) -> FloatArray:
    """Return our energy over theirs for factors on the steps (rows) and prices of `kind`."""
    relaxing = OpCounts()
    relaxing.events.update({k: n for k, n in ours.counts if k[0] in ("free", "nudged")})
    moving, rest = replace(ours, counts=relaxing), replace(ours, counts=ours.counts - relaxing)
    grid = np.empty((len(factors), len(prices)))
    for column, price in enumerate(prices):
        steps, other = _with_price(moving, kind, price), _with_price(rest, kind, price)
        grid[:, column] = (factors * steps + other) / _with_price(theirs, kind, price)
    return grid


def on_crossbar(counts: OpCounts) -> OpCounts:
    """Return counts of backprop as a crossbar would do its matrix products.

    A product of the forward or backward pass reads two cells for each weight; each of its inputs
    and outputs is converted. Gradients and updates stay digital, writes take two cells.
    """
    moved = OpCounts()
    for (phase, place, kind), n in counts:
        in_array = phase in ("input", "free", "backward") and place != BORDER
        if in_array and kind == "mac":
            moved.add(phase, place, "cell_read", 2 * n)
        elif in_array and kind == "weight_read":
            continue
        else:
            moved.add(phase, place, kind, 2 * n if kind == "weight_write" else n)
        if in_array and kind in ("state_read", "state_write"):
            moved.add(phase, place, "conversion", n)
    return moved
