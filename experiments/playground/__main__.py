"""Write one page in which a small network is seen to settle: draw a digit and turn the knobs.

Without options a network is trained by equilibrium propagation on scikit-learn's digits, which
takes some seconds. The page holds all that it needs: it runs offline, on a desk or a phone, and
compares itself with the engine when it is opened.
"""

import argparse
import sys
from collections.abc import Sequence

from experiments.options import (
    FIRST_SEED,
    add_out,
    command_parser,
    known,
    parse,
    positive,
    present_path,
    seed_number,
    whole,
)
from experiments.playground.choices import EPOCHS, HIDDEN, MOST_HIDDEN, VIEWS
from experiments.requirements import packages_needed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options, _ = parse(parser, arguments)
    if options.network is not None and not (options.hidden is None is options.epochs):
        parser.error("--network is trained and has its units: leave --hidden and --epochs out")
    with packages_needed():
        from experiments.playground import command
    return command.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.playground", __doc__)
    add = parser.add_argument
    names = ", ".join(VIEWS)
    task = known("task", VIEWS)
    add("--task", type=task, default="digits", metavar="NAME", help=f"{names} (digits)")
    saved = "a saved network of matrices, in place of a new one"
    add("--network", type=present_path, metavar="FILE.npz", help=saved)
    units = whole(1, MOST_HIDDEN)
    add("--hidden", type=units, metavar="N", help=f"units ({HIDDEN})")
    add("--epochs", type=positive, metavar="N", help=f"passes over the data ({EPOCHS})")
    text = f"of the split, the weights and the test pictures ({FIRST_SEED})"
    add("--seed", type=seed_number, default=FIRST_SEED, metavar="N", help=text)
    add_out(parser, "results/playground")
    return parser


if __name__ == "__main__":
    sys.exit(main())
