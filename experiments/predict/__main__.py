"""Say what a saved network predicts for the samples of a file.

The network is what --save-weights of parity or vision keeps, or engine.save wrote. The file is CSV,
Parquet or .npz; where it has labels, too, the share that is right is printed.

  python -m experiments.predict results/parity/networks/RUN.npz new.csv
  python -m experiments.predict network.npz new.npz --out answers.csv --probabilities
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.options import command_parser, named_path, parse, present_path
from experiments.requirements import packages_needed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, _ = parse(_parser(), arguments)
    with packages_needed():
        from experiments.predict import command
    return command.run(options)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.predict", __doc__)
    add = parser.add_argument
    add("network", type=present_path, metavar="NETWORK.npz", help="a trained network")
    add("data", type=present_path, metavar="FILE", help="samples: .csv, .parquet or .npz with x")
    add("--label", metavar="NAME", help="the column, or array, with the labels, if any")
    add("--probabilities", action="store_true", help="write those of all classes, too")
    add("--out", type=named_path, default=Path("results/predict/predictions.csv"), metavar="FILE",
        help="CSV to write (results/predict/predictions.csv)")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
