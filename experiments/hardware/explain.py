"""One price, explained: what is stated of it, with sources, and what it decides for one batch."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.errors import EngineError, NudgeWarning, shown
from engine.learning.training import fit, train_step
from experiments.hardware.contest import design_on
from experiments.hardware.job import Job, make_rival, make_substrate, network_of
from experiments.hardware.own_network import OwnNetwork
from experiments.hardware.pairing import technologies_of
from experiments.hardware.report_tables import price_text
from experiments.hardware.settings import RIVALS, Settings, learners_of
from experiments.tasks import Task
from hw_sim.counts import optimizer_counts
from hw_sim.prices.bill import Bill
from hw_sim.prices.break_even import sensitivities
from hw_sim.prices.price import Price
from hw_sim.prices.reading import ENTRIES
from hw_sim.prices.sums import Sum
from hw_sim.prices.technology import Technology

EXPLAINED = tuple(dict.fromkeys(name for names in ENTRIES.values() for name in names))
"""Everything that has a price."""
SUFFIXES = {"energy": "", "latency": " time", "power": " power"}
"""How the prices of a section are called in a sum."""


def explain(
    name: str,
    task: Task,
    settings: Settings,
    substrates: Sequence[str],
    technologies: Mapping[str, Technology],
    chosen: Sequence[str] | None,
    network: str,
    seed: int,
    own: OwnNetwork | None = None,
) -> list[str]:
    """Return lines about a price in every technology that states it."""
    if own is not None and own.refused:
        raise EngineError(f"--explain runs a batch on a chip, but {own.refused}")
    if name not in EXPLAINED:
        raise EngineError(
            f"nothing called {shown(name)} has a price; known: {', '.join(EXPLAINED)}."
        )
    lines = []
    for known in chosen or technologies:
        lines += _stated(name, technologies[known])
    for substrate in substrates:
        jobs = [
            Job(
                task,
                who,
                substrate,
                seed,
                settings.chosen(who, substrate, network),
                "",
                network,
                own,
            )
            for who in learners_of(network)
        ]
        names = technologies_of(substrate, technologies, chosen)
        priced = [technologies[known] for known in names]
        bills = [one_batch(job, priced[0]) for job in jobs]
        for technology in priced:
            again = [replace(bill, technology=technology) for bill in bills]
            lines += _decided(name, substrate, technology.name, again)
    return lines


def one_batch(job: Job, technology: Technology) -> Bill:
    """Train on the first batch of a task, and price it with its update."""
    settings, network, split = job.settings, network_of(job), job.task.load(job.seed)
    chip = make_substrate(job.substrate, network, settings, job.seed, job.own)
    rival, training = make_rival(job.learner, settings), settings.training(job.seed)
    training = replace(training, epochs=1, cap=None)
    x, y = split.x_train[: settings.batch_size], split.y_train[: settings.batch_size]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)
        fit(chip, x, y, training, step=rival or train_step)
    moments, chip_settings = training.optimizer.moments, settings.chips[job.substrate]
    memory = rival.words(chip, moments) if rival else chip.footprint.count(network, moments)
    design = design_on(chip_settings, network, memory, job.learner)
    counts = chip.counts + optimizer_counts(network, training.optimizer, 1)
    return Bill(technology, design, counts)


def _stated(name: str, technology: Technology) -> list[str]:
    """Every row that a technology states, and how its machine works the event off."""
    lines = []
    for section, group in technology.prices.items():
        if name in group:
            lines += [f"    {section}: {_row(price, section)}" for price in group[name].listed()]
    machine = technology.machine
    if name in machine.stages:
        stage = machine.stages[name]
        shared = f", shared by {stage.shared_by}" if stage.shared_by > 1 else ""
        lines.append(f"    machine: {stage.count} per {stage.per}{shared}")
    elif name in machine.behind:
        lines.append(f"    machine: behind {machine.behind[name]}, no time of its own")
    return [f"{technology.name}: {technology.title}", *lines] if lines else []


def _row(price: Price, section: str) -> str:
    low, value, high = (price_text(end, section) for end in (price.low, price.value, price.high))
    scales = "" if price.scales == "none" else f", grows with {price.scales} bits"
    return f"{price.name} {value} ({low} to {high}{scales}), {price.node}, {price.status}: " + (
        price.source
    )


def _decided(name: str, substrate: str, technology: str, bills: Sequence[Bill]) -> list[str]:
    """What a price comes to on a chip, and how far it moves EqProp against its rivals."""
    energies = [bill.energy_sum() for bill in bills]
    lines = []
    for section, suffix in SUFFIXES.items():
        called = name + suffix
        if called not in energies[0].prices:
            continue
        price, share = energies[0].prices[called], energies[0].share(called)
        low, value, high = (price_text(v, section) for v in (price.low, price.value, price.high))
        lines.append(
            f"    {called} is {value} ({low} to {high}), "
            f"{share / energies[0].nominal:.1%} of the energy"
        )
        lines += [
            f"        {_swing(called, rival, energies[0], theirs)}"
            for rival, theirs in zip(RIVALS, energies[1:], strict=False)  # none on some networks
        ]
    return [f"One batch of EqProp on {substrate}, {technology}:", *lines] if lines else []


def _swing(called: str, rival: str, ours: Sum, theirs: Sum) -> str:
    swing = next(s for s in sensitivities(ours, theirs) if s.kind == called)
    decides = "decides which is cheaper" if swing.decides else "does not decide"
    return (
        f"over {rival}: {ours.nominal / theirs.nominal:.3g}, {swing.low:.3g} to {swing.high:.3g} "
        f"over its range: {decides}"
    )
