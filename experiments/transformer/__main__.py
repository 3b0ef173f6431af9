"""Train energy transformers by EqProp and by backprop, and test them on sequences never seen.

Without options: reversal of 8 tokens from vocabularies of 10 and 50, three seeds, both methods.
Finished runs are kept in the output folder: a second call goes on where the first one stopped.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.console import Console
from rich.text import Text

from engine.compiled import NumbaBackend
from engine.errors import EngineError
from engine.estimator import Report
from engine.params import Params
from engine.progress import progress_bar
from experiments.machine import describe_machine
from experiments.options import positive
from experiments.records import write_text
from experiments.transformer.records import Outcome, load_outcome, run_job, save_outcome
from experiments.transformer.report import print_summary, write_report
from experiments.transformer.sequences import TASKS, SequenceError
from experiments.transformer.settings import FIRST_SEED, settings_for
from experiments.transformer.training import BACKPROP, EQPROP, Job, targets_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 1 if a goal was missed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    console = Console(markup=False)  # a path may hold brackets
    if not console.is_terminal:
        console.width = 120  # a file has room for the whole table
    try:
        outcomes = _finish(_jobs(options), options, console)
        command = shlex.join(["python", "-m", "experiments.transformer", *given])
        kinds = write_report(outcomes, options.out, command, describe_machine())
    except (EngineError, SequenceError, OSError) as error:
        console.print(Text.assemble(("Error:", "red"), f" {error}"), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("Stopped. Finished runs are kept; the same command goes on from here.")
        return 130
    print_summary(kinds, console)
    console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
    return 1 if any(kind.reached is False for kind in kinds) else 0


def _jobs(options: argparse.Namespace) -> list[Job]:
    """Return every run, first those of the first seed."""
    methods = [EQPROP] if options.no_control else [EQPROP, BACKPROP]
    tasks = list(TASKS) if options.task == ["all"] else list(dict.fromkeys(options.task))
    for name in tasks:
        if name not in TASKS:
            raise SequenceError(f"there is no task '{name}'; known: {', '.join(TASKS)}, all.")
    vocabularies = options.vocab or ([10] if options.quick else [10, 50])
    seeds = range(FIRST_SEED, FIRST_SEED + (options.seeds or (1 if options.quick else 3)))
    return [
        Job(task, method, seed, settings_for(vocabulary, length, options.quick))
        for seed, task, length, vocabulary, method in product(
            seeds, tasks, options.length, vocabularies, methods
        )
    ]


def _finish(jobs: list[Job], options: argparse.Namespace, console: Console) -> list[Outcome]:
    """Return the outcome of every job, from an earlier call or from a run now."""
    folder = options.out / "runs"
    kept: dict[str, Outcome] = {}
    for job in jobs:
        outcome = None if options.fresh else load_outcome(folder / f"{job.key}.json")
        if outcome is not None and outcome.settings == job.settings.as_dict():
            kept[job.key] = outcome
    if kept:
        console.print(f"{len(kept)} of {len(jobs)} runs were done before; --fresh repeats them.")
    todo = [job for job in jobs if job.key not in kept]
    for job, outcome in _run(todo, options):
        save_outcome(folder, job.key, outcome)
        kept[job.key] = outcome
    return [kept[job.key] for job in jobs]


def _run(todo: list[Job], options: argparse.Namespace) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job with its outcome as soon as it is done; runs share nothing but the cores."""
    if not todo:
        return
    live = options.out / "live"
    live.mkdir(parents=True, exist_ok=True)  # a folder that cannot be is found before the work
    for note in live.glob("*.json"):
        note.unlink()
    for job in todo:
        _compile(job)  # once and here, not in every worker; and a bad description is found
    with (
        progress_bar() as bar,
        parallel_config("loky", n_jobs=options.workers, inner_max_num_threads=1),
    ):
        task = bar.add_task("runs", total=len(todo), note="")
        calls = (delayed(_work)(k, job, live) for k, job in enumerate(todo))
        for k, outcome in Parallel(return_as="generator_unordered", batch_size=1)(calls):
            bar.update(task, advance=1, note=todo[k].key)
            yield todo[k], outcome


def _work(number: int, job: Job, live: Path) -> tuple[int, Outcome]:
    """Do a job in a worker, noting its progress in the folder `live`."""
    note = live / f"{job.key}.json"

    def watch(update: int, report: Report) -> None:
        if update % 50 == 0:
            state = {"update": update, "of": job.settings.updates, "cost": report.cost}
            with suppress(OSError):
                write_text(note, json.dumps(state))

    outcome = run_job(job, watch)
    with suppress(OSError):
        note.unlink()
    return number, outcome


def _compile(job: Job) -> None:
    """Run one step of everything that is compiled, and build the network of the job."""
    network = job.settings.network
    backend = NumbaBackend(network, Params(network, np.zeros(network.size, np.float32)))
    tokens = np.zeros((1, network.inputs), np.int64)
    clamped = backend.clamp(tokens, targets_of(network, tokens))
    settled = backend.relax(clamped, job.settings.beta, job.settings.nudged)
    backend.accumulate(clamped, settled, np.zeros(network.size, np.float32), energy=1.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.transformer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = ", ".join(TASKS)
    add("--task", nargs="+", default=["reversal"], metavar="NAME", help=f"{names}, or 'all'")
    add("--vocab", nargs="+", type=positive, metavar="N", help="sizes of the vocabulary (10 50)")
    add("--length", nargs="+", type=positive, default=[8], metavar="N", help="tokens (8)")
    add("--seeds", type=positive, metavar="N", help=f"seeds from {FIRST_SEED} on (3)")
    add("--quick", action="store_true", help="a smoke test: one seed, few updates, small test")
    add("--no-control", action="store_true", help="leave backprop out")
    add("--out", type=Path, default=Path("results/transformer"), help="folder for the report")
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add("--workers", type=positive, default=cpu_count(), metavar="N", help="runs at once (cores)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
