"""How plots look: sizes, fonts, small multiples, files, and the same drawing for a dark page."""

import io
import re
from collections.abc import Sequence
from textwrap import fill
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from engine.arrays import FloatArray

INK, SOFT, GRID, PAPER = "#1c2128", "#57606a", "#e3e6ea", "#ffffff"
BLUE, SKY, VERMILION, ORANGE = "#0072b2", "#56b4e9", "#d55e00", "#e69f00"
GREEN = "#009e73"
"""Of Okabe and Ito's palette, which colour-blind readers can tell apart."""

DARK = {
    INK: "#e4e8ee",
    SOFT: "#9aa5b1",
    GRID: "#2d353f",
    PAPER: "#171c23",
    BLUE: "#4ba6e0",
    SKY: "#8ccdf5",
    VERMILION: "#f07f35",
    ORANGE: "#f5c04a",
    GREEN: "#3cc9a0",
}
"""Colours of a drawing, and what they become on a dark page."""

STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "text.parse_math": False,  # a title may hold a dollar sign
    "axes.formatter.useoffset": False,
    "svg.hashsalt": "settle",  # the same drawing gives the same file
}

DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1.4))
PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.5
ENTRY_WIDTH = 2.3
"""What the longest entry of a legend takes, in inches."""

LONGEST_LINE = 30

PATH = re.compile(r'(?<= d=")[^"]*')
LONG_NUMBER = re.compile(r"(\.\d\d)\d+")


def draw_panels(titles: Sequence[str], height: float = PANEL_HEIGHT) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel for each title, at most three in a row."""
    columns = min(3, len(titles))
    rows = -(-len(titles) // columns)
    width = max(PANEL_WIDTH * columns, 5.0)
    figure = Figure(figsize=(width, height * rows + 0.5), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, title in zip(grid, titles, strict=False):
        axes.set_title(wrapped(title))
    for axes in grid[len(titles) :]:
        axes.remove()
    return figure, list(grid[: len(titles)])


def add_legend(figure: Figure, entries: Sequence[tuple[str, str, Any]]) -> None:
    """Explain colours below the panels: title, colour, and dashes, `"area"` or `"dot"`."""
    handles = [_handle(*entry) for entry in entries]
    put_legend(figure, handles, min(int(figure.get_figwidth() / ENTRY_WIDTH), len(handles)))


def _handle(title: str, colour: str, kind: Any) -> Artist:
    """Return what stands in a legend for an area, a dot, or a line with dashes."""
    if kind == "area":
        return Patch(color=colour, label=title)
    if kind == "dot":
        return Line2D([], [], color=colour, linestyle="", marker="o", markersize=5, label=title)
    return Line2D([], [], color=colour, linestyle=kind, label=title)


def put_legend(figure: Figure, handles: Sequence[Artist], columns: int) -> Legend:
    """Put a legend below the panels."""
    return figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, handlelength=2.4
    )


def accuracy_limits(percents: FloatArray) -> tuple[float, float]:
    """Return the range of an axis around accuracies in percent; it ends where they must."""
    low, high = float(percents.min()), float(percents.max())
    room = max(0.08 * (high - low), 0.1)
    return max(low - room, -0.5 * room), min(high + room, 100.0 + 0.5 * room)


def wrapped(title: str, most: int = LONGEST_LINE) -> str:
    """Return a title in lines that fit above a panel."""
    return fill(" ".join(title.split()), most)


def is_leftmost(axes: Axes) -> bool:
    """Say whether a panel stands at the beginning of its row."""
    place = axes.get_subplotspec()
    return place is not None and place.is_first_col()


def to_png(figure: Figure) -> bytes:
    """Return the drawing as a picture, sharp enough for print."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=200, metadata={"Software": None})
    return file.getvalue()


def to_svg(figure: Figure) -> str:
    """Return the drawing with its letters as outlines: it needs no font.

    Paths have two digits after the point: a third is not seen.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return PATH.sub(lambda path: LONG_NUMBER.sub(r"\1", path[0]), file.getvalue())


def for_dark_page(svg: str) -> str:
    """Return a drawing with its colours exchanged for those of a dark page."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: DARK.get(found[0], found[0]), svg)
