"""The plot of a grid of settings: accuracy, energy and area over the first of them."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.hardware.costs import scaled
from experiments.hardware.grid import GridPoint, SettingsGrid
from experiments.reporting.number_text import in_units
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    INK,
    ORANGE,
    SKY,
    SOFT,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)

COLOURS = (BLUE, VERMILION, ORANGE, SKY, INK, SOFT)
"""Of lines; after the last one they begin anew, dashed."""
DODGE = 0.05
"""Between lines, in distances of two values."""


def grid_picture(grid: SettingsGrid, name: str, points: Sequence[GridPoint]) -> Picture:
    """Draw accuracy, energy and area of all points in one technology."""
    with matplotlib.rc_context(STYLE):
        drawing = draw_grid(grid, points)
    caption = (
        "Over the first setting, a line for each value of the others: test accuracy (mean and "
        "range over seeds), energy of an inference (nominal and range of the prices), and area."
    )
    return take_picture(f"sweep-{name}", f"Accuracy, energy and area, {name}", caption, drawing)


def draw_grid(grid: SettingsGrid, points: Sequence[GridPoint]) -> Drawing:
    """One panel for accuracy, one for energy and, where it has a price, one for area."""
    (name, values), *others = grid.axes.items()
    panels = ["Test accuracy, %", "Energy of an inference"]
    panels += ["Area, mm²"] if points[0].once.area() is not None else []
    figure, grid_axes = draw_panels(panels, height=2.9)
    at = {point.place: point for point in points}
    lines = list(product(*(held for _, held in others)))
    legend = []
    for k, rest in enumerate(lines):
        line = [at[value, *rest] for value in values]
        style: Any = {"color": COLOURS[k % len(COLOURS)], "marker": "o", "markersize": 4}
        style |= {"capsize": 2, "linestyle": "-" if k < len(COLOURS) else DASHED}
        for axes, (middle, low, high) in zip(grid_axes, _drawn(line), strict=False):
            spread = np.maximum(0.0, np.abs(np.array([low, high]) - middle))
            beside = DODGE * (k - (len(lines) - 1) / 2)  # or bars would hide one another
            axes.errorbar(np.arange(len(values)) + beside, middle, spread, **style)
        legend.append((", ".join(rest), style["color"], style["linestyle"]))
    for axes in grid_axes:
        axes.set_xticks(range(len(values)), values)
        axes.set_xlabel(name)
    grid_axes[1].set_yscale("log")
    grid_axes[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value, "J")))
    grid_axes[1].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
    grid_axes[1].yaxis.set_minor_formatter(NullFormatter())
    if others:
        said = ", ".join(held for held, _ in others)
        add_legend(figure, [(f"{said} {text}", *look) for text, *look in legend])
    return figure


def _drawn(line: Sequence[GridPoint]) -> list[tuple[list[float], list[float], list[float]]]:
    """Return middle, low and high of accuracy, energy and area along a line."""
    scores = [[100 * o.accuracy for o in point.group] for point in line]
    energies = [scaled(point.once.energy(), 1 / point.inferences) for point in line]
    areas = [area for point in line if (area := point.once.area()) is not None]
    shown = [(np.mean(s), min(s), max(s)) for s in scores]
    found = [shown, [(e.nominal, e.low, e.high) for e in energies]]
    found += [[(1e6 * a.nominal, 1e6 * a.low, 1e6 * a.high) for a in areas]] if areas else []
    return [tuple(map(list, zip(*rows, strict=True))) for rows in found]  # type: ignore[misc]
