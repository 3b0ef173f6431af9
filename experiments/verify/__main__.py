"""Establish every claim of the project again, and say which ones hold.

Each track is one claim with an experiment that could refute it. The score follows from the
measurements by a stated rule. A claim that fails is printed as failed, and the command then
returns 1. All tracks together take under ten minutes on two cores.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from experiments.options import add_out, add_workers, command_parser, known, parse, positive
from experiments.requirements import packages_needed
from experiments.verify.listing import track_titles


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 1 if a claim failed, 2 if it could not run."""
    options, given = parse(_parser(), arguments)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.verify import command
    return command.run(options, given)


def _track(text: str) -> int:
    return int(known("track", [str(number) for number in track_titles()])(str(positive(text))))


def _parser() -> argparse.ArgumentParser:
    titles = track_titles()
    listed = "\n".join(f"  {number:>2}  {title}" for number, title in titles.items())
    parser = command_parser("experiments.verify", __doc__, f"tracks:\n{listed}")
    add = parser.add_argument
    add("--track", type=_track, nargs="+", default=[], metavar="N", help="only these tracks")
    effort = parser.add_mutually_exclusive_group()
    choose = partial(effort.add_argument, dest="effort", action="store_const")
    choose("--quick", const="quick", help="a smoke run: a minute or two")
    choose("--full", const="full", help="more seeds at full size: an hour")
    parser.set_defaults(effort="default")
    add_out(parser, "results/verify")
    add_workers(parser, "tracks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
