"""The plot of the benchmark at a glance: the floor and the epochs."""

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from experiments.benchmark.epochs import BACKPROP, Race
from experiments.benchmark.floor import FloorCell
from experiments.benchmark.goals import FLOOR
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    DOTTED,
    ORANGE,
    SOFT,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)

COLOURS = {"Settle, numba": BLUE, "torch eager": VERMILION, "torch.compile": ORANGE}


def draw_benchmark(cells: Sequence[FloorCell], races: Sequence[Race]) -> Picture | None:
    """Draw one panel for each part that ran."""
    titles = []
    if cells:
        titles.append("30 steps over bare products")
    if races:
        titles.append("An epoch over backprop's")
    if not titles:
        return None
    with matplotlib.rc_context(STYLE):
        drawing, panels = draw_panels(titles)
        drawing.set_figwidth(1.15 * drawing.get_figwidth())  # the contestants' names need room
        free = iter(panels)
        if cells:
            _floor_panel(next(free), cells)
        if races:
            _races_panel(next(free), races)
        if cells:
            add_legend(drawing, [(name, colour, "-") for name, colour in COLOURS.items()])
    return take_picture(
        "benchmark",
        "The benchmark at a glance",
        "With the first number of threads. Ratios are medians of rounds. The dotted line is the "
        "goal for relaxations of width 256 and batch 64 and more; the darkest line is the largest "
        "batch.",
        drawing,
    )


def _floor_panel(axes: Axes, cells: Sequence[FloorCell]) -> None:
    threads = cells[0].threads
    batches = sorted({cell.batch for cell in cells})
    for name, colour in COLOURS.items():
        for k, batch in enumerate(batches):
            line = sorted(
                (c.width, c.ratio.median)
                for c in cells
                if (c.contestant, c.batch, c.threads) == (name, batch, threads)
            )
            if line:
                shade = 0.3 + 0.7 * (k + 1) / len(batches)
                axes.plot(*zip(*line, strict=True), color=colour, alpha=shade, marker=".")
    axes.axhline(FLOOR, color=SOFT, linestyle=DOTTED, linewidth=1)
    axes.set_xlabel("width")
    set_logarithmic(axes, sorted({cell.width for cell in cells}))


def _races_panel(axes: Axes, races: Sequence[Race]) -> None:
    place = (races[0].threads, races[0].batch)
    first = [r for r in races if (r.threads, r.batch) == place and r.contestant != BACKPROP]
    for k, race in enumerate(reversed(first)):
        colour = BLUE if race.contestant.startswith("EqProp") else VERMILION
        axes.barh(k, race.ratio.median, color=colour, height=0.6)
        axes.plot([race.ratio.low, race.ratio.high], [k, k], color=SOFT)
    axes.set_yticks(range(len(first)), [race.contestant for race in reversed(first)])
    axes.axvline(1.0, color=SOFT, linestyle=DASHED, linewidth=1)
    axes.set_xlabel("times an epoch of backprop")


def set_logarithmic(axes: Axes, values: Sequence[int]) -> None:
    """Make both axes logarithmic with numbers as they are written: no powers, no markup."""
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(values, [str(value) for value in values])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())
