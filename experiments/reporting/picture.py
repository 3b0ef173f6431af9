"""A plot as the files of a report need it: PNG, SVG, and SVG for a dark page."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Drawing

from experiments.records import write_bytes, write_text
from experiments.reporting.document import Figure
from experiments.reporting.phone_plot import phone_svg
from experiments.reporting.plot_style import STYLE, for_dark_page, to_png, to_svg

FOLDER = "plots"
"""Where the pictures lie, relative to the report."""


@dataclass(frozen=True)
class Picture:
    """A plot as drawn: the figure of the report, and the same as PNG."""

    name: str
    figure: Figure
    png: bytes


def take_picture(name: str, title: str, caption: str, drawing: Drawing) -> Picture:
    """Render a drawing that was made in the style of the reports, and is not used any further."""
    with matplotlib.rc_context(STYLE):
        svg, layout = to_svg(drawing), drawing.get_layout_engine()
        drawing.set_layout_engine("none")  # it is laid out: not once more for the PNG
        png = to_png(drawing)
        drawing.set_layout_engine(layout)
        small = phone_svg(drawing)
    phone = (small, for_dark_page(small))
    return Picture(
        name, Figure(title, caption, f"{FOLDER}/{name}.png", svg, for_dark_page(svg), phone), png
    )


def write_picture(folder: Path, picture: Picture) -> None:
    """Write PNG and SVG beside the report in `folder`."""
    write_bytes(folder / FOLDER / f"{picture.name}.png", picture.png)
    write_text(folder / FOLDER / f"{picture.name}.svg", picture.figure.svg)
