"""Train EqProp and backprop side by side on the same tasks, and say whether they are equal.

Without options: digits, CartPole and Acrobot, with as many seeds as fit five minutes on two cores,
no network needed. Finished runs are kept in the output folder: a second call goes on where the
first one stopped.

  python -m experiments.parity --data mine.csv --label price --seeds auto
  python -m experiments.parity --tasks digits --set hidden=256 epochs=20
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.contest.choices import SeedCount, add_device, add_seed_count, add_settings
from experiments.options import (
    add_data,
    add_label,
    add_out,
    add_workers,
    command_parser,
    fraction,
    known,
    parse,
    positive,
)
from experiments.requirements import packages_needed
from experiments.tasks import TARGETS, TASKS

QUICK_TASKS, QUICK_SEEDS = ("digits",), 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, given = parse(_parser(), arguments)
    if options.quick:
        _shorten(options)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.parity import command
    return command.run(options, given)


def _shorten(options: argparse.Namespace) -> None:
    """Leave out what takes longer than a minute, where nothing else is said."""
    if options.tasks is None and options.data is None:
        options.tasks = list(QUICK_TASKS)
    if not options.tune:  # which has seeds of its own
        options.seeds = options.seeds or SeedCount(QUICK_SEEDS)
    options.no_controls = True


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.parity", __doc__)
    add = parser.add_argument
    task = known("task", (*TASKS, "all"))
    add("--tasks", type=task, nargs="+", metavar="NAME", help=f"'all', or of {', '.join(TASKS)}")
    add_data(parser, "your own task: .npz with x and y, .csv or .parquet")
    add_label(parser)
    add("--target", choices=TARGETS, help="what the label is, where that is not clear")
    text = "gap on your own data that does not matter (0.005; of R2 0.02)"
    add("--margin", type=fraction, metavar="M", help=text)
    add_seed_count(parser, "as many as fit five minutes, by task")
    add("--epochs", type=positive, metavar="N", help="epochs in place of the tuned budget")
    add_settings(parser, Path(__file__).with_name("settings.py"), "ParitySettings")
    add_device(parser)
    add("--quick", action="store_true", help="digits, three seeds, no controls: under a minute")
    add("--no-controls", action="store_true", help="leave the four controls out")
    add("--circuits", action="store_true", help="let circuits take part too; images take minutes")
    add_out(parser, "results/parity")
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add_workers(parser, "runs")
    parser.set_defaults(workers=None)  # it depends on the device
    add("--scheduler", metavar="ADDRESS", help="run on a Dask cluster, such as tcp://host:8786")
    add("--tune", action="store_true", help="choose the settings on the validation split instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
