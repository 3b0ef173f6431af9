"""What a run costs: counts times prices, with their ranges. `break_even` compares two.

Energies are in joules, latencies in seconds, powers in watts, areas in square metres.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

from engine.model.network import Network
from hw_sim.chips.tile_mesh import Tile, tile_shapes
from hw_sim.counts import Amounts, Key, OpCounts, WordCount, neuron_count
from hw_sim.events import WAITS
from hw_sim.prices.price import Parameters, Price
from hw_sim.prices.schedule import UPDATE, Mapped, rounds_of_one
from hw_sim.prices.sums import Range, Sum, draw_places, range_of, ratio_range
from hw_sim.prices.technology import Technology

LEAKAGE = "leakage"
"""Name of the part of an energy that is paid by the time: idle power and leakage."""


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
    tiles: int = 1
    """Of cores, which wait for one another at a barrier."""
    tile: Tile = (0, 0)
    """Rows and columns of the largest array; 0 is without end."""
    one_way: bool = False
    """Whether layers are run through once, from the first to the last, and back."""

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
            "state_bytes": max(1.0, (state * held.states + held.wide_bits) / 8),
            "trace_bytes": max(1.0, 2 * weight * held.traces / 8),
            "tiles": self.tiles,
        }

    @property
    def neurons(self) -> int:
        """Units, and the outputs where they are none."""
        return neuron_count(self.network)


@dataclass(frozen=True)
class Bill:
    """What a run did, on a technology."""

    technology: Technology
    design: Design
    counts: OpCounts | Amounts
    most_writes: float = 0
    """Of the weight cell that was written most."""
    batch: int = 1
    """Samples between two updates of the weights."""

    def energy_parts(self) -> dict[Key, float]:
        """Return the energy of each phase, place and kind, which sum to the total.

        Leakage is a kind of its own, paid for the time of each phase and place.
        """
        prices = {kind: self._price("energy", kind).value for kind in self._kinds}
        parts = {key: n * prices[key[2]] for key, n in self.counts if key[2] in prices}
        static = self.static_sum().nominal
        if static:
            for (phase, place, _), time in self.latency_parts().items():
                key = phase, place, LEAKAGE
                parts[key] = parts.get(key, 0.0) + static * time
        return parts

    def latency_parts(self) -> dict[Key, float]:
        """Return the time of each phase, place and kind that takes some."""
        rounds = self._rounds
        prices = {k: self._price("latency", k).value for k in {key[2] for key in rounds}}
        return {key: n * prices[key[2]] for key, n in rounds.items()}

    @property
    def energy_j(self) -> float:
        """Energy at the nominal prices."""
        return self.energy_sum().nominal

    @property
    def latency_s(self) -> float:
        """Time at the nominal prices, as the machine of the technology has it."""
        return self.latency_sum().nominal

    @property
    def power_w(self) -> float | None:
        """Energy over time at the nominal prices; `None` where nothing takes time."""
        time = self.latency_s
        return self.energy_j / time if time else None

    def energy_sum(self) -> Sum:
        """Return what the energy is made of: events, and static power for the time they take."""
        events = {kind: (n, self._price("energy", kind)) for kind, n in self._kinds.items()}
        return Sum.of(events) + self.static_sum() * self.latency_sum()

    def latency_sum(self) -> Sum:
        """Return for each kind that takes time how many rounds follow one another."""
        kinds = grouped(self._rounds, "kind")
        return Sum.of({f"{k} time": (n, self._price("latency", k)) for k, n in kinds.items()})

    def static_sum(self) -> Sum:
        """Return the power that is drawn all the time: of the chip and of all that it holds."""
        held = {"chip": 1, **self._held}
        stated = self.technology.prices["power"]
        return Sum.of(
            {f"{k} power": (n, self._price("power", k)) for k, n in held.items() if k in stated}
        )

    def area_sum(self) -> Sum:
        """Return all that is held with its area; nothing where no area has a price."""
        if not self.technology.prices["area"]:
            return Sum()
        return Sum.of({k: (n, self._price("area", k)) for k, n in self._held.items() if n})

    def energy(self) -> Range:
        """Return the energy with the ranges of its prices."""
        return self.energy_sum().spread()

    def latency(self) -> Range:
        """Return the time with the ranges of its prices."""
        return self.latency_sum().spread()

    def power(self) -> Range | None:
        """Return energy over time with its range, `None` where nothing takes time."""
        time = self.latency_sum()
        return ratio_range(self.energy_sum(), time) if time.nominal else None

    def power_limit_w(self) -> float | None:
        """Return the most that the technology may draw, `None` where it does not say."""
        stated = "limit" in self.technology.prices["power"]
        return self._price("power", "limit").value if stated else None

    def area(self) -> Range | None:
        """Return the area of neurons and memory, or `None` where it has no price."""
        found = self.area_sum()
        return found.spread() if found.terms else None

    def wear(self) -> Range | None:
        """Return the writes of the busiest cell over its endurance, `None` where none wears."""
        if "weight_write" not in self.technology.prices["endurance"]:
            return None
        life = Sum.of({"life": (1.0, self._price("endurance", "weight_write"))})
        return range_of(
            self.most_writes / life.nominal, self.most_writes / life.drawn(draw_places(life))
        )

    def one_at_a_time(self) -> "Bill":
        """Return the bill of a machine that waits for one sample, and shares nothing by a batch."""
        machine = replace(self.technology.machine, batch=1)
        return replace(self, technology=replace(self.technology, machine=machine))

    def tile_converters(self) -> list[int]:
        """Return the converters of every tile, at both ends of its lines; a neuron has one of them.

        None where the machine has no converters for lines.
        """
        stage = self.technology.machine.stages.get("conversion")
        if stage is None or stage.per != "line":
            return []
        shapes = tile_shapes(self.design.network, self.design.tile)
        return [stage.lanes(rows) + stage.lanes(columns) for rows, columns in shapes]

    @property
    def _kinds(self) -> dict[str, float]:
        """Number of events of each kind that takes energy, all of which have a price."""
        found = grouped(dict(self.counts), "kind")
        kinds = {kind: n for kind, n in found.items() if kind not in WAITS}
        self.technology.check_priced("energy", kinds)
        return kinds

    @property
    def _held(self) -> dict[str, int]:
        """What the design holds, by the names of its areas and powers."""
        design = self.design
        cells = design.memory.cells
        held = {"neuron": design.neurons, "memory_bit": design.memory_bits, "cell": cells}
        if any(design.tile):
            held["converter"] = max(0, sum(self.tile_converters()) - design.neurons)
            held["tile"] = len(tile_shapes(design.network, design.tile))
        return held

    def _price(self, section: str, name: str) -> Price:
        return self.technology.price_at(section, name, self.design.parameters)

    @property
    def _rounds(self) -> dict[Key, float]:
        """Rounds of each phase, place and kind that takes time."""
        design, machine = self.design, self.technology.machine
        in_array = any(kind == "cell_read" for (_, _, kind), _ in self.counts)
        settled = design.settles, design.tile, design.one_way
        mapped = Mapped(design.network, in_array, *settled)
        rounds = {}
        for key, n in self.counts:
            if self.technology.takes_time(key[2]):
                stage = machine.stages[key[2]]
                by_batch = stage.per == "launch" and key[0] != UPDATE
                shared = machine.batch if by_batch else 1
                rounds[key] = n * rounds_of_one(mapped, stage, *key) / shared
        return rounds


def grouped(parts: Mapping[Key, float], by: str) -> dict[str, float]:
    """Return the sums over parts of the same `phase`, `place` or `kind`."""
    column = ("phase", "place", "kind").index(by)
    groups: dict[str, float] = {}
    for key, value in parts.items():
        groups[key[column]] = groups.get(key[column], 0.0) + value
    return groups
