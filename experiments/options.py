"""What the options of the commands share: how they are declared, read and refused."""

import argparse
import math
import os
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from joblib import cpu_count

EXIT_CODES = """exit codes:
  0    done
  1    done, and a goal or a claim was missed (where the command judges one)
  2    not done: a wrong option, data or folder, or a worker that died;
       one sentence says which
  130  stopped by Ctrl-C
  143  stopped by SIGTERM"""

FIRST_SEED = 42
"""Of the seeds that are reported; settings were chosen with others."""

WIDTH = 79
"""Of all that a help says, in characters."""
MOST_TIMES = 10**9
"""How often anything may be done."""
MOST_DIGITS = 40
LONGEST_NAME = 255
"""Bytes of the name of a file or folder on any common file system."""


def command_parser(
    command: str, description: str | None, epilog: str = ""
) -> argparse.ArgumentParser:
    """Return the parser of a command, such as `experiments.parity`; its help has the exit codes."""
    return argparse.ArgumentParser(
        prog=called(command),
        description=folded(description or ""),
        epilog="\n\n".join(filter(None, (epilog, EXIT_CODES))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def folded(text: str) -> str:
    """Return text with paragraphs as wide as a terminal; lists and examples stay as they are."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if "  " in part else textwrap.fill(part, WIDTH) for part in parts)


def called(command: str) -> str:
    """Return how a command was called: as `settle parity`, or as `python -m experiments.parity`."""
    return sys.argv[0] if sys.argv[0].startswith("settle ") else f"python -m {command}"


def add_out(parser: argparse.ArgumentParser, folder: str) -> None:
    """Declare `--out`, the folder of all that a command writes."""
    parser.add_argument("--out", type=folder_path, default=Path(folder), help=f"folder ({folder})")


def add_data(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare `--data`, a file of the user."""
    parser.add_argument("--data", type=present_path, metavar="FILE", help=what)


def add_label(parser: argparse.ArgumentParser) -> None:
    """Declare `--label`, what is to be learned of that file."""
    text = "its label: a column's name or number, or an array's name (found out)"
    parser.add_argument("--label", metavar="NAME", help=text)


def add_seeds(parser: argparse.ArgumentParser, count: int) -> None:
    """Declare `--seeds`, how many seeds are run: `count` if nothing is said."""
    text = f"seeds from {FIRST_SEED} on ({count})"
    parser.add_argument("--seeds", type=seed_count, default=count, metavar="N", help=text)


def add_workers(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare `--workers`, how many things called `what` are done at once."""
    more = {"type": worker_count, "default": cpu_count(), "metavar": "N"}
    parser.add_argument("--workers", help=f"{what} at once (cores)", **more)


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> tuple[argparse.Namespace, list[str]]:
    """Return the options and the texts they were read from, by default those of the process.

    A control character or a byte that is no text would spoil a path, a report or the terminal.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    for text in given:
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
            parser.error(f"{text!r} holds a control character or a byte that is no text")
    return parser.parse_args(given), given


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` to `most`, for `type=` of an option."""

    def read(text: str) -> int:
        decimal = text.isdecimal() and text.isascii()
        if decimal and (len(text) > MOST_DIGITS or int(text) > most):
            raise argparse.ArgumentTypeError(
                f"'{shortened(text)}' is not a whole number of at most {most}"
            )
        if not decimal or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
        return int(text)

    return read


positive = whole(1, MOST_TIMES)
seed_number = whole(0, 2**31 - 1)
"""The seed of a random generator, whichever library has it."""
seed_count = whole(1, 10_000)
worker_count = whole(1, 1024)


def positive_number(text: str) -> float:
    """Return a finite number above zero, for `type=` of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"'{text[:MOST_DIGITS]}' is not a number above zero")
    return value


def fraction(text: str) -> float:
    """Return a number between zero and one, for `type=` of an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"'{text[:MOST_DIGITS]}' is not a number between 0 and 1")
    return value


def plain_name(text: str) -> str:
    """Return a text that names one folder inside another, for `type=` of an option."""
    if len(os.fsencode(text)) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"'{text[:20]}...' is no plain name of a folder: it has {len(os.fsencode(text))} "
            f"bytes, at most {LONGEST_NAME} are possible"
        )
    if not text.strip(". ") or not text.isprintable() or set("/\\") & set(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no plain name of a folder")
    return text


def known(what: str, names: Collection[str]) -> Callable[[str], str]:
    """Return a reader of one of the names, for `type=` of an option."""

    def read(text: str) -> str:
        if text not in names:
            listed = f"known: {', '.join(names)}{meant(text, names)}"
            raise argparse.ArgumentTypeError(f"there is no {what} {shortened(text)!r}; {listed}")
        return text

    return read


def meant(text: str, names: Iterable[str]) -> str:
    """Ask whether the nearest of the names was meant; empty if none is near."""
    near = get_close_matches(text, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def shortened(text: str) -> str:
    """Return a text as an error quotes it."""
    return text if len(text) <= MOST_DIGITS else f"{text[:MOST_DIGITS]}..."


def named_path(text: str) -> Path:
    """Return a path that is not empty, for `type=` of an option: empty would be the folder here."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def folder_path(text: str) -> Path:
    """Return the path of a folder that is there or may be made, for `type=` of an option."""
    path = named_path(text)
    for place in (path, *path.parents):
        with suppress(OSError):  # such as a name that is too long: `prepare_output` says so
            if place.exists() and not place.is_dir():
                raise argparse.ArgumentTypeError(f"{place} is no folder")
    return path


def present_path(text: str) -> Path:
    """Return the path of a file to read, for `type=` of an option: a typo costs no waiting."""
    path = named_path(text)
    try:
        path.stat()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error.strerror}") from None
    return path
