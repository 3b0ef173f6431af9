"""How far the work of a command is: bars on a terminal, elsewhere a line for what is finished."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

LINE_SECONDS = 60.0
"""How often a line is written where there is no terminal, and nothing was finished."""
MOST_LINES = 500
"""Up to so many things each one gets a line when it is done; of more there is one now and then."""

Show: TypeAlias = Callable[[str, int, int | None, str], None]
"""Takes the title of a bar, how much is done, of how much if that is known, and a note.

With its title given it is the `progress` of `engine.fit`.
"""


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Show]:
    """Show progress on stderr until the work inside ends; a title that is new gets a new bar."""
    console = console or Console(stderr=True, markup=False, highlight=False)
    if not console.is_terminal:
        yield _lines(console)
        return
    tasks: dict[str, TaskID] = {}
    with _bars(console) as bars:

        def show(title: str, done: int, total: int | None, note: str) -> None:
            if title not in tasks:
                tasks[title] = bars.add_task(title, total=total, note=note)
            bars.update(tasks[title], completed=done, total=total, note=note)

        yield show


@contextmanager
def repeating(action: Callable[[], object], seconds: float) -> Iterator[None]:
    """Do something every few seconds, in a thread of its own, until the work inside ends."""
    stop = Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            action()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _lines(console: Console) -> Show:
    """Return what writes a line for each title when a thing is done, or every `LINE_SECONDS`."""
    began = time.monotonic()
    last: dict[str, tuple[float, int]] = {}

    def show(title: str, done: int, total: int | None, note: str) -> None:
        now = time.monotonic()
        before, finished = last.setdefault(title, (began, done))
        is_one_more = total is not None and total <= MOST_LINES and done > finished
        if not is_one_more and now - before < LINE_SECONDS:
            return
        last[title] = (now, done)
        amount = "" if total is None else f"{done:,} of {total:,}"
        said = ", ".join(filter(None, (amount, note)))
        console.print(f"{title}: {said}", soft_wrap=True)

    return show
