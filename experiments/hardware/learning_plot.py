"""Accuracy against the energy that was spent on it, as learning goes on."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.hardware.contest import Group, Summary, design_of, in_time
from experiments.hardware.costs import Contest, Cost
from experiments.hardware.report_tables import LEARNER_TITLES
from experiments.reporting.number_text import in_units
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    ORANGE,
    SOFT,
    VERMILION,
    add_legend,
    draw_panels,
    is_leftmost,
)
from hw_sim.counts import Amounts
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import Technology

COLOURS = {"eqprop": BLUE, "backprop": VERMILION, "bptt": ORANGE}
SHOWN_BELOW = 0.15
"""How far below the target a panel begins."""


def draw_learning(summary: Summary) -> Drawing | None:
    """One panel for each technology; a line for each learner, with the range of its seeds."""
    priced: list[Contest | Cost] = [*summary.contests, *summary.costs]
    panels = {(found.substrate, found.technology.name): found.technology for found in priced}
    if not panels:
        return None
    figure, grid = draw_panels([title for _, title in panels], height=2.8)
    ran = [name for name in LEARNER_TITLES if any(name == key[0] for key in summary.outcomes)]
    for axes, ((substrate, _), technology) in zip(grid, panels.items(), strict=True):
        for learner in ran:
            group = summary.outcomes[learner, substrate]
            design = design_of(group[0], summary.networks[learner])
            _draw_learner(axes, group, design, technology)
        goals = [goal for (name, _), goal in summary.targets.items() if name == substrate]
        target = float(np.mean(goals))
        axes.axhline(100 * target, color=SOFT, linestyle=DASHED, linewidth=1.0)
        axes.set_ylim(100 * max(0.0, target - SHOWN_BELOW), 100.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value, "J")))
        axes.xaxis.set_minor_formatter(NullFormatter())
        if is_leftmost(axes):
            axes.set_ylabel("validation accuracy, %")
    entries = [(LEARNER_TITLES[name], COLOURS[name], "-") for name in ran]
    add_legend(figure, [*entries, ("mean target", SOFT, DASHED)])
    return figure


def _draw_learner(axes: Axes, group: Group, design: Design, technology: Technology) -> None:
    """Draw the mean over seeds at each look, against their mean energy until then."""
    scores = 100 * np.array([[point.accuracy for point in o.curve] for o in group])
    spent = []
    for looks in zip(*(outcome.curve for outcome in group), strict=True):
        runs = zip(group, looks, strict=True)
        done = sum((in_time(run, design.network, look.done) for run, look in runs), Amounts())
        spent.append(Bill(technology, design, done).energy_j / len(group))
    colour = COLOURS[group[0].learner]
    axes.fill_between(spent, scores.min(0), scores.max(0), color=colour, alpha=0.15, lw=0)
    axes.plot(spent, scores.mean(0), color=colour, linewidth=1.3)
