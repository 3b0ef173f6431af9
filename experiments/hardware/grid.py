"""A grid of settings: EqProp trained at every point of it, and what each point costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product

from engine.errors import EngineError
from engine.model.network import Network
from experiments.hardware.chosen import Chosen
from experiments.hardware.contest import Group, check_prices, design_of, in_time
from experiments.hardware.costs import scaled
from experiments.hardware.job import Job, Outcome, network_of
from experiments.hardware.pairing import check_paired, technologies_of
from experiments.hardware.sample_tables import training_samples
from experiments.hardware.settings import Settings, changed
from experiments.hardware.spread import mean_spread
from experiments.options import meant
from hw_sim.chips.catalogue import CHIPS
from hw_sim.counts import Amounts, OpCounts
from hw_sim.prices.bill import Bill
from hw_sim.prices.sums import Range
from hw_sim.prices.technology import Technology

MOST_POINTS = 400

Place = tuple[str, ...]
"""A value of every axis of a grid, as it was given."""


@dataclass(frozen=True)
class SettingsGrid:
    """Settings and the values of each; every combination is a point."""

    axes: Mapping[str, tuple[str, ...]]
    jobs: tuple[Job, ...]
    """Of every chip, point and seed; the label of a job is that of its point."""
    networks: Mapping[str, Network]
    """By label."""
    cells: str = ""
    """The preset that the crossbar is made of, if one was asked for."""

    @property
    def places(self) -> dict[str, Place]:
        """The points by label, in order."""
        return {label_of(self.axes, place): place for place in product(*self.axes.values())}


@dataclass(frozen=True)
class GridPoint:
    """A point of the grid on a chip in a technology: all seeds, trained to the end."""

    place: Place
    technology: Technology
    group: Group
    by_seed: tuple[Bill, ...]
    """Of each training."""
    once: Bill
    """Of all inferences of the test parts."""

    @property
    def substrate(self) -> str:
        """Name of the chip."""
        return self.group[0].substrate

    @property
    def worst(self) -> Bill:
        """The training that wrote one cell most."""
        return max(self.by_seed, key=lambda bill: bill.most_writes)

    @property
    def inferences(self) -> int:
        """Of all seeds together."""
        return sum(outcome.n_test for outcome in self.group)

    def training_energy(self) -> Range:
        """Return joules of one training sample, updates included."""
        samples = training_samples(self.by_seed[0])
        return scaled(mean_spread([b.energy_sum() for b in self.by_seed]).both, 1 / samples)

    def training_time(self) -> Range:
        """Return seconds of one training sample, updates included."""
        samples = training_samples(self.by_seed[0])
        return scaled(mean_spread([b.latency_sum() for b in self.by_seed]).both, 1 / samples)


def label_of(axes: Mapping[str, tuple[str, ...]], place: Place) -> str:
    """Return how a point is called: every setting with its value."""
    return ", ".join(f"{name} {value}" for name, value in zip(axes, place, strict=True))


def grid_of(
    axes: Mapping[str, tuple[str, ...]], chosen: Chosen, seeds: Sequence[int]
) -> SettingsGrid:
    """Return the grid that was asked for, or refuse what no chip has, before any work."""
    if chosen.own is not None and chosen.own.refused:
        raise EngineError(f"--sweep sets a chip, but {chosen.own.refused}")
    points = list(product(*axes.values()))
    if len(points) > MOST_POINTS:
        raise EngineError(f"--sweep has {len(points):,} points, expected at most {MOST_POINTS}.")
    substrates = _swept_chips(axes, chosen)
    check_paired(substrates, chosen.technologies, chosen.priced_in)
    jobs, networks = [], {}
    for substrate, place in product(substrates, points):
        settings = _settings_at(axes, place, substrate, chosen.settings)
        check_prices([substrate], settings.chips, chosen.technologies, chosen.priced_in)
        label, network = label_of(axes, place), chosen.options.network
        settings.chosen("eqprop", substrate, network).training(0)
        for seed in seeds:
            job = Job(chosen.task, "eqprop", substrate, seed, settings, label, network, chosen.own)
            jobs.append(job)
        networks[label] = network_of(jobs[-1])
    return SettingsGrid(axes, tuple(jobs), networks, chosen.options.cells or "")


def price_grid(
    grid: SettingsGrid,
    outcomes: Sequence[Outcome],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
) -> list[GridPoint]:
    """Return every point in every technology of its chip, in the order of the grid."""
    groups: dict[tuple[str, str], Group] = {}
    for outcome in outcomes:
        key = outcome.substrate, outcome.label
        groups[key] = (*groups.get(key, ()), outcome)
    return [
        _priced(grid, label, groups[substrate, label], technologies[name])
        for substrate in CHIPS
        for name in technologies_of(substrate, technologies, chosen)
        for label in grid.places
        if (substrate, label) in groups
    ]


def front(points: Sequence[GridPoint]) -> set[Place]:
    """Return the points than which none is both as accurate and as cheap to infer with."""
    measured = {
        p.place: (sum(o.accuracy for o in p.group) / len(p.group), p.once.energy_j / p.inferences)
        for p in points
    }
    return {
        place
        for place, (score, energy) in measured.items()
        if not any(
            a >= score and e <= energy and (a, e) != (score, energy) for a, e in measured.values()
        )
    }


def _priced(grid: SettingsGrid, label: str, group: Group, technology: Technology) -> GridPoint:
    once, bills = Amounts(), []
    network = grid.networks[label]
    for outcome in group:
        end = outcome.curve[-1]
        design = design_of(outcome, network)
        batch = outcome.settings["batch_size"]
        done = in_time(outcome, network, Amounts(dict(end.done)))
        bills.append(Bill(technology, design, done, end.most_writes, batch))
        answers = OpCounts.from_rows(tuple(row) for row in outcome.inference)
        once += in_time(outcome, network, Amounts(dict(answers)))
    inferred = Bill(technology, design_of(group[0], network), once)
    return GridPoint(grid.places[label], technology, group, tuple(bills), inferred)


def _swept_chips(axes: Mapping[str, tuple[str, ...]], chosen: Chosen) -> list[str]:
    """Return the chips that have every setting of the grid; refuse one that was asked for."""
    general = [f.name for f in fields(Settings) if f.name != "chips"]
    wanted = [name for name in axes if name not in general]
    having = [
        chip for chip in chosen.substrates if all(_has(chosen, chip, name) for name in wanted)
    ]
    asked = chosen.options.substrate or ()
    lacking = [chip for chip in chosen.substrates if chip not in having] if asked else []
    if lacking or not having:
        for name in wanted:
            if not any(_has(chosen, chip, name) for chip in CHIPS):
                known = [*general, *_chip_settings(chosen)]
                near = meant(name.rpartition(".")[2], known) or "."
                listed = f"known: {', '.join(known)}{near}"
                raise EngineError(f"--sweep {name}: there is no such setting; {listed}")
        which = f"the {lacking[0]} chip does not have" if lacking else "no chip has"
        raise EngineError(f"--sweep: {which} all of {', '.join(wanted)}.")
    return having


def _chip_settings(chosen: Chosen) -> list[str]:
    """Return the settings of all chips that are run."""
    parts = [chosen.settings.chips[chip] for chip in chosen.substrates]
    return list(dict.fromkeys(f.name for part in parts for f in fields(part) if f.name != "seed"))


def _has(chosen: Chosen, chip: str, name: str) -> bool:
    group, dot, own = name.rpartition(".")
    known = {f.name for f in fields(type(chosen.settings.chips[chip]))}
    return own in known and own != "seed" and (not dot or group == chip)


def _settings_at(
    axes: Mapping[str, tuple[str, ...]], place: Place, substrate: str, settings: Settings
) -> Settings:
    """Return the settings of a point, or say which of its values cannot be."""
    general = {f.name for f in fields(Settings)}
    assignments = [
        f"{name if name in general or '.' in name else f'{substrate}.{name}'}={value}"
        for name, value in zip(axes, place, strict=True)
    ]
    try:
        return changed(settings, assignments)
    except EngineError as error:
        sentence = str(error).removeprefix("--set ")
        raise EngineError(f"--sweep at {label_of(axes, place)}: {sentence}") from None
