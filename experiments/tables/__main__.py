"""Measure the tables of README and docs anew, and write them from what came out.

Names are those of measurements (--list shows them). Each runs its command, which may take hours,
keeps the rows in docs/results and fills the tables that show them. Without a name all of them run.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from experiments.options import command_parser, known, parse
from experiments.requirements import packages_needed
from experiments.tables.registry import MEASUREMENTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, _ = parse(_parser(), arguments)
    with packages_needed():
        from experiments.tables import command
    return command.run(options)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no day such as 2026-11-18") from None


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.tables", __doc__)
    parser.usage = "%(prog)s [options] [NAME ...]"
    add, name = parser.add_argument, known("measurement", tuple(MEASUREMENTS))
    add("names", nargs="*", type=name, metavar="NAME", help="measurements (all)")
    what = parser.add_mutually_exclusive_group()
    add_one = what.add_argument
    add_one("--list", action="store_true", help="say what there is, what it runs and how old it is")
    add_one("--check", action="store_true", help="fail if a page does not show what is stored")
    add_one("--fill", action="store_true", help="write stored results into the pages; run nothing")
    taken = "read one measurement from what its command wrote there, in place of running it"
    add_one("--taken", type=Path, metavar="FOLDER", help=taken)
    entered = "store the rows that a page shows, as entered by hand from the command's output"
    add_one("--enter", action="store_true", help=entered)
    add("--date", type=_day, metavar="DAY", help="of rows entered from an earlier version (today)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
