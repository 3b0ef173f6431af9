"""Say what training and inference cost on simulated hardware, and when EqProp beats backprop.

Without options: digits on three substrates, eight seeds, with the sweeps over bit widths, over
Roff / Ron and over defects. Every price has a source and a range; --technology adds your own.

  python -m experiments.hardware --substrate digital --bits 8 6
  python -m experiments.hardware --network conv --no-sweeps
  python -m experiments.hardware --network deep --set layers=3 --no-sweeps
  python -m experiments.hardware --network 64-128-10 --substrate digital --no-sweeps
  python -m experiments.hardware --network saved.npz --data mine.csv --no-sweeps
  python -m experiments.hardware --network transformer
  python -m experiments.hardware --set crossbar.stuck=0.05 --set epochs=5 --no-sweeps
  python -m experiments.hardware --tiles 128x128 --neurons-per-core 64 --no-sweeps
  python -m experiments.hardware --technology my.toml --technology rram_crossbar
  python -m experiments.hardware --compare a/report.json b/report.json
  python -m experiments.hardware --explain mac --technology digital_45nm --substrate digital
  python -m experiments.hardware --published
"""

import argparse
import math
import platform
import shlex
import sys
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
    SPELLINGS,
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
    LOOPED,
    Settings,
    changed,
    learners_of,
)
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

FIRST_SEED = 42
SEEDS = 8
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


def _percentage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and up to 100")
    return value


def _tile_size(text: str) -> tuple[int, int]:
    rows, _, columns = text.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number of rows and of columns, such as 128x128"
        )
    return int(rows), int(columns)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.hardware", __doc__)
    add = parser.add_argument
    add("--task", default="digits", metavar="NAME", help=f"{', '.join(TASKS)} (digits)")
    add("--data", type=named_path, metavar="FILE", help="your own task: .npz with x and y, or .csv")
    add("--network", default=LOOPED, metavar="NETWORK", help=f"{', '.join(SPELLINGS)} (looped)")
    add("--substrate", action="append", metavar="NAME", help=f"{', '.join(CHIPS)} (all)")
    add("--bits", type=int, nargs="+", metavar="N", help="digital: bits of a weight, of a state")
    add("--tiles", type=_tile_size, metavar="RxC", help="crossbar: largest array, such as 128x128")
    add("--neurons-per-core", type=int, metavar="N", help="spiking: neurons on a core (32)")
    add(
        "--technology", action="append", metavar="NAME|FILE",
        help="price in this technology, my .toml, Accelergy's ERT or SANA-FE's .yaml in place of "
        + "; ".join(f"{c.name}: {', '.join(c.technologies)}" for c in CHIPS.values()),
    )  # fmt: skip
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="any setting, such as hidden=32 or crossbar.stuck=0.1")  # fmt: skip
    add("--target", type=_percentage, metavar="PERCENT",
        help="accuracy (one that all learners of a seed reach and keep)")  # fmt: skip
    add("--seeds", type=seed_count, default=SEEDS, metavar="N",
        help=f"seeds from {FIRST_SEED} on ({SEEDS})")  # fmt: skip
    add("--no-sweeps", action="store_true", help="leave the sweeps out")
    add("--tune", action="store_true", help="choose lr and beta on the validation part instead")
    add("--explain", metavar="PRICE",
        help="print one price, such as mac, conversion or memory_bit: rows, source, status, and "
        "what it decides for a batch; trains nothing else and writes nothing")  # fmt: skip
    add("--published", action="store_true",
        help="print published figures of chips and the same by Settle; trains nothing")  # fmt: skip
    add("--compare", type=Path, nargs=2, metavar="JSON", help="compare two saved reports")
    add_out(parser, "results/hardware")
    add_workers(parser, "runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
