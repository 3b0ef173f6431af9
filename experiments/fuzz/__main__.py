"""Try all properties on random networks for some time, on all cores, and shrink what fails.

A failure is written as a test that holds the smallest network found, with the one command that runs
it. Examples that failed are kept in the output folder, and tried first the next time. The exit code
is 0 if every property held, 1 if one did not, 2 for a wrong option, a worker that died or a hunt in
which nothing was tried, 130 after Ctrl-C and 143 after SIGTERM.
"""

import argparse
import math
import sys
import textwrap
from collections.abc import Sequence

from experiments.fuzz.listing import sentences
from experiments.options import (
    WIDTH,
    add_out,
    add_workers,
    called,
    folded,
    known,
    parse,
    seed_number,
)
from experiments.requirements import packages_needed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, _ = parse(_parser(), arguments)
    with packages_needed():  # Hypothesis and the kernels, which a typo need not wait for
        from experiments.fuzz import command
    return command.run(options)


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of minutes")
    return value


def _parser() -> argparse.ArgumentParser:
    properties = sentences()
    lines = (f"  {name}: {sentence}" for name, sentence in properties.items())
    listing = "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in lines)
    parser = argparse.ArgumentParser(
        prog=called("experiments.fuzz"),
        description=folded(__doc__ or ""),
        epilog=f"properties:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=_minutes, default=5.0, metavar="N", help="how long (5)")
    one = known("property", properties)
    add("--property", type=one, nargs="+", metavar="NAME", help="only these properties")
    add("--seed", type=seed_number, metavar="N", help="start of the random examples (a new one)")
    add_workers(parser, "properties")
    add_out(parser, "results/fuzz")
    return parser


if __name__ == "__main__":
    sys.exit(main())
