"""What the runs show once they are priced: EqProp against its rivals at equal accuracy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.model.network import Network
from experiments.hardware.costs import Contest, Cost
from experiments.hardware.curve import counts_until, steps_until, writes_until
from experiments.hardware.job import Outcome
from experiments.hardware.pairing import technologies_of
from experiments.hardware.settings import RIVALS
from experiments.hardware.target import Targets, common_targets, target_of, update_reached
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.settings import ChipSettings
from hw_sim.chips.settling import in_time_constants
from hw_sim.counts import Amounts, OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import Technology


def check_prices(
    substrates: Sequence[str],
    chips: Mapping[str, ChipSettings],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
) -> None:
    """Refuse a technology that lacks prices, times or areas that are needed, before any work.

    All energies that are missing on all its chips are named at once, then all times and areas.
    """
    events: dict[str, dict[str, None]] = {}
    parts: dict[str, dict[str, None]] = {}
    for substrate in substrates:
        kinds = (*CHIPS[substrate].events, *chips[substrate].more_events)
        cells = ("cell",) if "cell_read" in kinds else ()
        held = ("neuron", "memory_bit", *cells, *chips[substrate].more_parts)
        for name in technologies_of(substrate, technologies, chosen):
            events.setdefault(name, {}).update(dict.fromkeys(kinds))
            parts.setdefault(name, {}).update(dict.fromkeys(held))
    for name, kinds_needed in events.items():
        technology = technologies[name]
        technology.check_priced("energy", kinds_needed)
        technology.check_timed(kinds_needed)
        if technology.prices["area"]:
            technology.check_priced("area", parts[name])


Group = tuple[Outcome, ...]
"""The seeds of one contender."""


@dataclass(frozen=True)
class Summary:
    """Everything that the report says; a contender is the learner and the substrate it ran on."""

    task: str
    targets: Targets
    """The accuracy to which all learners of a seed are trained."""
    outcomes: Mapping[tuple[str, str], Group]
    contests: tuple[Contest, ...]
    costs: tuple[Cost, ...]
    """Of EqProp, on a network where no rival is counted; else none."""
    missing: tuple[str, ...]
    sweeps: Group
    networks: Mapping[str, Network]
    """By learner, and `sweep` for the smaller one of the sweeps."""
    cells: str = ""
    """The preset that the crossbar is made of, if one was asked for."""

    @property
    def main_runs(self) -> list[Outcome]:
        """All runs but those of the sweeps."""
        return [outcome for group in self.outcomes.values() for outcome in group]


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
        f"{target_of(o, goals):.1%} on the validation part"
        for o in outcomes
        if update_reached(o, goals) is None
    ]
    usable = {
        key
        for key, group in groups.items()
        if all(update_reached(o, goals) is not None for o in group)
    }
    contests = [
        _contest(groups["eqprop", substrate], groups[rival, substrate], technologies[name],
                 goals, networks)
        for substrate in CHIPS
        for name in technologies_of(substrate, technologies, chosen)
        for rival in RIVALS
        if {("eqprop", substrate), (rival, substrate)} <= usable
    ]  # fmt: skip
    costs = []
    if not any(rival in networks for rival in RIVALS):
        late.append("backprop and BPTT, which are not counted for this network")
        costs = [
            _cost(groups["eqprop", substrate], technologies[name], goals, networks)
            for substrate in CHIPS
            for name in technologies_of(substrate, technologies, chosen)
            if ("eqprop", substrate) in usable
        ]
    return Summary(
        task, goals, groups, tuple(contests), tuple(costs), tuple(late), tuple(sweeps), networks
    )


def _contest(
    ours: Group,
    theirs: Group,
    technology: Technology,
    goals: Targets,
    networks: Mapping[str, Network],
) -> Contest:
    us, them = (_bills(group, technology, goals, networks) for group in (ours, theirs))
    return Contest(
        ours[0].substrate, technology, theirs[0].learner, us.trained, them.trained,
        tuple(zip(us.by_seed, them.by_seed, strict=True)), us.once, them.once,
        sum(outcome.n_test for outcome in ours), _mean_steps(ours, goals),
    )  # fmt: skip


def _cost(
    group: Group, technology: Technology, goals: Targets, networks: Mapping[str, Network]
) -> Cost:
    bills = _bills(group, technology, goals, networks)
    tests = sum(outcome.n_test for outcome in group)
    steps = _mean_steps(group, goals)
    return Cost(
        group[0].substrate, technology, bills.trained, bills.once, bills.by_seed, tests, steps
    )


class _Bills(NamedTuple):
    trained: Bill
    """Of all seeds, until the goal."""
    once: Bill
    """Of all inferences of the test parts."""
    by_seed: tuple[Bill, ...]
    """Of each training alone."""


def _bills(
    group: Group, technology: Technology, goals: Targets, networks: Mapping[str, Network]
) -> _Bills:
    """Price training to the goal, and all inferences of the test parts."""
    design = design_of(group[0], networks[group[0].learner])
    done, once, by_seed = Amounts(), Amounts(), []
    for outcome in group:
        ended = _reached(outcome, goals)
        counts, worn = counts_until(outcome.curve, ended), writes_until(outcome.curve, ended)
        counts = in_time(outcome, design.network, counts)
        by_seed.append(Bill(technology, design, counts, worn))
        done += counts
        inferred = OpCounts.from_rows(tuple(row) for row in outcome.inference)
        once += in_time(outcome, design.network, inferred)
    worn, batch = max(bill.most_writes for bill in by_seed), group[0].settings["batch_size"]
    trained = Bill(technology, design, done, worn, batch)
    return _Bills(trained, Bill(technology, design, once), tuple(by_seed))


def in_time(outcome: Outcome, network: Network, counts: OpCounts | Amounts) -> Amounts:
    """Return counts of a run, with its time constants for steps where states stay analog."""
    if outcome.settling is None:
        return Amounts(dict(counts))
    return in_time_constants(network, counts, outcome.settling)


def _mean_steps(group: Group, goals: Targets) -> float:
    return float(np.mean([steps_until(o.curve, _reached(o, goals)) for o in group]))


def _reached(outcome: Outcome, goals: Targets) -> float:
    """Return the update at which a run that is priced reached its goal."""
    update = update_reached(outcome, goals)
    assert update is not None, "only runs that reached the goal are priced"
    return update


def design_of(outcome: Outcome, network: Network) -> Design:
    """Return what the prices of a run scale with; a rival has the widths of its opponent."""
    settings = CHIPS[outcome.substrate].settings_from(outcome.settings[outcome.substrate])
    return design_on(settings, network, outcome.memory, outcome.learner)


def design_on(settings: ChipSettings, network: Network, memory: WordCount, learner: str) -> Design:
    """Return a network on a chip; the states of a rival are never analog."""
    settles = learner == "eqprop" and settings.stays_analog
    tiles, one_way = (settings.tiles(network), settings.tile), learner == "backprop"
    return Design(network, *settings.word_bits, memory, settles, *tiles, one_way)


def accuracy_spread(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return mean and standard deviation of the test accuracy over seeds."""
    return mean_and_deviation([outcome.accuracy for outcome in outcomes])


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over seeds and their deviation, NaN for a single one."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
