"""What the runs show once they are priced: EqProp against its rivals at equal accuracy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.network import Network
from experiments.hardware.runs import Outcome
from experiments.hardware.settings import RIVALS, SUBSTRATES
from hw_sim.cost import (
    Bill,
    Design,
    Range,
    Swing,
    break_even_price,
    break_even_steps,
    break_even_time,
    energy_range,
    on_crossbar,
    ratio_range,
    sensitivities,
)
from hw_sim.counts import OpCounts
from hw_sim.technology import Technology

NATURAL = {
    "digital": ("digital_45nm", "digital_7nm", "gpu", "microcontroller"),
    "crossbar": ("rram_crossbar",),
    "spiking": ("loihi_like",),
}
"""The technologies in which a substrate is priced unless one is asked for."""
DENSE = (
    "mac", "activation", "state_read", "state_write", "weight_read", "weight_write", "trace_read",
    "trace_write", "off_chip",
)  # fmt: skip
EVENTS = {
    "digital": DENSE,
    "crossbar": (*DENSE, "cell_read", "conversion"),
    "spiking": (*DENSE, "message", "hop"),
}
"""What has to have a price before a substrate is run."""
ANALOG_BITS = 8
"""Width at which the words beside an analog array or an event are priced."""


@dataclass(frozen=True)
class Contest:
    """A substrate in a technology against one rival, both trained to the target."""

    substrate: str
    technology: Technology
    rival: str
    ours: Bill
    theirs: Bill
    seeds: int
    ours_once: Bill
    """All inferences of the test parts."""
    theirs_once: Bill
    inferences: int

    @property
    def ratio(self) -> Range:
        """Our energy of training over theirs."""
        return ratio_range(self.ours, self.theirs)

    @property
    def verdict(self) -> str:
        """Which is cheaper, over the whole range of the prices."""
        ratio = self.ratio
        if ratio.high < 1.0:
            return "cheaper"
        return "dearer" if ratio.low > 1.0 else "undecided"

    def training_energy(self) -> Range:
        """Return joules of one training."""
        return scaled(energy_range(self.ours), 1.0 / self.seeds)

    def inference_energy(self) -> Range:
        """Return joules of one inference."""
        return scaled(energy_range(self.ours_once), 1.0 / self.inferences)

    def swings(self) -> list[Swing]:
        """Return the prices that decide, the strongest first."""
        return sensitivities(self.ours, self.theirs)

    def break_even(self) -> list[str]:
        """Say in sentences where the balance tips."""
        factor = break_even_steps(self.ours, self.theirs)
        sentences = ["no number of steps makes it cheaper"]
        if factor is not None:
            sentences = [f"steps: {factor:.2g} times those it took"]
        for swing in self.swings()[:4]:
            price = break_even_price(self.ours, self.theirs, swing.kind)
            if price is None:
                continue
            listed = self.ours.energy_weights() | self.theirs.energy_weights()
            now = listed[swing.kind][1].value
            more = self.ours.counts.total(swing.kind) > self.theirs.counts.total(swing.kind)
            side = "under" if more else "over"
            sentences.append(f"{swing.kind}: {side} {price * 1e12:.3g} pJ (now {now * 1e12:.3g})")
        return sentences

    def break_even_times(self) -> list[str]:
        """Say what would make it as fast."""
        sentences = []
        for kind, price in self.technology.prices["latency"].items():
            time = break_even_time(self.ours, self.theirs, kind)
            if time is not None:
                more = self.ours.latency_weight(kind) > self.theirs.latency_weight(kind)
                side = "under" if more else "over"
                now = price.value * 1e9
                sentences.append(f"{kind}: {side} {time * 1e9:.3g} ns (now {now:.3g})")
        return sentences or ["no single time decides"]


def check_prices(
    substrates: Sequence[str], technologies: Mapping[str, Technology], chosen: Sequence[str] | None
) -> None:
    """Refuse a technology that lacks the price of an event, before any work is done."""
    for substrate in substrates:
        for name in chosen or NATURAL[substrate]:
            for kind in EVENTS[substrate]:
                technologies[name].price("energy", kind)


def scaled(value: Range, factor: float) -> Range:
    """Return a range in other units."""
    return Range(factor * value.nominal, factor * value.low, factor * value.high)


@dataclass(frozen=True)
class Summary:
    """Everything that the report says."""

    task: str
    target: float
    outcomes: Mapping[str, tuple[Outcome, ...]]
    contests: tuple[Contest, ...]
    missing: tuple[str, ...]
    sweeps: tuple[Outcome, ...]
    networks: Mapping[str, Network]


def common_target(outcomes: Sequence[Outcome]) -> float:
    """Return the highest whole percent that every run reached on its validation part."""
    reached = [max(point.accuracy for point in outcome.curve) for outcome in outcomes]
    return math.floor(100 * min(reached)) / 100


def summarise(
    task: str,
    outcomes: Sequence[Outcome],
    sweeps: Sequence[Outcome],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
    target: float | None,
    networks: Mapping[str, Network],
) -> Summary:
    """Price every substrate in its technologies, at the accuracy that all of them reached."""
    goal = common_target(outcomes) if target is None else target
    grouped: dict[str, tuple[Outcome, ...]] = {}
    for outcome in outcomes:
        grouped[outcome.contender] = (*grouped.get(outcome.contender, ()), outcome)
    late = [
        f"{o.contender} with seed {o.seed} never reached {goal:.0%} on the validation part"
        for o in outcomes
        if o.first_epoch(goal) is None
    ]
    usable = {
        name: group
        for name, group in grouped.items()
        if all(o.first_epoch(goal) is not None for o in group)
    }
    contests = []
    for substrate in SUBSTRATES:
        for name in chosen or NATURAL[substrate]:
            for rival in RIVALS:
                if substrate in usable and rival in usable:
                    pair = usable[substrate], usable[rival]
                    contests.append(_contest(pair, technologies[name], goal, networks))
    return Summary(task, goal, grouped, tuple(contests), tuple(late), tuple(sweeps), networks)


def _contest(
    pair: tuple[tuple[Outcome, ...], tuple[Outcome, ...]],
    technology: Technology,
    goal: float,
    networks: Mapping[str, Network],
) -> Contest:
    ours, theirs = pair
    substrate, rival = ours[0].contender, theirs[0].contender
    bills = []
    for group in pair:
        name = group[0].contender
        network, (weight, state) = networks[name], widths(ours[0])
        cells = 2 if substrate == "crossbar" else 1
        words = max(outcome.words for outcome in group)
        design = Design(network, weight, state, words, cells)
        trained, once = OpCounts(), OpCounts()
        for outcome in group:
            trained += outcome.counts_at(outcome.first_epoch(goal) or 0)
            once += OpCounts.from_rows(tuple(row) for row in outcome.inference)
        if substrate == "crossbar" and name in RIVALS:
            trained, once = on_crossbar(trained), on_crossbar(once)
        bills += [Bill(technology, design, trained), Bill(technology, design, once)]
    inferences = sum(outcome.n_test for outcome in ours)
    return Contest(
        substrate, technology, rival, bills[0], bills[2], len(ours), bills[1], bills[3], inferences
    )


def widths(outcome: Outcome) -> tuple[int, int]:
    """Return the bits of a weight and of a state; a rival is priced at those of its opponent."""
    if outcome.contender != "digital":
        return ANALOG_BITS, ANALOG_BITS
    config = outcome.settings["digital"]
    return config["weight_bits"], config["state_bits"]


def accuracy_spread(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return mean and standard deviation of the test accuracy over seeds."""
    values = np.array([outcome.accuracy for outcome in outcomes])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan
