"""A table of the trainings that run, in which each notes its progress."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from experiments.contest.jobs import TrainingJob
from experiments.contest.metrics import ACCURACY, METRICS
from experiments.progress import progress_bars, repeating

POLL_SECONDS = 0.5


class LiveTable:
    """A table of what runs now and what is left; off a terminal a line for each finished run."""

    def __init__(self, console: Console, live: Path, total: int, done: int) -> None:
        self._console, self._live, self._total, self._before = console, live, total, done
        self._done = done
        self._began = time.perf_counter()

    @contextmanager
    def shown(self) -> Iterator[Callable[[TrainingJob], object]]:
        """Show the table until the work ends; call what this yields for each finished run."""
        if not self._console.is_terminal:
            with progress_bars() as show:

                def tell() -> None:
                    show("runs", self._done, self._total, self._running())

                def finished(job: TrainingJob) -> None:
                    show("runs", self._done + 1, self._total, f"{job.key} is done")
                    self._count()

                tell()
                with repeating(tell, POLL_SECONDS):
                    yield finished
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
        for name in ("run", "epoch", "test score"):
            table.add_column(name)
        for name, state in self._notes():
            epoch = f"{state['epoch']} of {state['of']}"
            table.add_row(name, epoch, _score(state))
        return table

    def _running(self) -> str:
        """Say in a line how far the runs are that have noted anything."""
        return "; ".join(
            f"{name} epoch {state['epoch']} of {state['of']}, {_score(state)}"
            for name, state in self._notes()
        )

    def _notes(self) -> Iterator[tuple[str, Any]]:
        for note in sorted(self._live.glob("*.json")):
            try:
                yield note.stem, json.loads(note.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue  # being written, or just finished


def _score(state: Any) -> str:
    return METRICS[state.get("metric", ACCURACY.name)].note(state["accuracy"])
