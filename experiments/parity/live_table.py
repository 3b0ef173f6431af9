"""Run many trainings at once, each with a note of its progress, and show them in a table."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from experiments.parity.contestants import ParityJob, run_job
from experiments.pool import as_finished
from experiments.progress import progress_bars, repeating
from experiments.records import EpochPoint, Record, write_text

POLL_SECONDS = 0.5


def run_jobs(
    jobs: Sequence[ParityJob], live: Path, workers: int, scheduler: str | None
) -> Iterator[tuple[ParityJob, Record]]:
    """Yield each job with its record as soon as it is done, in any order.

    Each run is single threaded and seeded, so the records do not depend on the workers. Workers
    that share the file system with this process note their progress in the folder `live`.
    """
    for number, record in as_finished(partial(_run, live), jobs, workers, scheduler):
        yield jobs[number], record


def _run(live: Path, job: ParityJob) -> Record:
    note = live / f"{job.key}.json"

    def watch(point: EpochPoint) -> None:
        state = {"epoch": point.epoch, "accuracy": point.accuracy, "of": job.settings.epochs}
        with suppress(OSError):  # a worker elsewhere may have no such folder
            write_text(note, json.dumps(state))

    record = run_job(job, watch)
    with suppress(OSError):
        note.unlink()
    return record


class LiveTable:
    """A table of what runs now and what is left; off a terminal it is a line now and then."""

    def __init__(self, console: Console, live: Path, total: int, done: int) -> None:
        self._console, self._live, self._total, self._before = console, live, total, done
        self._done = done
        self._began = time.perf_counter()

    @contextmanager
    def shown(self) -> Iterator[Callable[[ParityJob], object]]:
        """Show the table until the work ends; call what this yields for each finished run."""
        if not self._console.is_terminal:
            with progress_bars() as show:
                yield lambda job: show("runs", self._count(), self._total, job.key)
            return
        with (
            Live(console=self._console, get_renderable=self._draw, transient=True) as display,
            repeating(display.refresh, POLL_SECONDS),
        ):
            yield lambda job: self._count()

    def _count(self) -> int:
        self._done += 1
        return self._done

    def _draw(self) -> Table:
        fresh, left = self._done - self._before, self._total - self._done
        elapsed = time.perf_counter() - self._began
        remaining = f", about {elapsed / fresh * left / 60:.1f} min left" if fresh else ""
        table = Table(title=f"{self._done} of {self._total} runs done{remaining}")
        for name in ("run", "epoch", "accuracy"):
            table.add_column(name)
        for note in sorted(self._live.glob("*.json")):
            try:
                state = json.loads(note.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue  # being written, or just finished
            epoch = f"{state['epoch']} of {state['of']}"
            table.add_row(note.stem, epoch, f"{state['accuracy']:.2%}")
        return table
