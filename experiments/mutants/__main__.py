"""Make one-line faults in the code, and see whether the tests notice each of them.

Every mutant runs in a private copy of the tree, without compilation, against the tests that enter
its function, those of the mirrored file first, until one fails. Those that no test kills are listed
with their diff in survivors.txt. Verdicts are kept, and hold until the code or the tests change.

The goal is a share of killed mutants.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.options import (
    add_out,
    add_workers,
    command_parser,
    parse,
    positive,
    seed_number,
)
from experiments.requirements import packages_needed

ROOT = Path(__file__).parents[2]


def main(
    arguments: Sequence[str] | None = None, root: Path = ROOT, lists: Path | None = None
) -> int:
    """Run the command on the tree at `root`, with the lists in a folder; return its exit code."""
    options, _ = parse(_parser(), arguments)
    with packages_needed():  # pytest, which a typo need not wait for
        from experiments.mutants import command
    return command.run(options, root, lists)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.mutants", __doc__)
    add = parser.add_argument
    add(
        "--files",
        nargs="+",
        metavar="GLOB",
        help="only of these files, as engine/backend.py",
    )
    add("--tests", nargs="+", metavar="GLOB", help="only these files of tests")
    add("--only", nargs="+", metavar="ID", help="only these mutants")
    add("--sample", type=positive, metavar="N", help="so many, chosen by --seed (all)")
    add("--seed", type=seed_number, default=0, metavar="N", help="order and choice of mutants (0)")
    add("--minutes", type=_amount, default=math.inf, metavar="N", help="how long (to the end)")
    add("--budget", type=_amount, metavar="S", help="seconds of tests each (20)")
    add_workers(parser, "mutants")
    add("--goal", type=_percent, default=95.0, metavar="P", help="percent to be killed (95)")
    add("--list", action="store_true", help="print the mutants and stop")
    add("--fresh", action="store_true", help="run again what was run before")
    add("--equivalents", action="store_true", help="run those listed as equivalent instead")
    add_out(parser, "results/mutants")
    return parser


if __name__ == "__main__":
    sys.exit(main())
