"""The work of the benchmark command: what is measured, compared, written and printed."""

import argparse
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from joblib import cpu_count
from rich.console import Console

from engine.errors import EngineError
from experiments.benchmark.against import report as against_report
from experiments.benchmark.against.compare import QUICK_ROUNDS, Duel, Rounds, compare_versions
from experiments.benchmark.against.report import (
    ComparisonResults,
    print_comparison,
    write_comparison,
)
from experiments.benchmark.against.versions import ROOT, Version, VersionError, checked_out
from experiments.benchmark.convolution import CONTESTS as IMAGE_CONTESTS
from experiments.benchmark.convolution import (
    SMALL,
    SWEEPS,
    find_images,
    measure_images,
    measure_sweeps,
)
from experiments.benchmark.defaults import measure_defaults
from experiments.benchmark.epochs import CONTESTS, DIGITS, find_contest, measure_epochs
from experiments.benchmark.floor import Grid, measure_floor
from experiments.benchmark.goals import Measurements
from experiments.benchmark.growth import (
    QUICK,
    WHOLE,
    fit_exponents,
    measure_first_step,
    measure_growth,
)
from experiments.benchmark.parallel import QUICK as QUICK_PARALLEL
from experiments.benchmark.parallel import ParallelSize, measure_parallel
from experiments.benchmark.prediction import ROUNDS, measure_prediction
from experiments.benchmark.report import BenchmarkResults, print_results, write_report
from experiments.benchmark.timing import TimingEffort
from experiments.output import prepare_output
from experiments.progress import progress_bars
from experiments.shell import guarded, make_console
from experiments.tasks import TASKS, TaskError

QUICK_GRID = Grid((64, 256), (16, 128), ((256, 128),), TimingEffort(0.2, fewest=3, most=20))
QUICK_CONTESTS = (DIGITS,)
QUICK_IMAGES = (SMALL,)
FILES = ("report.html", "report.md", "results.json", "plots/benchmark.png")
"""Of the report, one for each folder at least."""


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code."""
    command, console = shlex.join(["python", "-m", "experiments.benchmark", *given]), make_console()

    def work() -> int:
        if options.against is not None:
            return _compare(options, command, console)
        prepare_output(options.out, *FILES)
        with progress_bars() as show:
            results = run_parts(
                options,
                command,
                lambda note: show("measuring", 0, None, note),
            )
        write_report(results, options.out)
        print_results(results, console)
        console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
        return 0

    return guarded(work, console, (EngineError, TaskError, VersionError), "Nothing was written.")


def _compare(options: argparse.Namespace, command: str, console: Console) -> int:
    """Time another version and this one in turns."""
    prepare_output(options.out, *against_report.FILES)
    rounds, threads = QUICK_ROUNDS if options.quick else Rounds(), options.threads[0]
    with checked_out(options.against) as old:
        new = Version("this checkout", ROOT)
        with progress_bars() as show:
            rows = compare_versions(Duel(old, new, rounds, threads, partial(show, "comparing")))
    results = ComparisonResults(
        command, _machine([threads]), old.title, new.title, threads, rounds.count, rows
    )
    write_comparison(results, options.out)
    print_comparison(results, console)
    console.print(f"The whole report: {options.out / 'against.html'}", soft_wrap=True)
    return 0


def run_parts(
    options: argparse.Namespace, command: str, on_note: Callable[[str], None]
) -> BenchmarkResults:
    """Measure the parts that were asked for."""
    measured, notes, points = Measurements(), list[str](), []
    threads = list(dict.fromkeys(options.threads))
    if "floor" in options.part:
        grid = QUICK_GRID if options.quick else Grid()
        cells, notes = measure_floor(grid, threads, on_note)
        measured = replace(measured, cells=cells)
    if {"epoch", "defaults", "prediction"} & set(options.part):
        contest, split, absent = find_contest(QUICK_CONTESTS if options.quick else CONTESTS)
        notes += absent
        title = TASKS[contest.task].title
        measured = replace(measured, task=title, accuracy=contest.accuracy)
        if "epoch" in options.part:
            races = measure_epochs(contest, split, threads, on_note)
            measured = replace(measured, races=races)
        if "defaults" in options.part:
            found = measure_defaults(contest, split, threads, on_note)
            measured = replace(measured, defaults=found)
        if "prediction" in options.part:
            rounds = QUICK_GRID.effort.fewest if options.quick else ROUNDS
            answers = measure_prediction(contest, split, on_note, rounds)
            measured = replace(measured, predictions=answers)
    if "growth" in options.part:
        sweep = QUICK if options.quick else WHOLE
        points = measure_growth(sweep, threads[0], on_note)
        first = measure_first_step(sweep, on_note)
        measured = replace(measured, exponents=fit_exponents(points), first_step=first)
    if "convolution" in options.part:
        contests, absent = find_images(QUICK_IMAGES if options.quick else IMAGE_CONTESTS)
        notes += absent
        images = [race for c, s in contests for race in measure_images(c, s, threads, on_note)]
        swept = measure_sweeps(SWEEPS[:2] if options.quick else SWEEPS, threads[0], on_note)
        measured = replace(measured, images=images, sweeps=swept)
    if "parallel" in options.part:
        size = QUICK_PARALLEL if options.quick else ParallelSize()
        measured = replace(measured, parallel=measure_parallel(size, on_note))
    return BenchmarkResults(command, _machine(threads), measured, points, notes)


def _machine(threads: Sequence[int]) -> dict[str, str]:
    found = {"processor": _processor(), "cores": str(cpu_count())}
    found |= {"threads": ", ".join(map(str, threads)), "python": platform.python_version()}
    return found | {name: version(name) for name in ("numpy", "scipy", "numba", "torch")}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
