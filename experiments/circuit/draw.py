"""Draw the schematic of a small netlist: sources, resistors, diodes, leaks, amplifiers, nudges.

It takes a `.cir` file as `spice` and `transient` write it, and makes a picture of what the file
says, part by part: `.png`, or `.svg` where the name of the picture ends so.
"""

import argparse
from pathlib import Path

import matplotlib

from adapters.spice_run import SpiceError
from experiments.circuit.schematic import read_schematic
from experiments.circuit.schematic_plot import draw_schematic
from experiments.options import named_path
from experiments.records import write_bytes, write_text
from experiments.reporting.plot_style import STYLE, to_png, to_svg
from experiments.shell import make_console

ENDINGS = (".png", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("netlist", type=named_path, metavar="FILE.cir", help="a netlist of Settle")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PICTURE",
        help="a .png or .svg (beside the netlist, with its name)",
    )


def run(options: argparse.Namespace) -> int:
    """Read the netlist and write the picture."""
    picture = options.out or options.netlist.with_suffix(".png")
    if picture.suffix not in ENDINGS:
        raise SpiceError(f"the picture is {picture.name}, expected {' or '.join(ENDINGS)}.")
    try:
        text = options.netlist.read_text(encoding="utf-8")
    except OSError as error:
        raise SpiceError(f"{options.netlist} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SpiceError(f"{options.netlist} is no netlist: it is no text.") from None
    try:
        figure = draw_schematic(read_schematic(text))
    except SpiceError as error:
        raise SpiceError(f"{options.netlist}: {error}") from None
    with matplotlib.rc_context(STYLE):
        if picture.suffix == ".svg":
            write_text(picture, to_svg(figure))
        else:
            write_bytes(picture, to_png(figure))
    make_console().print(f"Drawn: {picture}", soft_wrap=True)
    return 0
