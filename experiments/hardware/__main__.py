"""Say what training and inference cost on simulated hardware, and when EqProp beats backprop.

Without options: digits on three substrates, three seeds, with the sweeps over bit widths, over
Roff / Ron and over defects. Every price has a source and a range; --technology adds your own.

  python -m experiments.hardware --substrate digital --bits 8 6
  python -m experiments.hardware --network conv --no-sweeps
  python -m experiments.hardware --network deep --set layers=3 --no-sweeps
  python -m experiments.hardware --set crossbar.stuck=0.05 --set epochs=5 --no-sweeps
  python -m experiments.hardware --technology my.toml --technology rram_crossbar
  python -m experiments.hardware --compare a/report.json b/report.json
  python -m experiments.hardware --explain mac --technology digital_45nm --substrate digital
"""

import argparse
import math
import platform
import shlex
import sys
from collections.abc import Sequence
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
from experiments.hardware.job import Job, Outcome, make_rival, network_of, run_job
from experiments.hardware.report_files import print_summary, write_report
from experiments.hardware.settings import CONV, LEARNERS, LOOPED, NETWORKS, Settings, changed
from experiments.hardware.sweeps import sweep_jobs
from experiments.hardware.tune import choose, tuning_jobs
from experiments.options import (
    add_out,
    add_workers,
    command_parser,
    named_path,
    parse,
    seed_count,
)
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import progress_bars
from experiments.reporting.terminal_table import rich_table
from experiments.shell import guarded, make_console
from experiments.tasks import (
    TASKS,
    Task,
    TaskError,
    find_task,
    images_from_file,
    task_from_file,
)
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.digital import DIGITAL
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.sanafe_architecture import load_architecture
from hw_sim.prices.technology import (
    Technology,
    load_technologies,
    shipped_technologies,
)

FIRST_SEED = 42
SWEEP_SEEDS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, given = parse(_parser(), arguments)
    console = make_console(140)

    def work() -> int:
        if options.compare:
            console.print(rich_table(compare_reports(*options.compare), console.width))
        elif options.explain:
            explain_price(options, console)
        elif options.tune:
            tune(options, console)
        else:
            measure(options, shlex.join(["python", "-m", "experiments.hardware", *given]), console)
        return 0

    mistakes = EngineError, TaskError, TechnologyError
    return guarded(work, console, mistakes, "Nothing was written.")


def measure(options: argparse.Namespace, command: str, console: Console) -> None:
    """Train every contender, price what it did, write the report and print its tables."""
    settings, substrates = _settings(options), _substrates(options)
    technologies, chosen = _technologies(options)
    check_prices(substrates, settings.chips, technologies, chosen)
    task = _task(options)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    learners = NETWORKS[options.network]
    jobs = [
        Job(task, learner, substrate, seed, settings, network=options.network)
        for seed in seeds
        for substrate in substrates
        for learner in learners
    ]
    sweeps = []
    if not options.no_sweeps:
        sweeps = sweep_jobs(task, substrates, settings, seeds[:SWEEP_SEEDS], options.network)
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
    substrates = _substrates(options)
    technologies, chosen = _technologies(options)
    settings = _settings(options)
    check_prices(substrates, settings.chips, technologies, chosen)
    given = _task(options), settings, substrates, technologies, chosen, options.network
    for line in explain(options.explain, *given, FIRST_SEED):
        console.print(Text(line), soft_wrap=True)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Try the grid on the validation part and print the best of each contender."""
    given = _task(options), _substrates(options), _settings(options)
    jobs = tuning_jobs(*given, options.network)
    for (learner, substrate), (label, accuracy) in choose(run_all(jobs, options.workers)).items():
        console.print(f"{learner} on {substrate}: {label} ({accuracy:.2%} on the validation part)")


def run_all(jobs: Sequence[Job], workers: int) -> list[Outcome]:
    """Do all jobs, at most `workers` at once, with a progress bar; return them in order."""
    outcomes: dict[int, Outcome] = {}
    with progress_bars() as show:
        show("training", 0, len(jobs), "")
        for k, outcome in as_finished(run_job, jobs, workers):
            outcomes[k] = outcome
            what = outcome.label or f"{outcome.learner}, {outcome.substrate}"
            show("training", len(outcomes), len(jobs), f"{what}: {outcome.accuracy:.1%}")
    return [outcomes[k] for k in range(len(jobs))]


def _settings(options: argparse.Namespace) -> Settings:
    settings = changed(Settings(), options.set)
    if options.bits:
        if len(options.bits) > 2:
            raise EngineError(f"--bits takes one or two widths, not {len(options.bits)}.")
        weight, state = options.bits[0], options.bits[-1]
        widths = [f"{DIGITAL.name}.weight_bits={weight}", f"{DIGITAL.name}.state_bits={state}"]
        settings = changed(settings, widths[: len(options.bits)])
    for learner, chip in product(
        LEARNERS, CHIPS
    ):  # refuse what the engine refuses, before any work
        settings.chosen(learner, chip, options.network).training(0)
        make_rival(learner, settings)
    return settings


def _substrates(options: argparse.Namespace) -> list[str]:
    for name in options.substrate or ():
        if name not in CHIPS:
            raise EngineError(f"there is no substrate '{name}'; known: {', '.join(CHIPS)}.")
    return list(dict.fromkeys(options.substrate or CHIPS))


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
    found = load_architecture(path)
    return {found.name: found}


def _task(options: argparse.Namespace) -> Task:
    if not options.data:
        return find_task(options.task)
    read = images_from_file if options.network == CONV else task_from_file
    return read(options.data)


def _machine() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.system()}
    found |= {"machine": platform.machine(), "cores": str(cpu_count())}
    return found | {name: version(name) for name in ("numpy", "numba", "scipy", "scikit-learn")}


def _percentage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and up to 100")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.hardware", __doc__)
    add = parser.add_argument
    add("--task", default="digits", metavar="NAME", help=f"{', '.join(TASKS)} (digits)")
    add("--data", type=named_path, metavar="FILE", help="your own task: .npz with x and y, or .csv")
    add(
        "--network",
        choices=list(NETWORKS),
        default=LOOPED,
        help="looped; deep: layers one after the other; conv: two layers of pixels (looped)",
    )
    add("--substrate", action="append", metavar="NAME", help=f"{', '.join(CHIPS)} (all)")
    add("--bits", type=int, nargs="+", metavar="N", help="digital: bits of a weight, of a state")
    add(
        "--technology", action="append", metavar="NAME|FILE",
        help="price in this technology, .toml file or SANA-FE .yaml in place of "
        + "; ".join(f"{c.name}: {', '.join(c.technologies)}" for c in CHIPS.values()),
    )  # fmt: skip
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="any setting, such as hidden=32 or crossbar.stuck=0.1")  # fmt: skip
    add("--target", type=_percentage, metavar="PERCENT",
        help="accuracy (the highest that all learners of a substrate reach)")  # fmt: skip
    add("--seeds", type=seed_count, default=3, metavar="N", help=f"seeds from {FIRST_SEED} on (3)")
    add("--no-sweeps", action="store_true", help="leave the sweeps out")
    add("--tune", action="store_true", help="choose lr and beta on the validation part instead")
    add("--explain", metavar="PRICE",
        help="print one price, such as mac, conversion or memory_bit: rows, source, status, and "
        "what it decides for a batch; trains nothing else and writes nothing")  # fmt: skip
    add("--compare", type=Path, nargs=2, metavar="JSON", help="compare two saved reports")
    add_out(parser, "results/hardware")
    add_workers(parser, "runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
