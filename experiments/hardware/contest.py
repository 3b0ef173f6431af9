"""What the runs show once they are priced: EqProp against its rivals at equal accuracy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.model.network import Network
from experiments.hardware.job import Outcome
from experiments.hardware.settings import RIVALS
from experiments.reporting.number_text import in_units
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.settings import ChipSettings
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.break_even import (
    Swing,
    break_even_factor,
    break_even_steps,
    difference,
    sensitivities,
)
from hw_sim.prices.sums import Range, Sum, ratio_range
from hw_sim.prices.technology import Technology

SHOWN_PRICES = 3
"""Prices whose break-even point is stated, beside that of a weight write."""
FAR = 1000.0
"""Break-even prices further than this factor from the price are not worth stating."""


@dataclass(frozen=True)
class Contest:
    """A substrate in a technology against one rival, both trained to the target.

    Bills are of all seeds together.
    """

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
    steps: float
    """Mean steps of a sample over all its phases, until the target."""

    @cached_property
    def ratio(self) -> Range:
        """Our energy of training over theirs."""
        return ratio_range(self.ours.energy_sum(), self.theirs.energy_sum())

    @cached_property
    def time_ratio(self) -> Range | None:
        """Our time of training over theirs, where times have prices."""
        sums = self.ours.latency_sum(), self.theirs.latency_sum()
        return ratio_range(*sums) if all(found.terms for found in sums) else None

    @cached_property
    def swings(self) -> list[Swing]:
        """The prices that decide, the strongest first."""
        return sensitivities(self.ours.energy_sum(), self.theirs.energy_sum())

    @property
    def verdict(self) -> str:
        """Which is cheaper, over the whole range of the prices."""
        if self.ratio.high < 1.0:
            return "cheaper"
        return "dearer" if self.ratio.low > 1.0 else "undecided"

    def training_energy(self) -> Range:
        """Return joules of one training."""
        return scaled(self.ours.energy(), 1.0 / self.seeds)

    def inference_energy(self) -> Range:
        """Return joules of one inference."""
        return scaled(self.ours_once.energy(), 1.0 / self.inferences)

    def break_even(self) -> list[str]:
        """Say in sentences where the balance of energy tips."""
        factor = break_even_steps(self.ours, self.theirs)
        sentences = ["no number of steps is small enough"]
        if factor is not None:
            sentences = [f"fewer than {factor * self.steps:.3g} steps (took {self.steps:.3g})"]
        ours, theirs = self.ours.energy_sum(), self.theirs.energy_sum()
        shown = [swing.kind for swing in self.swings[:SHOWN_PRICES]]
        for kind in dict.fromkeys([*shown, "weight_write"]):
            sentences += _tipping_point(ours, theirs, kind)
        return sentences

    def break_even_times(self) -> list[str]:
        """Say in sentences where the balance of time tips."""
        ours, theirs = self.ours.latency_sum(), self.theirs.latency_sum()
        sentences = []
        for kind in {**ours.prices, **theirs.prices}:
            sentences += _tipping_point(ours, theirs, kind)
        return sentences or ["no single time decides"]


def _tipping_point(ours: Sum, theirs: Sum, kind: str) -> list[str]:
    """Say at which price the balance tips, unless that is far from the price there is."""
    price, factor = {**theirs.prices, **ours.prices}.get(kind), None
    if price is not None:
        factor = break_even_factor(ours, theirs, kind)
    if price is None or factor is None or not 1 / FAR <= factor <= FAR:
        return []
    side = "under" if difference(ours, theirs, kind) > 0 else "over"
    unit = price.unit[-1]  # of pJ, ns and mW: J, s and W
    now, even = (in_units(value, unit) for value in (price.value, factor * price.value))
    return [f"{kind} {side} {even} (is {now})"]


def check_prices(
    substrates: Sequence[str],
    chips: Mapping[str, ChipSettings],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
) -> None:
    """Refuse a technology that lacks the price of an event, or its time, before any work."""
    for substrate in substrates:
        events = (*CHIPS[substrate].events, *chips[substrate].more_events)
        for name in chosen or CHIPS[substrate].technologies:
            for kind in events:
                technologies[name].price("energy", kind)
                technologies[name].takes_time(kind)


def scaled(value: Range, factor: float) -> Range:
    """Return a range in other units."""
    return Range(factor * value.nominal, factor * value.low, factor * value.high)


@dataclass(frozen=True)
class Cost:
    """What EqProp alone takes on a substrate in a technology, where no rival is counted.

    Bills are of all seeds together: of training to the target, and of all test inferences.
    """

    substrate: str
    technology: Technology
    trained: Bill
    once: Bill
    seeds: int
    inferences: int
    steps: float
    """Mean steps of a sample over all its phases, until the target."""


Group = tuple[Outcome, ...]
"""The seeds of one contender."""


@dataclass(frozen=True)
class Summary:
    """Everything that the report says; a contender is the learner and the substrate it ran on."""

    task: str
    targets: Mapping[str, float]
    """By substrate: the accuracy to which all learners are trained there."""
    outcomes: Mapping[tuple[str, str], Group]
    contests: tuple[Contest, ...]
    costs: tuple[Cost, ...]
    """Of EqProp, on a network where no rival is counted; else none."""
    missing: tuple[str, ...]
    sweeps: Group
    networks: Mapping[str, Network]
    """By learner, and `sweep` for the smaller one of the sweeps."""


def common_targets(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return for each substrate the highest whole percent that every run there reached.

    On the validation part, after any epoch.
    """
    reached: dict[str, float] = {}
    for outcome in outcomes:
        best = max(point.accuracy for point in outcome.curve)
        reached[outcome.substrate] = min(best, reached.get(outcome.substrate, 1.0))
    return {name: math.floor(100 * value + 1e-9) / 100 for name, value in reached.items()}


def summarise(
    task: str,
    outcomes: Sequence[Outcome],
    sweeps: Sequence[Outcome],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
    target: float | None,
    networks: Mapping[str, Network],
) -> Summary:
    """Price every substrate in its technologies, at the accuracy that all reached on it."""
    goals = common_targets(outcomes)
    if target is not None:
        goals = dict.fromkeys(goals, target)
    groups: dict[tuple[str, str], Group] = {}
    for outcome in outcomes:
        key = outcome.learner, outcome.substrate
        groups[key] = (*groups.get(key, ()), outcome)
    late = [
        f"{o.learner} on {o.substrate} with seed {o.seed} never reached "
        f"{goals[o.substrate]:.0%} on the validation part"
        for o in outcomes
        if o.first_epoch(goals[o.substrate]) is None
    ]
    usable = {
        key
        for key, group in groups.items()
        if all(o.first_epoch(goals[o.substrate]) is not None for o in group)
    }
    contests = [
        _contest(groups["eqprop", substrate], groups[rival, substrate], technologies[name],
                 goals[substrate], networks)
        for substrate, chip in CHIPS.items()
        for name in chosen or chip.technologies
        for rival in RIVALS
        if {("eqprop", substrate), (rival, substrate)} <= usable
    ]  # fmt: skip
    costs = []
    if not any(rival in networks for rival in RIVALS):
        late.append("backprop and BPTT, which are not counted for this network")
        costs = [
            _cost(groups["eqprop", substrate], technologies[name], goals[substrate], networks)
            for substrate, chip in CHIPS.items()
            for name in chosen or chip.technologies
            if ("eqprop", substrate) in usable
        ]
    return Summary(
        task, goals, groups, tuple(contests), tuple(costs), tuple(late), tuple(sweeps), networks
    )


def _contest(
    ours: Group,
    theirs: Group,
    technology: Technology,
    goal: float,
    networks: Mapping[str, Network],
) -> Contest:
    bills = [bill for group in (ours, theirs) for bill in _bills(group, technology, goal, networks)]
    return Contest(
        ours[0].substrate, technology, theirs[0].learner, bills[0], bills[2], len(ours),
        bills[1], bills[3], sum(outcome.n_test for outcome in ours), _mean_steps(ours, goal),
    )  # fmt: skip


def _cost(
    group: Group, technology: Technology, goal: float, networks: Mapping[str, Network]
) -> Cost:
    trained, once = _bills(group, technology, goal, networks)
    tests = sum(outcome.n_test for outcome in group)
    steps = _mean_steps(group, goal)
    return Cost(group[0].substrate, technology, trained, once, len(group), tests, steps)


def _bills(
    group: Group, technology: Technology, goal: float, networks: Mapping[str, Network]
) -> tuple[Bill, Bill]:
    """Price training to the goal, and all inferences of the test parts."""
    design = design_of(group[0], networks[group[0].learner])
    epochs = [outcome.first_epoch(goal) or 0 for outcome in group]
    trained, once = OpCounts(), OpCounts()
    for outcome, epoch in zip(group, epochs, strict=True):
        trained += outcome.counts_at(epoch)
        once += OpCounts.from_rows(tuple(row) for row in outcome.inference)
    worn = max(o.curve[e - 1].most_writes for o, e in zip(group, epochs, strict=True))
    return Bill(technology, design, trained, worn), Bill(technology, design, once)


def _mean_steps(group: Group, goal: float) -> float:
    return float(np.mean([o.steps_until(o.first_epoch(goal) or 0) for o in group]))


def design_of(outcome: Outcome, network: Network) -> Design:
    """Return what the prices of a run scale with; a rival has the widths of its opponent."""
    settings = CHIPS[outcome.substrate].settings_from(outcome.settings[outcome.substrate])
    settles = outcome.learner == "eqprop" and settings.stays_analog
    tiles = settings.tiles(network)
    one_way = outcome.learner == "backprop"
    return Design(network, *settings.word_bits, outcome.memory, settles, tiles, one_way)


def accuracy_spread(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return mean and standard deviation of the test accuracy over seeds."""
    values = np.array([outcome.accuracy for outcome in outcomes])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan
