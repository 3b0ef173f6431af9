"""Compare the gradient that EqProp finds for a saved network with the exact one, block by block.

The exact gradient is autograd's at the free equilibrium, in double precision. The network is what
--save-weights of parity or vision keeps, or engine.save wrote; the file has samples with labels.

  python -m experiments.gradient results/parity/networks/RUN.npz mine.csv
  python -m experiments.gradient network.npz mine.npz --estimator centered --beta 0.1
"""

import argparse
import sys
from collections.abc import Sequence

from experiments.options import (
    command_parser,
    known,
    parse,
    positive,
    positive_number,
    present_path,
)
from experiments.requirements import packages_needed

ESTIMATORS = ("auto", "one_sided", "centered")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, _ = parse(_parser(), arguments)
    with packages_needed():
        from experiments.gradient import command
    return command.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.gradient", __doc__)
    add = parser.add_argument
    add("network", type=present_path, metavar="NETWORK.npz", help="a trained network")
    add("data", type=present_path, metavar="FILE", help="samples with labels: .csv, .parquet, .npz")
    add("--label", metavar="NAME", help="the column, or array, with the labels")
    add("--samples", type=positive, default=256, metavar="N", help="the first so many (256)")
    add("--estimator", type=known("estimator", ESTIMATORS), default="auto", metavar="NAME",
        help=f"{', '.join(ESTIMATORS)} (auto: as Training() would)")  # fmt: skip
    add("--beta", type=positive_number, metavar="B", help="size of the nudge (as Training() would)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
