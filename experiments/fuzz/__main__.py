"""Try all properties on random networks for some time, on all cores, and shrink what fails.

A failure is written as a test that holds the smallest network found, with the one command that runs
it. Examples that failed are kept in the output folder, and tried first the next time. The exit code
is 0 if every property held, 1 if one did not, 2 for a wrong option, a worker that died or a hunt in
which nothing was tried, 130 after Ctrl-C and 143 after SIGTERM.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live

from experiments.options import add_out, add_workers, parse, seed_number
from experiments.output import OutputError, prepare_output
from experiments.pool import watch_parent
from experiments.shell import exit_code, terminable

# Before numpy is imported here and in the workers: small products gain nothing from threads.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

try:
    from experiments.fuzz.catalogue import THEORIES
    from experiments.fuzz.display import Tally, announce
    from experiments.fuzz.hunt import Turn, take_turn
    from experiments.fuzz.regression import write_regression
except ImportError as missing:
    sys.exit(f"Error: {missing}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, _ = parse(_parser(), arguments)
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
    rotation = ((name, first + k) for k in itertools.count() for name in tally.names)
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(options.workers, context, watch_parent, (os.getpid(),))
    running: set[Future[Turn]] = set()
    try:
        while True:
            while len(running) < options.workers and tally.elapsed < tally.limit:
                if len(tally.found) == len(tally.names):
                    break
                name, number = next(rotation)
                if name not in tally.found:
                    with _without_interrupt():  # a worker that starts here never sees Ctrl-C
                        running.add(workers.submit(take_turn, name, number, None, database))
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


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of minutes")
    return value


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name}: {theory.sentence}" for name, theory in THEORIES.items())
    parser = argparse.ArgumentParser(
        prog="python -m experiments.fuzz",
        description=__doc__,
        epilog=f"properties:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=_minutes, default=5.0, metavar="N", help="how long (5)")
    add("--property", nargs="+", choices=THEORIES, metavar="NAME", help="only these properties")
    add("--seed", type=seed_number, metavar="N", help="start of the random examples (a new one)")
    add_workers(parser, "properties")
    add_out(parser, "results/fuzz")
    return parser


if __name__ == "__main__":
    sys.exit(main())
