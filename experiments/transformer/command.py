"""The work of the transformer command: runs are planned, done, kept and reported."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.model.params import Params
from experiments.machine import describe_machine
from experiments.options import FIRST_SEED
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import Show, progress_bars, repeating
from experiments.shell import guarded, make_console
from experiments.transformer.outcomes import TransformerOutcome, load_outcome, run_job, save_outcome
from experiments.transformer.parts import readout_of
from experiments.transformer.report import print_summary, write_report
from experiments.transformer.sequences import SEEDS, TASKS, SequenceError
from experiments.transformer.settings import settings_for
from experiments.transformer.training import BACKPROP, EQPROP, TransformerJob

COMPARED = (("reversal", 10, 8), ("reversal", 50, 8))
"""Task, vocabulary and length of what is run with every seed and by both methods."""
ONCE = (("reversal", 10, 16), ("copy", 10, 8), ("shift", 10, 8), ("sort", 10, 8))
"""What is run with one seed by EqProp."""
FILES = ("report.html", "report.md", "results.json", "plots/attention.png")
"""Of the report, one for each folder at least."""
NOTED = 20
"""Updates after which a worker notes how far it is."""
POLL_SECONDS = 1.0


def run(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Do what the options ask for; return the exit code: 1 if a goal was missed."""
    console = make_console()

    def work() -> int:
        jobs = _jobs(options)
        prepare_output(options.out, *FILES, *(f"runs/{job.key}.json" for job in jobs[:1]))
        outcomes = _finish(jobs, options, console)
        command = shlex.join(["python", "-m", "experiments.transformer", *given])
        kinds = write_report(outcomes, options.out, command, describe_machine())
        print_summary(kinds, console)
        console.print(f"The whole report: {options.out / 'report.html'}", soft_wrap=True)
        missed = any(kind.reached is False or kind.faithful is False for kind in kinds)
        return 1 if missed else 0

    kept = "Finished runs are kept; the same command goes on from here."
    return guarded(work, console, (EngineError, SequenceError), kept)


def _jobs(options: argparse.Namespace) -> list[TransformerJob]:
    """Return every run, the longest first: so the last ones do not keep one core alone."""
    seeds = range(FIRST_SEED, FIRST_SEED + (options.seeds or (1 if options.quick else SEEDS)))
    methods = [EQPROP] if options.no_control else [EQPROP, BACKPROP]
    asked = options.task or options.vocab or options.length or options.quick
    kinds = _kinds(options) if asked else COMPARED
    runs = list(product(kinds, methods, seeds))
    if not asked:
        runs += product(ONCE, [EQPROP], seeds[:1])
    jobs = [
        TransformerJob(task, method, seed, settings_for(task, vocabulary, length, options.quick))
        for (task, vocabulary, length), method, seed in runs
    ]
    return sorted(jobs, key=lambda job: job.settings.shown_tokens, reverse=True)


def _kinds(options: argparse.Namespace) -> list[tuple[str, int, int]]:
    """Return what the options ask for: task, vocabulary and length in all combinations."""
    tasks = options.task or ["reversal"]
    for name in tasks:
        if name not in TASKS and name != "all":
            raise SequenceError(f"there is no task '{name}'; known: {', '.join(TASKS)}, all.")
    names = list(TASKS) if "all" in tasks else tasks
    vocabularies, lengths = options.vocab or [10], options.length or [8]
    return list(dict.fromkeys(product(names, vocabularies, lengths)))


def _finish(
    jobs: list[TransformerJob], options: argparse.Namespace, console: Console
) -> list[TransformerOutcome]:
    """Return the outcome of every job, from an earlier call or from a run now."""
    folder = options.out / "runs"
    kept: dict[str, TransformerOutcome] = {}
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


def _run(
    todo: list[TransformerJob], options: argparse.Namespace
) -> Iterator[tuple[TransformerJob, TransformerOutcome]]:
    """Yield each job with its outcome as soon as it is done; runs share nothing but the cores."""
    if not todo:
        return
    for job in todo:
        _compile(job)  # once and here, not in every worker; and a bad description is found
    with _progress(sum(job.settings.updates for job in todo)) as (notes, show):
        show("runs", 0, len(todo), "")
        work = partial(_work, notes)
        for done, (k, outcome) in enumerate(as_finished(work, todo, options.workers), 1):
            show("runs", done, len(todo), f"{todo[k].key} is done")
            yield todo[k], outcome


@contextmanager
def _progress(updates: int) -> Iterator[tuple[Path, Show]]:
    """Show how many of the updates are done, by what workers note in the folder this yields.

    The other thing it yields shows what is done apart from that.
    """
    with TemporaryDirectory() as folder, progress_bars() as show:
        notes = Path(folder)

        def follow() -> None:
            show("updates", sum(note.stat().st_size for note in notes.iterdir()), updates, "")

        follow()
        with repeating(follow, POLL_SECONDS):
            yield notes, show


def _work(notes: Path, job: TransformerJob) -> TransformerOutcome:
    """Do a job in a worker; its note grows by a byte for every update."""

    def watch(update: int) -> None:
        if update % NOTED == 0:
            with suppress(OSError), (notes / job.key).open("ab") as note:
                note.write(bytes(NOTED))

    return run_job(job, watch)


def _compile(job: TransformerJob) -> None:
    """Run one step of everything that is compiled, and build the network of the job."""
    network = job.settings.network
    backend = NumbaBackend(network, Params(network, np.zeros(network.size, np.float32)))
    tokens = np.zeros((1, network.inputs), np.int64)
    clamped = backend.clamp(tokens, readout_of(network).targets(tokens))
    settled = backend.settle(clamped, job.settings.beta, job.settings.nudged)
    backend.accumulate(clamped, settled, np.zeros(network.size, np.float32), energy=1.0)
