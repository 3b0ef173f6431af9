"""The plots that only the vision report has: cosine by layer, filters, confusion of classes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from engine.arrays import FloatArray
from experiments.contest.curves import FLOAT32_NOISE, count_nines, draw_band
from experiments.contest.plots import Plot
from experiments.contest.roster import Look, Roster
from experiments.contest.runs import Runs, TaskRuns, task_title
from experiments.records import Record
from experiments.reporting.plot_style import (
    BLUE,
    DOTTED,
    PAPER,
    SKY,
    SOFT,
    VERMILION,
    add_legend,
    draw_panels,
    is_leftmost,
    wrapped,
)
from experiments.vision.roster import BACKPROP, EQPROP

MOST_FILTERS = 32
"""Of a layer, as many as can be seen."""
FILTER_COLUMNS = 8
FEW_CLASSES = 12
"""As many have room for their names and numbers."""
SHADES = LinearSegmentedColormap.from_list("shades", [PAPER, BLUE])
SIGNED = LinearSegmentedColormap.from_list("signed", [VERMILION, PAPER, BLUE])


def draw_layer_cosines(runs: Runs) -> Figure | None:
    """Draw the cosine of each layer's gradient, first and last epoch; `None` if not measured."""
    tasks = [task for task in runs.values() if _moments(task)]
    if not tasks:
        return None
    figure, panels = draw_panels([task_title(task) for task in tasks])
    looks = {"first epoch looked at": Look(SKY, DOTTED), "last epoch": Look(BLUE)}
    for axes, task in zip(panels, tasks, strict=True):
        moments = _moments(task)
        for look, moment in zip(looks.values(), (moments[0], moments[-1]), strict=True):
            distance = np.maximum(1.0 - moment, FLOAT32_NOISE)
            places = np.arange(1.0, distance.shape[1] + 1)
            band = np.stack([distance.mean(0), distance.min(0), distance.max(0)])
            draw_band(axes, places, band, look)
        count_nines(axes)
        layers = moments[0].shape[1]
        axes.xaxis.set_major_locator(FixedLocator(range(1, layers + 1)))
        axes.set_xticklabels([*map(str, range(1, layers)), "out"])
        axes.set_xlabel("layer, bottom to top")
        if is_leftmost(axes):
            axes.set_ylabel("cosine with autograd")
    add_legend(figure, [(title, look.colour, look.dashes) for title, look in looks.items()])
    return figure


def draw_filters(roster: Roster, runs: Runs) -> Figure | None:
    """Draw the filters of the first layer of EqProp and backprop; `None` without any."""
    shown = [
        (f"{task_title(task)}: {roster.titles[name]}", filters)
        for task in runs.values()
        for name in (EQPROP, BACKPROP)
        if (filters := _filters(task.get(name, {}).values())) is not None
    ]
    if not shown:
        return None
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(8.4, 2.6 * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.16, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes in panels:
        axes.axis("off")
    for axes, (title, filters) in zip(panels, shown, strict=False):
        axes.set_title(wrapped(title, 44), fontsize=8.5)
        mosaic = tiled(filters)
        options: dict[str, Any] = {}
        if mosaic.ndim == 2:
            reach = float(np.nanmax(np.abs(mosaic)))
            options = {"cmap": SIGNED, "vmin": -reach, "vmax": reach}
        axes.imshow(mosaic, interpolation="nearest", **options)
    return figure


def tiled(filters: FloatArray) -> FloatArray:
    """Put filters `(n, kernel, kernel, channels)` side by side; three channels are colours.

    Colours are scaled filter by filter, since a filter of large weights would hide the others.
    """
    filters = filters[:MOST_FILTERS]
    count, kernel, _, channels = filters.shape
    colours = channels == 3
    if colours:
        reach = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
        filters = 0.5 + 0.5 * filters / np.where(reach > 0, reach, 1.0)
    pictures = filters if colours else filters.mean(axis=3, keepdims=True)
    columns = min(FILTER_COLUMNS, count)
    rows, side = -(-count // columns), kernel + 1
    gap = 1.0 if colours else np.nan
    mosaic = np.full((rows * side - 1, columns * side - 1, pictures.shape[3]), gap)
    for number, picture in enumerate(pictures):
        top, left = (side * place for place in divmod(number, columns))
        mosaic[top : top + kernel, left : left + kernel] = picture
    return mosaic if colours else mosaic[..., 0]


def draw_confusions(runs: Runs) -> Figure | None:
    """Draw what EqProp takes for what, over all seeds; `None` if nothing was counted."""
    found = [
        (task_title(task), *counted)
        for task in runs.values()
        if (counted := _confusion(task.get(EQPROP, {}).values())) is not None
    ]
    if not found:
        return None
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(4.6 * columns, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (title, names, counts) in zip(panels, found, strict=False):
        axes.set_title(wrapped(title))
        _draw_confusion(axes, names, counts)
    for axes in panels[len(found) :]:
        axes.remove()
    return figure


def _draw_confusion(axes: Axes, names: list[str], counts: FloatArray) -> None:
    totals = counts.sum(axis=1, keepdims=True)
    shares = 100 * counts / np.maximum(totals, 1)
    # The square root lets a mistake of a few percent be seen beside ninety percent that are right.
    axes.imshow(np.sqrt(shares), cmap=SHADES, vmin=0, vmax=10)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")
    if len(names) > FEW_CLASSES:
        return
    axes.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0)
    axes.set_yticks(range(len(names)), names)
    for row, column in zip(*np.nonzero(shares > 0.5), strict=True):
        share = shares[row, column]
        colour = PAPER if share > 40 else SOFT
        axes.text(column, row, f"{share:.0f}", ha="center", va="center", color=colour, size=7)


def _moments(task: TaskRuns) -> list[FloatArray]:
    """Return the cosines `(seeds, layers)` of every epoch that was looked at, in order."""
    by_epoch: dict[int, list[list[float]]] = {}
    for record in task.get(EQPROP, {}).values():
        for epoch, cosines in record.measures.get("layer_cosines", {}).items():
            by_epoch.setdefault(int(epoch), []).append(cosines)
    return [np.array(by_epoch[epoch]) for epoch in sorted(by_epoch)]


def _filters(records: Iterable[Record]) -> FloatArray | None:
    """Return the filters of the first seed."""
    found = [r.measures["filters"] for r in records if r.measures.get("filters")]
    return np.array(found[0]) if found else None


def _confusion(records: Iterable[Record]) -> tuple[list[str], FloatArray] | None:
    counted = [r.measures for r in records if r.measures.get("confusion")]
    if not counted:
        return None
    return counted[0]["names"], np.sum([measures["confusion"] for measures in counted], axis=0)


PLOTS = (
    Plot(
        "layer_cosine",
        "Gradient by layer",
        "Cosine of the EqProp estimate with the gradient by autograd, from the layer at the image "
        "to the read-out (out): mean over seeds and range, at the first and the last epoch looked "
        "at. The axis is logarithmic in the distance from 1.",
        lambda roster, summary, runs: draw_layer_cosines(runs),
    ),
    Plot(
        "filters",
        "Filters of the first layer",
        "Weights of the first layer after training, first seed, at most 32 of them. One channel: "
        "blue is positive, orange negative, white zero. Three channels: as colours around grey.",
        lambda roster, summary, runs: draw_filters(roster, runs),
    ),
    Plot(
        "confusion",
        "What EqProp takes for what",
        "Percent of each class of the test part, over all seeds; what rounds to zero is left out. "
        "Shades go with the square root.",
        lambda roster, summary, runs: draw_confusions(runs),
    ),
)
