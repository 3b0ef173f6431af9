"""The work of the fuzz command: properties in rotation on all cores, and what they found."""

import argparse
import itertools
import multiprocessing
import os
import secrets
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live

from experiments.fuzz.catalogue import THEORIES
from experiments.fuzz.display import Tally, announce
from experiments.fuzz.hunt import Turn, take_turn
from experiments.fuzz.regression import write_regression
from experiments.output import OutputError, prepare_output
from experiments.pool import watch_parent
from experiments.shell import exit_code, terminable

# For the workers, before they import numpy: small products gain nothing from threads.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

FEW = 3
"""Examples of the first turn of a property, so that a short hunt comes round to all of them."""


def run(options: argparse.Namespace) -> int:
    """Hunt for as long as the options say; return the exit code."""
    console = Console()
    names = list(options.property or THEORIES)
    first = secrets.randbelow(2**31) if options.seed is None else options.seed
    tally = Tally(names, 60.0 * options.minutes)
    live = Live(tally, console=console, refresh_per_second=2, transient=True)
    stopped = 0
    try:
        prepare_output(options.out, "test_property.py", "examples/example")
        console.print(f"{len(names)} properties for {options.minutes:g} min, seed {first}.")
        with terminable(), live if console.is_terminal else nullcontext():
            for turn in _turns(tally, options, first):
                tally.add(turn)
                if turn.failure is not None and turn.name not in tally.found:
                    tally.found[turn.name] = write_regression(options.out, turn.failure)
                    announce(console, turn, tally.found[turn.name])
    except KeyboardInterrupt as stop:
        stopped = exit_code(stop)
    except (OSError, OutputError, BrokenProcessPool) as error:
        console.print(f"Error: {error}", markup=False, soft_wrap=True)
        return 2
    if not (stopped or tally.examples):
        console.print(f"Error: nothing was tried in {options.minutes:g} min; try more --minutes.")
        return 2
    if tally.untried:
        console.print(f"Not tried: {', '.join(tally.untried)}.", soft_wrap=True)
    console.print(("Stopped: " if stopped else "Done: ") + tally.summary(), soft_wrap=True)
    if tally.found:
        return 1
    return stopped


def _turns(tally: Tally, options: argparse.Namespace, first: int) -> Iterator[Turn]:
    """Yield turns as the workers finish them, the properties in rotation, until time is up."""
    if tally.elapsed >= tally.limit:
        return
    database = options.out / "examples"
    database.mkdir(parents=True, exist_ok=True)
    rounds = ((first + k, None if k else FEW) for k in itertools.count())
    rotation = ((name, *told) for told in rounds for name in tally.names)
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(options.workers, context, watch_parent, (os.getpid(),))
    running: set[Future[Turn]] = set()
    try:
        while True:
            while len(running) < options.workers and tally.elapsed < tally.limit:
                if len(tally.found) == len(tally.names):
                    break
                name, number, examples = next(rotation)
                if name not in tally.found:
                    with _without_interrupt():  # a worker that starts here never sees Ctrl-C
                        running.add(workers.submit(take_turn, name, number, examples, database))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        if running:  # stopped in the middle of turns
            for process in (workers._processes or {}).values():
                process.terminate()
        workers.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
