"""What every command shares: its console, one sentence for a mistake, an answer to a signal."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from rich.console import Console
from rich.text import Text

from experiments.output import OutputError
from experiments.pool import PoolError, WorkerLostError


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a command like Ctrl-C, so whatever minds the one minds the other."""


def make_console(width: int = 120, *, highlight: bool = True) -> Console:
    """Return a console; a file has room for whole tables, so there it is `width` wide."""
    console = Console(markup=False, highlight=highlight)  # a path may hold brackets
    if not console.is_terminal:
        console.width = width
    return console


def guarded(
    work: Callable[[], int],
    console: Console,
    mistakes: tuple[type[Exception], ...],
    stopped: str,
) -> int:
    """Return the exit code of `work`: 2 after a mistake of the user or the loss of a worker.

    After Ctrl-C it is 130, after SIGTERM 143. `stopped` says what an untimely end leaves behind.
    """
    expected: tuple[type[Exception], ...] = (*mistakes, OutputError, PoolError, OSError)
    try:
        with terminable():
            return work()
    except WorkerLostError as error:
        return refused(console, f"{error} {stopped}".rstrip())
    except expected as error:
        return refused(console, str(error))
    except MemoryError as error:
        return refused(console, f"there is not enough memory: {str(error) or 'none is left'}.")
    except KeyboardInterrupt as stop:
        console.print(f"Stopped. {stopped}".rstrip(), soft_wrap=True)
        return exit_code(stop)


def refused(console: Console, sentence: str) -> int:
    """Print why a command does not do what it was asked for; return its exit code."""
    console.print(Text.assemble(("Error:", "red"), f" {sentence}"), soft_wrap=True)
    return 2


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` inside; a second one does not disturb the first."""
    if current_thread() is not main_thread():  # only that one gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return 128 and the number of the signal, as a shell does."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise Terminated
