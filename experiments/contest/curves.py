"""Plots over the epochs of training: accuracy, relaxation steps, gradient cosine."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from engine.arrays import FloatArray
from experiments.contest.roster import Look, Roster
from experiments.contest.runs import Runs, TaskRuns, task_metric, task_title
from experiments.records import Record
from experiments.reporting.plot_style import (
    DOTTED,
    add_legend,
    draw_panels,
    is_leftmost,
)

SETTLED_IN = 0.25
"""Share of the epochs after which values decide about the range of a panel."""

FEW_EPOCHS = 8
FLOAT32_NOISE = 1e-7
"""Nearer to 1 than this, cosines of float32 gradients cannot be told apart."""


def draw_learning_curves(roster: Roster, runs: Runs) -> Figure | None:
    """Draw test accuracy against epoch, a panel for each task; `None` without any curve."""
    tasks = _measured_tasks(runs, roster.contestants, "accuracy")
    if not tasks:
        return None
    figure, panels = draw_panels([task_title(task) for task in tasks])
    for axes, contestants in zip(panels, tasks, strict=True):
        late = []
        metric = task_metric(contestants)
        for name in roster.contestants:
            epochs, curves = gather(contestants.get(name, {}).values(), "accuracy")
            draw_band(axes, epochs, metric.scale * curves, roster.looks[name])
            late.append(metric.scale * curves[:, int(SETTLED_IN * epochs.size) :].ravel())
        axes.set_ylim(*metric.limits(np.concatenate(late)))
        _label(axes, metric.axis, always=len({task_metric(task) for task in tasks}) > 1)
    add_legend(figure, _entries(roster, tasks, roster.contestants))
    return figure


def draw_steps(roster: Roster, runs: Runs) -> Figure | None:
    """Draw the relaxation steps of both phases; `None` if no run counted any."""
    tasks = _measured_tasks(runs, roster.eqprop, "free_steps")
    if not tasks:
        return None
    figure, panels = draw_panels([task_title(task) for task in tasks])
    phases = (("free", "-"), ("nudged", DOTTED))
    for axes, contestants in zip(panels, tasks, strict=True):
        for name in roster.eqprop:
            for phase, dashes in phases:
                epochs, curves = gather(contestants.get(name, {}).values(), f"{phase}_steps")
                draw_band(axes, epochs, curves, Look(roster.looks[name].colour, dashes))
        axes.set_ylim(bottom=0)
        _label(axes, "steps to settle")
    names = [name for name in roster.eqprop if any(name in task for task in tasks)]
    entries = [
        (f"{roster.titles[name]}, {phase}", roster.looks[name].colour, dashes)
        for name in names
        for phase, dashes in phases
    ]
    add_legend(figure, entries)
    return figure


def draw_cosines(roster: Roster, runs: Runs) -> Figure | None:
    """Draw the cosine with autograd's gradient; `None` if it was not measured."""
    tasks = _measured_tasks(runs, roster.eqprop, "cosine")
    if not tasks:
        return None
    figure, panels = draw_panels([task_title(task) for task in tasks])
    for axes, contestants in zip(panels, tasks, strict=True):
        for name in roster.eqprop:
            epochs, curves = gather(contestants.get(name, {}).values(), "cosine")
            distance = np.maximum(1.0 - curves, FLOAT32_NOISE)
            draw_band(axes, epochs, distance, roster.looks[name])
        count_nines(axes)
        _label(axes, "cosine with autograd")
    add_legend(figure, _entries(roster, tasks, roster.eqprop))
    return figure


def gather(records: Iterable[Record], field: str) -> tuple[FloatArray, FloatArray]:
    """Return epochs `(n,)` and mean, lowest and highest value over seeds `(3, n)`."""
    by_epoch: dict[int, list[float]] = {}
    for record in records:
        for point in record.curve:
            value = getattr(point, field)
            if value is not None:
                by_epoch.setdefault(point.epoch, []).append(value)
    epochs = sorted(by_epoch)
    rows = [(np.mean(by_epoch[k]), min(by_epoch[k]), max(by_epoch[k])) for k in epochs]
    return np.array(epochs, dtype=np.float64), np.array(rows).reshape(-1, 3).T


def _measured_tasks(runs: Runs, names: Sequence[str], field: str) -> list[TaskRuns]:
    """Return the tasks on which one of these contestants has a curve of that quantity."""
    return [
        task
        for task in runs.values()
        if any(gather(task.get(name, {}).values(), field)[0].size for name in names)
    ]


def _entries(
    roster: Roster, tasks: Sequence[TaskRuns], names: Sequence[str]
) -> list[tuple[str, str, Any]]:
    present = [name for name in names if any(name in task for task in tasks)]
    looks = roster.looks
    return [(roster.titles[name], looks[name].colour, looks[name].dashes) for name in present]


def draw_band(axes: Axes, places: FloatArray, curves: FloatArray, look: Look) -> None:
    """Draw the first of three curves as a line in the area between the other two."""
    mean, low, high = curves
    axes.fill_between(places, low, high, color=look.colour, alpha=0.16, linewidth=0)
    # Dots show where it was measured, and a single epoch at all.
    marker = "o" if len(places) <= FEW_EPOCHS else ""
    line = {"color": look.colour, "linestyle": look.dashes}
    axes.plot(places, mean, marker=marker, markersize=3.5, **line)


def _label(axes: Axes, quantity: str, always: bool = False) -> None:
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    if always or is_leftmost(axes):
        axes.set_ylabel(quantity)


def count_nines(axes: Axes) -> None:
    """Scale an axis of `1 - cosine` by decades, best on top, and label it with the cosine."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(max(high, 0.11), min(low, 9e-4))
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda distance, _: f"{1 - distance:.7g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
