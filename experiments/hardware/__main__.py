"""Say what training and inference cost on simulated hardware, and when EqProp beats backprop.

Without options: digits on three substrates, eight seeds, with the sweeps over bit widths, over
Roff / Ron and over defects. Every price has a source and a range; --technology adds your own.

  python -m experiments.hardware --substrate digital --bits 8 6
  python -m experiments.hardware --network conv --no-sweeps
  python -m experiments.hardware --network deep --set layers=3 --no-sweeps
  python -m experiments.hardware --network 64-128-10 --substrate digital --no-sweeps
  python -m experiments.hardware --network saved.npz --data mine.csv --no-sweeps
  python -m experiments.hardware --network transformer
  python -m experiments.hardware --set crossbar.stuck=0.05 --set epochs=5 --no-sweeps
  python -m experiments.hardware --tiles 128x128 --neurons-per-core 64 --no-sweeps
  python -m experiments.hardware --substrate crossbar --cells rram_isaac --no-sweeps
  python -m experiments.hardware --sweep weight_bits=2,4,8 state_bits=4,8 --seeds 3
  python -m experiments.hardware --technology my.toml --technology rram_crossbar
  python -m experiments.hardware --compare a/report.json b/report.json
  python -m experiments.hardware --explain mac --technology digital_45nm --substrate digital
  python -m experiments.hardware --published
"""

import argparse
import math
import sys
from collections.abc import Sequence

from experiments.hardware.applicable import check_applicable
from experiments.hardware.choices import (
    BUILT,
    CELLS,
    SPELLINGS,
    SUBSTRATES,
    network,
    technology,
)
from experiments.options import (
    add_data,
    add_out,
    add_seeds,
    add_workers,
    command_parser,
    known,
    parse,
    present_path,
    shortened,
)
from experiments.requirements import packages_needed
from experiments.tasks import TASKS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options, given = parse(parser, arguments)
    check_applicable(parser, options)
    with packages_needed():  # chips and kernels, which a typo need not wait for
        from experiments.hardware import command
    return command.run(options, given)


def _percentage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 and up to 100")
    return value


def _tile_size(text: str) -> tuple[int, int]:
    rows, _, columns = text.partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number of rows and of columns, such as 128x128"
        )
    return int(rows), int(columns)


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    key, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",")))
    if not (equals and key.strip() and all(found)):
        raise argparse.ArgumentTypeError(
            f"'{shortened(text)}' is not a setting and its values, such as weight_bits=2,4,8"
        )
    return key.strip(), found


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("experiments.hardware", __doc__)
    add = parser.add_argument
    add("--task", type=known("task", TASKS), default="digits", metavar="NAME",
        help=f"{', '.join(TASKS)} (digits)")  # fmt: skip
    add_data(parser, "your own task: .npz with x and y, or .csv")
    add("--network", type=network, default=BUILT[0], metavar="NETWORK",
        help=f"{', '.join(SPELLINGS)} ({BUILT[0]})")  # fmt: skip
    add("--substrate", type=known("substrate", SUBSTRATES), action="append", metavar="NAME",
        help=f"{', '.join(SUBSTRATES)} (all)")  # fmt: skip
    add("--bits", type=int, nargs="+", metavar="N", help="digital: bits of a weight, of a state")
    add("--tiles", type=_tile_size, metavar="RxC", help="crossbar: largest array, such as 128x128")
    add("--cells", type=known("cell", CELLS), metavar="NAME",
        help=f"crossbar: made of a device whose numbers are known: {', '.join(CELLS)}")  # fmt: skip
    add("--neurons-per-core", type=int, metavar="N", help="spiking: neurons on a core (32)")
    add(
        "--technology", type=technology, action="append", metavar="NAME|FILE",
        help="price in this technology, my .toml, Accelergy's ERT or SANA-FE's .yaml in place of "
        + "; ".join(f"{chip}: {', '.join(names)}" for chip, names in SUBSTRATES.items()),
    )  # fmt: skip
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="any setting, such as hidden=32 or crossbar.stuck=0.1")  # fmt: skip
    add("--target", type=_percentage, metavar="PERCENT",
        help="accuracy (one that all learners of a seed reach and keep)")  # fmt: skip
    add_seeds(parser, 8)
    add("--no-sweeps", action="store_true", help="leave the sweeps out")
    add("--sweep", type=_axis, nargs="+", metavar="KEY=V,V",
        help="train EqProp on a grid of settings instead, such as weight_bits=2,4,8 "
        "state_bits=4,8, and price every point")  # fmt: skip
    add("--tune", action="store_true", help="choose lr and beta on the validation part instead")
    add("--explain", metavar="PRICE",
        help="print one price, such as mac, conversion or memory_bit: rows, source, status, and "
        "what it decides for a batch; trains nothing else and writes nothing")  # fmt: skip
    add("--published", action="store_true",
        help="print published figures of chips and the same by Settle, and write them as JSON; "
        "trains nothing")  # fmt: skip
    add("--compare", type=present_path, nargs=2, metavar="JSON",
        help="print two saved reports side by side, and write the same as a page")  # fmt: skip
    add("--fresh", action="store_true", help="repeat runs that are already in the folder")
    add_out(parser, "results/hardware")
    add_workers(parser, "runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
