"""Plots of one number for each contestant: gap, accuracy, seconds per epoch."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from experiments.parity.goals import REFERENCES
from experiments.parity.roster import CONTESTANTS, EQPROP, TITLES, Runs, task_title
from experiments.parity.summary import ParitySummary, TaskSummary
from experiments.reporting.plot_style import (
    BLUE,
    DOTTED,
    GRID,
    ORANGE,
    PANEL_WIDTH,
    SKY,
    SOFT,
    VERMILION,
    accuracy_limits,
    add_legend,
    draw_panels,
    is_leftmost,
    shortened,
)

COLOURS = dict(zip(CONTESTANTS, (BLUE, SKY, VERMILION, ORANGE), strict=True))
"""Blues learn by EqProp, reds by backprop; the darker of the two is the looped network."""


def draw_gaps(summary: ParitySummary) -> Figure | None:
    """Draw each gap with its interval over the margin; `None` if nothing was compared."""
    tasks = [task for task in summary.tasks if task.judgements]
    if not tasks:
        return None
    figure = Figure(figsize=(3 * PANEL_WIDTH, 0.62 * len(tasks) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, task in enumerate(tasks):
        margin = 100 * next(iter(task.judgements.values())).comparison.margin
        axes.add_patch(Rectangle((-margin, row - 0.36), 2 * margin, 0.72, color=GRID, zorder=0.5))
        for name, judged in task.judgements.items():
            case, y = judged.comparison, row + (-0.14 if name == EQPROP[0] else 0.14)
            if case.seeds > 1:
                low, high = case.interval
                axes.plot([100 * low, 100 * high], [y, y], color=COLOURS[name], linewidth=2.2)
            axes.plot(100 * case.difference, y, "o", color=COLOURS[name], markersize=6.5)
    axes.axvline(0.0, color=SOFT, linewidth=0.8)
    axes.set_yticks(range(len(tasks)), [shortened(task.title) for task in tasks])
    axes.set_ylim(len(tasks) - 0.45, -0.55)
    axes.set_xlabel("EqProp minus best backprop (percentage points)")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.06)
    present = [name for name in EQPROP if any(name in task.judgements for task in tasks)]
    entries = [(TITLES[name], COLOURS[name], "-") for name in present]
    add_legend(figure, [*entries, ("Margin of equivalence", GRID, "area")])
    return figure


def draw_accuracies(summary: ParitySummary) -> Figure | None:
    """Draw mean, interval and seeds of every contestant; `None` if none of them ran."""
    present = [name for name in CONTESTANTS if any(name in task.results for task in summary.tasks)]
    if not present:
        return None
    figure, panels = draw_panels([task.title for task in summary.tasks], height=1.9)
    for axes, task in zip(panels, summary.tasks, strict=True):
        _draw_accuracy(axes, task, present)
        _name_rows(axes, present)
        axes.set_xlabel("test accuracy (%)")
    if any(task.name in REFERENCES for task in summary.tasks):
        add_legend(figure, [("Goal for EqProp", SOFT, DOTTED)])
    return figure


def draw_seconds(runs: Runs) -> Figure | None:
    """Draw the median time of an epoch; `None` if no epoch of a contestant was timed."""
    present = [name for name in CONTESTANTS if any(name in task for task in runs.values())]
    if not present:
        return None
    figure, panels = draw_panels([task_title(task) for task in runs.values()], height=1.9)
    for axes, contestants in zip(panels, runs.values(), strict=True):
        for row, name in enumerate(present):
            records = contestants.get(name, {}).values()
            seconds = [point.seconds for record in records for point in record.curve]
            if not seconds:
                continue
            low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
            axes.barh(row, middle, height=0.62, color=COLOURS[name])
            axes.plot([low, high], [row, row], color=SOFT, linewidth=1.2)
            axes.text(
                max(middle, high),
                row,
                f"  {middle:.{1 if middle >= 10 else 2}f}",
                va="center",
                color=SOFT,
            )
        _name_rows(axes, present)
        axes.margins(x=0.18)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds per epoch")
    return figure


def _draw_accuracy(axes: Axes, task: TaskSummary, names: list[str]) -> None:
    shown: list[float] = []
    for row, name in enumerate(names):
        result = task.results.get(name)
        if result is None:
            continue
        seeds = [100 * accuracy for accuracy in result.accuracies.values()]
        axes.plot(seeds, [row + 0.26] * len(seeds), ".", color=COLOURS[name], alpha=0.7)
        if result.interval is not None:
            ends = [100 * end for end in result.interval]
            axes.plot(ends, [row, row], color=COLOURS[name], linewidth=2.2)
            shown += ends
        axes.plot(100 * result.mean, row, "o", color=COLOURS[name], markersize=6.5)
        shown += seeds
    if task.name in REFERENCES:
        goal = 100 * REFERENCES[task.name].goal
        axes.axvline(goal, color=SOFT, linestyle=DOTTED)
        shown.append(goal)
    if shown:
        axes.set_xlim(*accuracy_limits(np.array(shown)))
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), [TITLES[name] for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelleft=is_leftmost(axes))
    axes.grid(visible=False, axis="y")
