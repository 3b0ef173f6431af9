"""Deep and convolutional rivals by hand: every event on every chip, from the geometry of layers."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest

from engine.model.builders import conv_net, layered
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.rivals.backprop import Rival
from tests.hw_sim.chips.hand_mesh import walked

PER_CORE = 3
TILED = CrossbarConfig(np.inf, tile_rows=4, tile_columns=3)
CHIPS = {
    "digital": (DigitalBackend, None),
    "crossbar": (CrossbarBackend, CrossbarConfig(np.inf)),
    "tiles": (CrossbarBackend, TILED),
    "spiking": (SpikingBackend, SpikingConfig(neurons_per_core=PER_CORE)),
}
SLOPE = {"relu": (1, 1), "tanh": (2, 0), "hard_sigmoid": (1, 2)}
"""Multiply-adds and comparisons."""


@dataclass(frozen=True)
class Plan:
    """A link by hand: at each position the units that it joins, `None` beyond an edge."""

    source: str
    target: str
    positions: tuple[tuple[tuple[int | None, ...], tuple[int, ...]], ...]


def matrix(source: str, target: str, rows: int, columns: int) -> Plan:
    return Plan(source, target, ((tuple(range(rows)), tuple(range(columns))),))


def windows(source: str, target: str, side: int, channels: int, filters: int) -> Plan:
    """Windows of 3 x 3 pixels at every second pixel, with a border of zeros."""
    reached, positions = (side + 1) // 2, []
    for top, left in product(range(reached), repeat=2):
        rows: list[int | None] = []
        for down, right, channel in product(range(3), range(3), range(channels)):
            y, x = 2 * top + down - 1, 2 * left + right - 1
            inside = 0 <= y < side and 0 <= x < side
            rows.append((y * side + x) * channels + channel if inside else None)
        first = (top * reached + left) * filters
        positions.append((tuple(rows), tuple(range(first, first + filters))))
    return Plan(source, target, tuple(positions))


@dataclass(frozen=True)
class Case:
    network: Network
    sizes: dict[str, int]
    """Of the input, the layers and the read-out."""
    plans: tuple[Plan, ...]
    """From the input to the read-out, one after the other."""


CASES = {
    "deep": Case(
        layered((4, 5, 7, 2), "relu"),
        {"input": 4, "layer1": 5, "layer2": 7, "readout": 2},
        (matrix("input", "layer1", 4, 5), matrix("layer1", "layer2", 5, 7),
         matrix("layer2", "readout", 7, 2)),
    ),
    "conv": Case(
        conv_net((5, 5, 1), (2, 3), 2, activation="tanh"),
        {"input": 25, "layer1": 18, "layer2": 12, "readout": 2},
        (windows("input", "layer1", 5, 1, 2), windows("layer1", "layer2", 3, 2, 3),
         matrix("layer2", "readout", 12, 2)),
    ),
}  # fmt: skip


class Tiles:
    """Plans on a mesh of tiles, one after the other: lines cross tiles, and words have a home."""

    def __init__(self, plans: tuple[Plan, ...], tile: tuple[int, int]) -> None:
        self.high, self.wide = tile
        self.first: dict[Plan, int] = {}
        self.count = 0
        for plan in plans:
            self.first[plan] = self.count
            self.count += self.crossed(plan, rows=True) * self.crossed(plan, rows=False)
        self.home: dict[tuple[str, int], int] = {}
        ordered = [*plans[1:], plans[0]]  # the input array last
        for plan in ordered:
            for _, columns in plan.positions:
                for c, unit in enumerate(columns):
                    here = self.number(plan, 0, c // self.wide)
                    self.home.setdefault((plan.target, unit), here)
        for rows, _ in plans[0].positions:
            for r, pixel in enumerate(rows):
                if pixel is not None:
                    here = self.number(plans[0], r // self.high, 0)
                    self.home.setdefault((plans[0].source, pixel), here)

    def crossed(self, plan: Plan, rows: bool) -> int:
        """Tiles that a row, or a column, crosses."""
        above, beside = plan.positions[0]
        return ceil(len(beside) / self.wide) if rows else ceil(len(above) / self.high)

    def number(self, plan: Plan, down: int, across: int) -> int:
        return self.first[plan] + down * self.crossed(plan, rows=True) + across

    def sent(self, plan: Plan, rows: bool) -> int:
        """Hops between the homes of all words of one end and the tiles of their lines."""
        hops = 0
        for above, beside in plan.positions:
            for k, unit in enumerate(above if rows else beside):
                if unit is not None:
                    home = self.home[plan.source if rows else plan.target, unit]
                    for other in range(self.crossed(plan, rows)):
                        at = (k // self.high, other) if rows else (other, k // self.wide)
                        hops += len(walked(home, self.number(plan, *at), self.count))
        return hops

    def read(self, plan: Plan, back: bool) -> int:
        """Hops of what drives, and of what arrives unless its currents join on one tile."""
        joined = self.sent(plan, rows=back) if self.crossed(plan, rows=back) > 1 else 0
        return self.sent(plan, rows=not back) + joined


class Ledger(Counter[tuple[str, str, str]]):
    """Events of one sample, synapse by synapse."""

    def __init__(self, case: Case, chip: Any) -> None:
        super().__init__()
        self.case, self.in_array = case, isinstance(chip, CrossbarBackend)
        self.per_core = PER_CORE if isinstance(chip, SpikingBackend) else 0
        sizes = case.sizes["layer1"], case.sizes["layer2"]
        self.first = {"layer1": 0, "layer2": sizes[0], "readout": sum(sizes)}
        self.cores = ceil((sum(sizes) + 2) / PER_CORE)
        self.tile = chip.tile
        self.mesh = Tiles(case.plans, chip.tile) if any(chip.tile) else None

    def enter(self, phase: str, place: str, **events: int) -> None:
        for kind, times in events.items():
            if times:
                self[phase, place, kind] += times

    def stage(self, phase: str, ways: list[tuple[Plan, bool]]) -> None:
        """Products that are done at once; `True` goes from the target of a plan to its source."""
        joined = set()
        for plan, back in ways:
            end = plan.source if back else plan.target
            place = "readout" if plan.target == "readout" else end
            if self.mesh:
                self.enter(phase, place, hop=self.mesh.read(plan, back))
            for rows, columns in plan.positions:
                inside = [row for row in rows if row is not None]
                reads, arrives = (columns, inside) if back else (inside, columns)
                self.enter(phase, place, state_read=len(reads))
                if not self.in_array:
                    pairs = len(inside if self.per_core else rows) * len(columns)
                    self.enter(phase, place, mac=pairs, weight_read=pairs)
                    continue
                self.enter(phase, place, cell_read=2 * len(rows) * len(columns))
                drives, hears = (columns, rows) if back else (rows, columns)
                high, wide = self.tile[::-1] if back else self.tile
                across = ceil(len(hears) / wide) if wide else 1
                along = ceil(len(drives) / high) if high else 1
                self.enter(phase, place, conversion=len(reads) * across)
                if along > 1 or (back and len(plan.positions) > 1):
                    self.enter(phase, place, conversion=len(arrives) * along)
                    self.enter(phase, place, addition=len(arrives) * (along - 1))
                else:
                    joined.add((place, end))
        for place, end in joined:
            self.enter(phase, place, conversion=self.case.sizes[end])
        if self.per_core and ways:
            self.exchange(phase, ways)

    def core(self, name: str, unit: int) -> int:
        """Units lie on cores in their order, and the outputs after them."""
        return (self.first[name] + unit) // PER_CORE

    def place_of(self, core: int) -> str:
        """The first neuron of a core says where it is counted."""
        return max(name for name, first in self.first.items() if first <= core * PER_CORE)

    def exchange(self, phase: str, ways: list[tuple[Plan, bool]]) -> None:
        """A message of each unit to each core with a listener, and the longest work of a core."""
        met: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
        for plan, back in ways:
            for rows, columns in plan.positions:
                for row, column in product((r for r in rows if r is not None), columns):
                    ends = (plan.source, row), (plan.target, column)
                    (name, unit), end = ends[::-1] if back else ends
                    met[name, unit][self.core(*end)] += 1
        outside = ways[0][0].target == "readout"
        talk: Counter[int] = Counter()
        hear: Counter[int] = Counter()
        work: dict[int, Counter[str]] = defaultdict(Counter)
        for name in {plan.target if back else plan.source for plan, back in ways}:
            for unit in range(self.case.sizes[name]):
                place = "readout" if outside else "layer1" if name == "input" else name
                heard = met[name, unit]
                for core, synapses in heard.items():
                    self.enter(phase, place, message=1)
                    work[core].update(busy_receive=1, busy_synapse=synapses)
                    hear[core] += 160 + 38 * synapses  # tenths of a nanosecond
                if name != "input":
                    home = self.core(name, unit)
                    hops = sum(len(walked(home, core, self.cores)) for core in heard)
                    self.enter(phase, place, spike_out=1, hop=hops)
                    work[home].update(busy_update=1, busy_spike=1, busy_send=len(heard))
                    talk[home] += 97 + 300 + 51 * len(heard)
        receives = max(hear.values()) > max(talk.values(), default=0)
        side, kinds = (hear, ("receive", "synapse")) if receives else (
            talk, ("update", "spike", "send")
        )  # fmt: skip
        most = max(side.values())
        busiest = min(core for core, time in side.items() if time == most)
        place = "readout" if outside else self.place_of(busiest)
        events = {f"busy_{kind}": work[busiest][f"busy_{kind}"] for kind in kinds}
        self.enter(phase, place, barrier=1, **events)

    def learn(self, plans: list[Plan]) -> None:
        work: Counter[int] = Counter()
        for plan in plans:
            for rows, columns in plan.positions:
                pairs, inside = len(rows) * len(columns), [r for r in rows if r is not None]
                self.enter("learn", plan.target, mac=pairs, trace_read=pairs, trace_write=pairs)
                self.enter("learn", plan.target, state_read=len(inside) + len(columns))
                for column in columns:
                    work[self.core(plan.target, column)] += len(rows)
        if self.per_core and work:
            busiest = min(core for core, n in work.items() if n == max(work.values()))
            outside = plans[0].target == "readout"
            place = "readout" if outside else self.place_of(busiest)
            self.enter("learn", place, busy_synapse=work[busiest])

    def stages(self, steps: int) -> list[tuple[list[str], list[tuple[Plan, bool]]]]:
        """The two layers one after the other; or both at once, and both ways in each step."""
        between = self.case.plans[1]
        if steps == 0:
            return [(["layer1"], []), (["layer2"], [(between, False)])]
        both = ["layer1", "layer2"]
        return [(both, []), *[(both, [(between, False), (between, True)])] * steps]

    def forward(self, steps: int) -> None:
        first, _, out = self.case.plans
        self.stage("input", [(first, False)])
        for name in ("layer1", "layer2"):
            size = self.case.sizes[name]
            self.enter("input", name, weight_read=size, state_write=size)
        for names, ways in self.stages(steps):
            self.stage("free", ways)
            for name in names:
                size = self.case.sizes[name]
                self.enter("free", name, activation=size, state_write=size)
                self.enter("free", name, state_read=size if ways else 0)
        self.stage("free", [(out, False)])
        self.enter("free", "readout", weight_read=2, activation=2, state_write=2)
        self.enter("free", "readout", compare=1, divide=2)

    def backward(self, steps: int) -> None:
        first, _, out = self.case.plans
        sizes, activation = self.case.sizes, self.case.network.layers[0].activation
        self.stage("backward", [(out, True)])
        self.enter("backward", "readout", state_write=sizes["layer2"])
        self.learn([out])
        self.enter("learn", "readout", trace_read=2, trace_write=2, state_read=2)
        for names, ways in self.stages(steps)[::-1]:
            for name in names:
                size, (macs, compares) = sizes[name], SLOPE[activation]
                self.enter("backward", name, mac=macs * size, compare=compares * size)
                self.enter("backward", name, state_read=2 * size, state_write=2 * size)
            self.stage("backward", [(plan, not back) for plan, back in ways])
            for plan, back in ways:
                name = plan.target if back else plan.source
                self.enter("backward", name, state_write=sizes[name])
            self.learn([plan for plan, _ in ways])
            if self.mesh:
                for plan, back in ways:  # deltas are there, states come once more
                    self.enter("learn", plan.target, hop=self.mesh.sent(plan, rows=not back))
        self.learn([first])
        if self.mesh:
            for rows in (True, False):
                self.enter("learn", "layer1", hop=self.mesh.sent(first, rows))
        for name in ("layer1", "layer2"):
            reads = 0 if name == "layer1" else sizes[name]  # the inputs have just read those
            size = sizes[name]
            self.enter("learn", name, trace_read=size, trace_write=size, state_read=reads)


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("chip", CHIPS)
def test_every_event_of_a_stack_is_entered_by_hand(chip: str, kind: str, steps: int) -> None:
    case, (make, config) = CASES[kind], CHIPS[chip]
    network, rng = case.network, np.random.default_rng(1)
    trained, asked = (make(network, initial_params(network, rng), config) for _ in range(2))
    x, y = rng.standard_normal((2, case.sizes["input"])), np.eye(2)
    Rival(steps).gradient(trained, x, y, np.zeros(network.size))
    Rival(steps).predict(asked, x)
    whole, forward = Ledger(case, trained), Ledger(case, asked)
    for _ in range(2):
        whole.forward(steps)
        whole.backward(steps)
        forward.forward(steps)
    for ledger, phase in ((whole, "backward"), (forward, "readout")):
        ledger.enter("input", "border", off_chip=2 * case.sizes["input"])
        ledger.enter(phase, "border", off_chip=2 * 2)
    assert dict(trained.counts) == dict(whole)
    assert dict(asked.counts) == dict(forward)


@pytest.mark.parametrize("kind", CASES)
def test_memory_by_hand(kind: str) -> None:
    """All states of all steps, a drive, two deltas and their sum; logits and error."""
    case = CASES[kind]
    units = case.sizes["layer1"] + case.sizes["layer2"]
    chip = SpikingBackend(case.network, initial_params(case.network, np.random.default_rng(0)))
    for steps in (0, 6):
        held = Rival(steps).words(chip, moments=2)
        assert held.states == units * (steps + 1 + 2) + 2 + units + units + 2
        assert (held.weights, held.traces) == (case.network.size, 3 * case.network.size)
