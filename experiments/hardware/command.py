"""The work of the hardware command: what is measured, swept, compared, explained and tuned."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from engine.errors import EngineError
from experiments.contest.finish import KEPT
from experiments.hardware.chosen import Chosen
from experiments.hardware.compare import compare_reports, write_comparison
from experiments.hardware.contest import summarise
from experiments.hardware.explain import explain
from experiments.hardware.grid import grid_of, price_grid
from experiments.hardware.grid_report import SWEEP_FILES, grid_tables, write_grid
from experiments.hardware.job import Job, Outcome, network_of
from experiments.hardware.kept_runs import RUN_FILE, Keep
from experiments.hardware.measured_job import run_any
from experiments.hardware.published_tables import (
    differences,
    figure_values,
    published_figures,
    published_parameters,
)
from experiments.hardware.report_files import FILES, print_summary, write_report
from experiments.hardware.settings import learners_of
from experiments.hardware.sweeps import sweep_jobs
from experiments.hardware.tune import choose, tuning_jobs
from experiments.machine import describe_machine
from experiments.options import FIRST_SEED
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import progress_bars
from experiments.records import write_text
from experiments.reporting.json_page import render_json
from experiments.reporting.terminal_table import rich_table
from experiments.shell import guarded, make_console
from experiments.tasks import TaskError
from hw_sim.prices.checks import TechnologyError

SWEEP_SEEDS = 2
PUBLISHED = "published.json"


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
    console = make_console(140)
    command = shlex.join(["python", "-m", "experiments.hardware", *given])
    reads = bool(options.compare or options.explain or options.published)

    def work() -> int:
        if options.compare:
            compare(options, console)
        elif options.explain:
            explain_price(options, console)
        elif options.published:
            published(options, command, console)
        elif options.tune:
            tune(options, console)
        elif options.sweep:
            sweep(options, command, console)
        else:
            measure(options, command, console)
        return 0

    mistakes = EngineError, TaskError, TechnologyError
    return guarded(work, console, mistakes, "Nothing was written." if reads else KEPT)


def measure(options: argparse.Namespace, command: str, console: Console) -> None:
    """Train every contender, price what it did, write the report and print its tables."""
    chosen, network = Chosen(options), options.network
    chosen.check()
    own, settings, task = chosen.own, chosen.settings, chosen.task
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    jobs = [
        Job(task, learner, substrate, seed, settings, "", network, own)
        for seed in seeds
        for substrate in chosen.substrates
        for learner in learners_of(network)
    ]
    sweeps = []
    if not (options.no_sweeps or (own and own.refused)):
        points = sweep_jobs(task, chosen.substrates, settings, seeds[:SWEEP_SEEDS], network)
        sweeps = [replace(job, own=own) for job in points]
    networks = {job.learner: network_of(job) for job in jobs}  # refuses what does not fit
    if sweeps:
        networks["sweep"] = network_of(sweeps[0])
    prepare_output(options.out, *FILES)
    outcomes = run_all([*jobs, *sweeps], options, chosen.data, console)
    target = None if options.target is None else options.target / 100
    summary = summarise(
        task.title, outcomes[: len(jobs)], outcomes[len(jobs) :], chosen.technologies,
        chosen.priced_in, target, networks,
    )  # fmt: skip
    summary = replace(summary, cells=options.cells or "")
    write_report(summary, options.out, chosen.technologies, command, describe_machine())
    print_summary(summary, console)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)


def sweep(options: argparse.Namespace, command: str, console: Console) -> None:
    """Train EqProp at every point of a grid of settings, price it, and write a report."""
    chosen = Chosen(options)
    grid = grid_of(dict(options.sweep), chosen, range(FIRST_SEED, FIRST_SEED + options.seeds))
    prepare_output(options.out, *SWEEP_FILES)
    outcomes = run_all(list(grid.jobs), options, chosen.data, console)
    points = price_grid(grid, outcomes, chosen.technologies, chosen.priced_in)
    document = write_grid(grid, points, options.out, command, describe_machine())
    for sentence in document.lead:
        console.print(Text(sentence))
    for table in grid_tables(grid, points):
        console.print(rich_table(table, console.width))
    console.print(f"The whole report: {options.out / 'sweep.html'}", soft_wrap=True)


def compare(options: argparse.Namespace, console: Console) -> None:
    """Print two saved reports side by side, and write the same as a page."""
    tables = compare_reports(*options.compare)
    write_comparison(tables, options.compare, options.out)
    for table in tables[:-1]:
        console.print(rich_table(table, console.width))
    console.print(f"As a page: {options.out / 'comparison.html'}", soft_wrap=True)


def explain_price(options: argparse.Namespace, console: Console) -> None:
    """Print what is stated of a price, and what it decides on the first batch of the task."""
    chosen = Chosen(options)
    chosen.check()
    given = chosen.task, chosen.settings, chosen.substrates, chosen.technologies, chosen.priced_in
    for line in explain(options.explain, *given, options.network, FIRST_SEED, chosen.own):
        console.print(Text(line), soft_wrap=True)


def published(options: argparse.Namespace, command: str, console: Console) -> None:
    """Print figures that others published beside the same by Settle, and what they rest on."""
    prepare_output(options.out, PUBLISHED)
    console.print(rich_table(published_figures(), console.width))
    for sentence in differences().items:
        console.print(Text(sentence))
    for table in published_parameters():
        console.print()
        console.print(rich_table(table, console.width))
    content = {"command": command, "figures": figure_values()}
    write_text(options.out / PUBLISHED, render_json(content))
    console.print(f"Written: {options.out / PUBLISHED}", soft_wrap=True)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try the grid on the validation part and print the best of each contender."""
    chosen = Chosen(options)
    found = tuning_jobs(chosen.task, chosen.substrates, chosen.settings, options.network)
    jobs = [replace(job, own=chosen.own) for job in found]
    prepare_output(options.out, RUN_FILE)
    best = choose(run_all(jobs, options, chosen.data, console))
    for (learner, substrate), (label, accuracy) in best.items():
        console.print(f"{learner} on {substrate}: {label} ({accuracy:.2%} on the validation part)")


def run_all(
    jobs: Sequence[Job], options: argparse.Namespace, data: str, console: Console
) -> list[Outcome]:
    """Do the jobs that are not done yet, with a progress bar, and keep them; return all in order.

    `data` is the checksum of the user's data.
    """
    keep = Keep(options.out / "runs", data, options.fresh)
    kept = {k: keep.found(job) for k, job in enumerate(jobs)}
    outcomes = {k: outcome for k, outcome in kept.items() if outcome is not None}
    if outcomes:
        done = f"{len(outcomes)} of {len(jobs)} runs were done before"
        console.print(f"{done}; --fresh repeats them.")
    todo = [k for k in range(len(jobs)) if k not in outcomes]
    with progress_bars() as show:
        show("training", len(outcomes), len(jobs), "")
        for place, outcome in as_finished(run_any, [jobs[k] for k in todo], options.workers):
            keep.save(jobs[todo[place]], outcome)
            outcomes[todo[place]] = outcome
            what = outcome.label or f"{outcome.learner}, {outcome.substrate}"
            show("training", len(outcomes), len(jobs), f"{what}: {outcome.accuracy:.1%}")
    return [outcomes[k] for k in range(len(jobs))]
