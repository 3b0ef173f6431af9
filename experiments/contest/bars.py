"""Plots of one number for each contestant: gap, accuracy, seconds per epoch."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from experiments.contest.metrics import METRICS, R2
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs, task_title
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.reporting.plot_style import (
    DOTTED,
    GRID,
    PANEL_WIDTH,
    SOFT,
    add_legend,
    draw_panels,
    is_leftmost,
    wrapped,
)


def draw_gaps(roster: Roster, summary: ContestSummary) -> Figure | None:
    """Draw each gap with its interval over the margin; `None` if nothing was compared."""
    tasks = [task for task in summary.tasks if task.judgements]
    if not tasks:
        return None
    figure = Figure(figsize=(3 * PANEL_WIDTH, 0.62 * len(tasks) + 1.2), layout="constrained")
    axes = figure.subplots()
    named = {task.metric: None for task in tasks}
    times = 1 if named.keys() == {R2.name} else 100  # the tables have R² as it is
    for row, task in enumerate(tasks):
        margin = times * next(iter(task.judgements.values())).comparison.margin
        axes.add_patch(Rectangle((-margin, row - 0.36), 2 * margin, 0.72, color=GRID, zorder=0.5))
        for name, judged in task.judgements.items():
            shift = 0.28 * (roster.eqprop.index(name) - (len(roster.eqprop) - 1) / 2)
            case, y, colour = judged.comparison, row + shift, roster.looks[name].colour
            if case.seeds > 1:
                low, high = case.interval
                axes.plot([times * low, times * high], [y, y], color=colour, linewidth=2.2)
            axes.plot(times * case.difference, y, "o", color=colour, markersize=6.5)
    axes.axvline(0.0, color=SOFT, linewidth=0.8)
    axes.set_yticks(range(len(tasks)), [wrapped(task.title) for task in tasks])
    axes.set_ylim(len(tasks) - 0.45, -0.55)
    of_r2 = "R²" if times == 1 else "hundredths of R²"
    units = "; ".join({R2.name: of_r2}.get(name, "percentage points") for name in named)
    axes.set_xlabel(f"EqProp minus {roster.rival_title} ({units})")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.06)
    present = [name for name in roster.eqprop if any(name in task.judgements for task in tasks)]
    entries = [(roster.titles[name], roster.looks[name].colour, "-") for name in present]
    add_legend(figure, [*entries, ("Margin of equivalence", GRID, "area")])
    return figure


def draw_accuracies(roster: Roster, summary: ContestSummary) -> Figure | None:
    """Draw mean, interval and seeds of every contestant; `None` if none of them ran."""
    present = [
        name for name in roster.contestants if any(name in task.results for task in summary.tasks)
    ]
    if not present:
        return None
    figure, panels = draw_panels([task.title for task in summary.tasks], height=1.9)
    for axes, task in zip(panels, summary.tasks, strict=True):
        _draw_accuracy(axes, roster, task, present)
        _name_rows(axes, [roster.titles[name] for name in present])
        axes.set_xlabel(METRICS[task.metric].axis)
    if any(task.name in roster.goals for task in summary.tasks):
        add_legend(figure, [("Goal for EqProp", SOFT, DOTTED)])
    return figure


def draw_seconds(roster: Roster, runs: Runs) -> Figure | None:
    """Draw the median time of an epoch; `None` if no epoch of a contestant was timed."""
    present = [name for name in roster.contestants if any(name in task for task in runs.values())]
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
            axes.barh(row, middle, height=0.62, color=roster.looks[name].colour)
            axes.plot([low, high], [row, row], color=SOFT, linewidth=1.2)
            axes.text(
                max(middle, high),
                row,
                f"  {middle:.{1 if middle >= 10 else 2}f}",
                va="center",
                color=SOFT,
            )
        _name_rows(axes, [roster.titles[name] for name in present])
        axes.margins(x=0.18)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds per epoch")
    return figure


def _draw_accuracy(axes: Axes, roster: Roster, task: TaskSummary, names: list[str]) -> None:
    shown: list[float] = []
    metric = METRICS[task.metric]
    for row, name in enumerate(names):
        result = task.results.get(name)
        if result is None:
            continue
        colour = roster.looks[name].colour
        seeds = [metric.scale * accuracy for accuracy in result.accuracies.values()]
        axes.plot(seeds, [row + 0.26] * len(seeds), ".", color=colour, alpha=0.7)
        if result.interval is not None:
            ends = [metric.scale * end for end in result.interval]
            axes.plot(ends, [row, row], color=colour, linewidth=2.2)
            shown += ends
        axes.plot(metric.scale * result.mean, row, "o", color=colour, markersize=6.5)
        shown += seeds
    goal = roster.goals.get(task.name)
    if goal is not None and goal.accuracy is not None:
        axes.axvline(100 * goal.accuracy, color=SOFT, linestyle=DOTTED)
        shown.append(100 * goal.accuracy)
    if shown:
        axes.set_xlim(*metric.limits(np.array(shown)))
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _name_rows(axes: Axes, titles: list[str]) -> None:
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelleft=is_leftmost(axes))
    axes.grid(visible=False, axis="y")
