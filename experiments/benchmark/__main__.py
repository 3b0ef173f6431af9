"""Measure the speed of Settle as ratios inside one interleaved run.

Seven parts: `floor`, a relaxation against its bare matrix products; `epoch`, training against
backprop, with the multiply-adds of both; `defaults`, the same with no settings; `growth`, time and
memory against steps, width, depth and batch; `convolution`, training networks of images against
backprop and against EqProp in plain torch operations; `prediction`, what an answer takes, against
bare products and a perceptron; `parallel`, training in two processes, and a model of a step.

With `--against` it times another version of Settle and this one in turns instead, and says of each
row whether this one is faster or slower.
"""

import argparse
import sys
from collections.abc import Sequence

from joblib import cpu_count

from experiments.benchmark.against.versions import VersionError, find_commit
from experiments.options import add_out, command_parser, known, parse, worker_count
from experiments.requirements import packages_needed

PARTS = ("floor", "epoch", "defaults", "growth", "convolution", "prediction", "parallel")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options, given = parse(parser, arguments)
    if options.against is not None and options.part is not None:
        parser.error("--against times cases of its own: give it or --part, not both")
    options.part = options.part or list(PARTS)
    with packages_needed():  # torch and all the rest, which a typo need not wait for
        from experiments.benchmark import command
    return command.run(options, given)


def _checkout(text: str) -> str:
    """Return the name of a folder or a git revision to compare with, for `type=` of an option."""
    try:
        find_commit(text)
    except VersionError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None
    return text


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.benchmark", __doc__)
    add = parser.add_argument
    part, parts = known("part", PARTS), ", ".join(PARTS)
    add("--part", type=part, nargs="+", metavar="NAME", help=f"of {parts} (all)")
    add(
        "--against",
        type=_checkout,
        metavar="CHECKOUT",
        help="compare with the Settle in this folder, or with a git revision of this one, with the "
        "first number of threads, in a few minutes; --quick in one or two",
    )
    add(
        "--quick",
        action="store_true",
        help="few shapes, the digits, few points: minutes, not half an hour",
    )
    add(
        "--threads",
        nargs="+",
        type=worker_count,
        default=sorted({1, min(2, cpu_count())}),
        metavar="N",
        help="numbers of threads of BLAS and torch, the first for time to accuracy (1 2)",
    )
    add_out(parser, "results/benchmark")
    return parser


if __name__ == "__main__":
    sys.exit(main())
