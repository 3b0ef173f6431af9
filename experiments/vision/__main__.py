"""Train convolutional networks by EqProp and by backprop on the same images, and compare them.

Without options: 10,000 images of Fashion-MNIST and its whole test part, three seeds, in under eight
minutes on two cores. The images are read from $SETTLE_DATA/fashion_mnist or downloaded; without
either, scikit-learn's digits stand in. Finished runs are kept in the output folder: a second call
goes on where the first one stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.contest.choices import add_device, add_seed_count, add_settings
from experiments.options import (
    add_data,
    add_label,
    add_out,
    add_workers,
    command_parser,
    known,
    parse,
    positive,
)
from experiments.requirements import packages_needed
from experiments.vision.choices import FULL, NETWORKS, VISION_TASKS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options, given = parse(_parser(), arguments)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.vision import command
    return command.run(options, given)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.vision", __doc__)
    add = parser.add_argument
    task = known("task", VISION_TASKS)
    add("--tasks", type=task, nargs="+", metavar="NAME", help=f"of {', '.join(VISION_TASKS)}")
    add("--full", action="store_true", help=f"the whole table, in hours: {', '.join(FULL)}")
    add_data(parser, "your own images: .npz with x (samples, height, width, channels) and y")
    add_label(parser)
    add("--network", choices=NETWORKS, help="dchn: 128-256-512-512 as published, for a GPU")
    add_device(parser)
    add_seed_count(parser, "3")
    add("--epochs", type=positive, metavar="N", help="epochs in place of those of the settings")
    add_settings(parser, Path(__file__).with_name("settings.py"), "VisionSettings")
    add_out(parser, "results/vision")
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add_workers(parser, "runs")
    parser.set_defaults(workers=None)  # it depends on the device
    add("--tune", action="store_true", help="choose the settings on the validation split instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
