"""The plot of growth: memory and time of EqProp, backprop and BPTT along every axis."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from experiments.benchmark.crossings import QUANTITIES, Crossing
from experiments.benchmark.growth import GrowthPoint
from experiments.benchmark.plots import set_logarithmic
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    INK,
    ORANGE,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)

TITLES = {"eqprop": "EqProp", "backprop": "backprop, feed-forward", "bptt": "BPTT"}
COLOURS = {"eqprop": BLUE, "backprop": VERMILION, "bptt": ORANGE}
SCALES = {"extra": (1e-6, "MB"), "seconds": (1e3, "ms")}


def draw_growth(points: Sequence[GrowthPoint], crossings: Sequence[Crossing]) -> Picture | None:
    """Draw memory and time along each axis."""
    axes_names = list(dict.fromkeys(point.axis for point in points))
    if not axes_names:
        return None
    panels = [(field, axis) for field in QUANTITIES for axis in axes_names]
    titles = [
        f"{QUANTITIES[field].title()}, {SCALES[field][1]}, by {axis}" for field, axis in panels
    ]
    with matplotlib.rc_context(STYLE):
        drawing, places = draw_panels(titles)
        for place, (field, axis) in zip(places, panels, strict=True):
            line = [point for point in points if point.axis == axis]
            _draw_panel(place, line, field)
            for crossing in crossings:
                if (crossing.axis, crossing.quantity) == (axis, QUANTITIES[field]):
                    _mark(place, line, field, crossing)
        add_legend(drawing, [(TITLES[name], colour, "-") for name, colour in COLOURS.items()])
    return take_picture(
        "growth",
        "Where EqProp needs less",
        "One training step, each point in a process of its own. A number stands where the line of "
        "EqProp crosses that of a rival, between measured points on straight lines.",
        drawing,
    )


def _draw_panel(axes: Axes, points: Sequence[GrowthPoint], field: str) -> None:
    for learner, colour in COLOURS.items():
        line = _line(points, field, learner)
        if line:
            axes.plot(*zip(*line, strict=True), color=colour, marker=".")
    axes.set_xlabel(points[0].axis)
    set_logarithmic(axes, sorted({point.value for point in points}))


def _line(points: Sequence[GrowthPoint], field: str, learner: str) -> list[tuple[int, float]]:
    return [
        (point.value, SCALES[field][0] * max(getattr(point.footprint, field), 1e-9))
        for point in points
        if point.setting.learner == learner
    ]


def _mark(axes: Axes, points: Sequence[GrowthPoint], field: str, crossing: Crossing) -> None:
    """Put a ring and its place on the axis where two curves cross."""
    places, heights = np.log(np.array(_line(points, field, "eqprop"))).T
    for value in crossing.values:
        height = float(np.exp(np.interp(np.log(value), places, heights)))
        axes.plot(value, height, marker="o", markersize=8, fillstyle="none", color=INK)
        axes.annotate(
            f"{value:.3g}", (value, height), (0, 8), textcoords="offset points", ha="center"
        )
