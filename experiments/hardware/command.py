"""The work of the hardware command: what is measured, priced, explained, tuned and printed."""

import argparse
import platform
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import product
from pathlib import Path

from joblib import cpu_count
from rich.console import Console
from rich.text import Text

from engine.errors import EngineError
from experiments.hardware.compare import compare_reports
from experiments.hardware.contest import check_prices, summarise
from experiments.hardware.explain import explain
from experiments.hardware.job import Job, Outcome, make_rival, network_of
from experiments.hardware.measured_job import run_any
from experiments.hardware.own_network import (
    OwnNetwork,
    check_fits,
    find_network,
    runnable_substrates,
    token_task,
)
from experiments.hardware.published_tables import (
    differences,
    published_figures,
    published_parameters,
)
from experiments.hardware.report_files import print_summary, write_report
from experiments.hardware.settings import (
    CONV,
    LEARNERS,
    Settings,
    changed,
    learners_of,
)
from experiments.hardware.sweeps import sweep_jobs
from experiments.hardware.tune import choose, tuning_jobs
from experiments.options import FIRST_SEED
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import progress_bars
from experiments.reporting.terminal_table import rich_table
from experiments.shell import guarded, make_console
from experiments.tasks import (
    Task,
    TaskError,
    find_task,
    images_from_file,
    task_from_file,
)
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.digital import DIGITAL
from hw_sim.chips.spiking import SPIKING
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import (
    Technology,
    load_technologies,
    shipped_technologies,
)
from hw_sim.prices.yaml_file import load_yaml

SWEEP_SEEDS = 2


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
    console = make_console(140)

    def work() -> int:
        if options.compare:
            console.print(rich_table(compare_reports(*options.compare), console.width))
        elif options.explain:
            explain_price(options, console)
        elif options.published:
            print_published(console)
        elif options.tune:
            tune(options, console)
        else:
            measure(options, shlex.join(["python", "-m", "experiments.hardware", *given]), console)
        return 0

    mistakes = EngineError, TaskError, TechnologyError
    return guarded(work, console, mistakes, "Nothing was written.")


def measure(options: argparse.Namespace, command: str, console: Console) -> None:
    """Train every contender, price what it did, write the report and print its tables."""
    own = find_network(options.network)
    settings, task = _settings(options, own), _task(options, own)
    substrates = _substrates(options, own, settings)
    technologies, chosen = _technologies(options)
    check_prices(substrates, settings.chips, technologies, chosen)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    jobs = [
        Job(task, learner, substrate, seed, settings, "", options.network, own)
        for seed in seeds
        for substrate in substrates
        for learner in learners_of(options.network)
    ]
    sweeps = []
    if not (options.no_sweeps or (own and own.refused)):
        points = sweep_jobs(task, substrates, settings, seeds[:SWEEP_SEEDS], options.network)
        sweeps = [replace(job, own=own) for job in points]
    networks = {job.learner: network_of(job) for job in jobs}  # refuses what does not fit
    if sweeps:
        networks["sweep"] = network_of(sweeps[0])
    prepare_output(options.out, "report.html", "report.md", "report.json", "plots/energy.png")
    outcomes = run_all([*jobs, *sweeps], options.workers)
    target = None if options.target is None else options.target / 100
    main_runs, swept = outcomes[: len(jobs)], outcomes[len(jobs) :]
    summary = summarise(task.title, main_runs, swept, technologies, chosen, target, networks)
    write_report(summary, options.out, technologies, command, _machine())
    print_summary(summary, console)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)


def explain_price(options: argparse.Namespace, console: Console) -> None:
    """Print what is stated of a price, and what it decides on the first batch of the task."""
    own = find_network(options.network)
    settings, task = _settings(options, own), _task(options, own)
    substrates = _substrates(options, own, settings)
    technologies, chosen = _technologies(options)
    check_prices(substrates, settings.chips, technologies, chosen)
    given = task, settings, substrates, technologies, chosen, options.network
    for line in explain(options.explain, *given, FIRST_SEED, own):
        console.print(Text(line), soft_wrap=True)


def print_published(console: Console) -> None:
    """Print figures that others published beside the same by Settle, and what they rest on."""
    console.print(rich_table(published_figures(), console.width))
    for sentence in differences().items:
        console.print(Text(sentence))
    for table in published_parameters():
        console.print()
        console.print(rich_table(table, console.width))


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try the grid on the validation part and print the best of each contender."""
    own = find_network(options.network)
    settings, task = _settings(options, own), _task(options, own)
    found = tuning_jobs(task, _substrates(options, own, settings), settings, options.network)
    jobs = [replace(job, own=own) for job in found]
    for (learner, substrate), (label, accuracy) in choose(run_all(jobs, options.workers)).items():
        console.print(f"{learner} on {substrate}: {label} ({accuracy:.2%} on the validation part)")


def run_all(jobs: Sequence[Job], workers: int) -> list[Outcome]:
    """Do all jobs, at most `workers` at once, with a progress bar; return them in order."""
    outcomes: dict[int, Outcome] = {}
    with progress_bars() as show:
        show("training", 0, len(jobs), "")
        for k, outcome in as_finished(run_any, jobs, workers):
            outcomes[k] = outcome
            what = outcome.label or f"{outcome.learner}, {outcome.substrate}"
            show("training", len(outcomes), len(jobs), f"{what}: {outcome.accuracy:.1%}")
    return [outcomes[k] for k in range(len(jobs))]


def _settings(options: argparse.Namespace, own: OwnNetwork | None) -> Settings:
    settings = changed(own.settings if own else Settings(), options.set)
    if options.bits:
        if len(options.bits) > 2:
            raise EngineError(f"--bits takes one or two widths, not {len(options.bits)}.")
        weight, state = options.bits[0], options.bits[-1]
        widths = [f"{DIGITAL.name}.weight_bits={weight}", f"{DIGITAL.name}.state_bits={state}"]
        settings = changed(settings, widths[: len(options.bits)])
    if options.tiles:
        rows, columns = options.tiles
        sizes = [f"{CROSSBAR.name}.tile_rows={rows}", f"{CROSSBAR.name}.tile_columns={columns}"]
        settings = changed(settings, sizes)
    if options.neurons_per_core is not None:
        held = f"{SPIKING.name}.neurons_per_core={options.neurons_per_core}"
        settings = changed(settings, [held])
    for learner, chip in product(
        LEARNERS, CHIPS
    ):  # refuse what the engine refuses, before any work
        settings.chosen(learner, chip, options.network).training(0)
        make_rival(learner, settings)
    return settings


def _substrates(
    options: argparse.Namespace, own: OwnNetwork | None, settings: Settings
) -> list[str]:
    for name in options.substrate or ():
        if name not in CHIPS:
            raise EngineError(f"there is no substrate '{name}'; known: {', '.join(CHIPS)}.")
    asked = list(dict.fromkeys(options.substrate or ()))
    return runnable_substrates(own, asked, settings) if own else asked or list(CHIPS)


def _technologies(options: argparse.Namespace) -> tuple[dict[str, Technology], list[str] | None]:
    """Return all technologies, and the names that were asked for."""
    known, chosen = shipped_technologies(), []
    for text in options.technology or ():
        if text in known:
            chosen.append(text)
        elif text.endswith((".toml", ".yaml", ".yml")):
            own = _own_technologies(Path(text))
            known |= own
            chosen += list(own)
        else:
            raise TechnologyError(f"there is no technology '{text}'; known: {', '.join(known)}.")
    return known, chosen or None


def _own_technologies(path: Path) -> dict[str, Technology]:
    if path.suffix == ".toml":
        return load_technologies(path)
    found = load_yaml(path)
    return {found.name: found}


def _task(options: argparse.Namespace, own: OwnNetwork | None) -> Task:
    if own is not None and own.reads_tokens:
        if options.data:
            raise TaskError(f"network {own.title} reads tokens: it is run on sequences, not files.")
        return token_task(own)
    task = _read_task(options, own) if options.data else find_task(options.task)
    if own is not None:
        check_fits(own, task)
    return task


def _read_task(options: argparse.Namespace, own: OwnNetwork | None) -> Task:
    """Read a data file, of images where the network sees some."""
    if options.network == CONV or (own is not None and own.sees_images):
        return images_from_file(options.data)
    return task_from_file(options.data)


def _machine() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.system()}
    found |= {"machine": platform.machine(), "cores": str(cpu_count())}
    return found | {name: version(name) for name in ("numpy", "numba", "scipy", "scikit-learn")}
