"""What every command shares: its console, one sentence for a mistake, an answer to Ctrl-C."""

from collections.abc import Callable

from rich.console import Console
from rich.text import Text


def make_console(width: int = 120) -> Console:
    """Return a console; a file has room for whole tables, so there it is `width` wide."""
    console = Console(markup=False)  # a path may hold brackets
    if not console.is_terminal:
        console.width = width
    return console


def guarded(
    work: Callable[[], int],
    console: Console,
    mistakes: tuple[type[Exception], ...],
    stopped: str,
) -> int:
    """Return the exit code of `work`: 2 after a mistake of the user, 130 after Ctrl-C.

    `stopped` says what an interrupt leaves behind.
    """
    expected: tuple[type[Exception], ...] = (*mistakes, OSError)
    try:
        return work()
    except expected as error:
        console.print(Text.assemble(("Error:", "red"), f" {error}"), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print(f"Stopped. {stopped}")
        return 130
