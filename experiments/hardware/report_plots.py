"""The plots of the hardware report."""

from collections.abc import Callable, Mapping

import matplotlib
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.hardware.contest import Summary, accuracy_spread, design_of
from experiments.hardware.costs import Contest
from experiments.hardware.device_fit import device_of, draw_device
from experiments.hardware.floor_plan_plot import draw_floor_plans
from experiments.hardware.learning_plot import draw_learning
from experiments.hardware.mapping import mappings
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
    is_leftmost,
)
from hw_sim.chips.digital import DIGITAL
from hw_sim.prices.bill import LEAKAGE, Bill, grouped
from hw_sim.prices.break_even import break_even_map
from hw_sim.prices.reading import ALL_UNITS as UNIT_SIZES
from hw_sim.prices.technology import Technology

GROUPS = {
    "arithmetic": (
        ("mac", "activation", "cell_read", "addition", "compare", "divide", "random"),
        BLUE,
    ),
    "states": (("state_read", "state_write", "conversion"), SKY),
    "weights": (("weight_read", "weight_write"), ORANGE),
    "learning words": (("trace_read", "trace_write"), VERMILION),
    "traffic": (("message", "hop", "off_chip"), SOFT),
    "idle, leakage": ((LEAKAGE,), INK),
}
"""What the segments of a bar are made of."""
MICRO = "\N{MICRO SIGN}"
SHORT = {"backprop": "backprop", "bptt": "BPTT"}
LEVELS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Ratios at which the break-even map has lines, beside 1."""


def draw_plots(summary: Summary, technologies: Mapping[str, Technology]) -> list[Picture]:
    """Draw every plot for which there is something to draw."""
    plots: list[tuple[str, str, str, Callable[[], Drawing | None]]] = [
        (
            "energy",
            "Energy of training by component",
            "Energy of one training to the target, at nominal prices, in each technology. Traffic "
            "is messages, hops and words that cross the border of the chip.",
            lambda: draw_energy(summary),
        ),
        (
            "learning",
            "Accuracy against energy",
            "Accuracy on the validation part against the energy that training had taken, at "
            "nominal prices: mean over seeds at each look, and their range.",
            lambda: draw_learning(summary),
        ),
        (
            "floor_plan",
            "Floor plan",
            "EqProp on the tiles or cores of its chips, in their order on a square mesh. The lines "
            "or neurons in use are filled; dots are hot spots, their areas in proportion to what "
            "was counted in the inferences of the first seed.",
            lambda: draw_floor_plans(mappings(summary)),
        ),
        (
            "pareto",
            "Energy and accuracy over bit width",
            "Digital substrate, small network, all epochs of a sweep: test accuracy (mean and "
            "range over seeds) against the energy of training in digital_45nm.",
            lambda: draw_pareto(summary, technologies),
        ),
        (
            "break_even",
            "Break-even map",
            "EqProp over BPTT on the same network, in energy: where the ratio is below 1, EqProp "
            "is cheaper. (Against plain backprop see the table.) Vertically a factor on the steps "
            "of the relaxation, horizontally the price that decides most; the dot is the run with "
            "nominal prices.",
            lambda: draw_break_even(summary),
        ),
        (
            "sensitivity",
            "Which prices decide",
            "The ratio of EqProp to plain backprop when one price goes from its low to its high "
            "end and all others stay. Left of the line EqProp is cheaper.",
            lambda: draw_sensitivity(summary),
        ),
        (
            "device",
            "Measured device and its model",
            "Level of a cell after pulses up from the lowest and down from the highest: as "
            "measured, and the monotone curve along which the cells of the crossbar moved.",
            lambda: draw_device(device_of(summary)),
        ),
    ]
    pictures = []
    for name, title, caption, draw in plots:
        with matplotlib.rc_context(STYLE):
            drawing = draw()
        if drawing is not None:
            pictures.append(take_picture(name, title, caption, drawing))
    return pictures


def _label_plainly(axis: Axis, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """Mark a logarithmic axis at 1, 2 and 5, as plain numbers: powers would need mathtext."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _against(rival: str, summary: Summary) -> list[Contest]:
    return [contest for contest in summary.contests if contest.rival == rival]


def draw_energy(summary: Summary) -> Drawing | None:
    """One panel for each technology; a bar for each contender, stacked by component."""
    panels: dict[tuple[str, str], list[Contest]] = {}
    for contest in summary.contests:
        panels.setdefault((contest.substrate, contest.technology.name), []).append(contest)
    if not panels:
        return None
    figure, grid = draw_panels([title for _, title in panels])
    for axes, contests in zip(grid, panels.values(), strict=True):
        bars = [("EqProp", contests[0].ours)]
        bars += [(SHORT[contest.rival], contest.theirs) for contest in contests]
        for column, (_, bill) in enumerate(bars):
            base, kinds = 0.0, grouped(bill.energy_parts(), "kind")
            for members, colour in GROUPS.values():
                part = sum(kinds.get(kind, 0.0) for kind in members) / contests[0].seeds
                axes.bar(column, part, 0.62, base, color=colour)
                base += part
        axes.set_xticks(range(len(bars)), [name for name, _ in bars])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value, "J")))
        axes.grid(visible=False, axis="x")
    add_legend(figure, [(name, colour, "area") for name, (_, colour) in GROUPS.items()])
    return figure


def draw_pareto(summary: Summary, technologies: Mapping[str, Technology]) -> Drawing | None:
    """Accuracy against energy; one point for each width of a sweep."""
    swept = [o for o in summary.sweeps if o.substrate == DIGITAL.name and "read-out" not in o.label]
    technology = technologies.get(DIGITAL.technologies[0])
    if not swept or technology is None:
        return None
    figure, (axes,) = draw_panels([technology.name], height=3.4)
    for prefix, colour in (("weights", BLUE), ("states", VERMILION)):
        points = []
        for label in dict.fromkeys(o.label for o in swept if o.label.startswith(prefix)):
            group = [o for o in swept if o.label == label]
            energies = []
            for outcome in group:
                design = design_of(outcome, summary.networks["sweep"])
                energies.append(Bill(technology, design, outcome.curve[-1].done).energy_j)
            mean, _ = accuracy_spread(group)
            scores = [100 * o.accuracy for o in group]
            points.append((float(np.mean(energies)), 100 * mean, min(scores), max(scores), label))
        points.sort()
        x, y, low, high, labels = (list(column) for column in zip(*points, strict=True))
        spread = np.abs(np.array([low, high]) - y)
        axes.errorbar(x, y, spread, color=colour, marker="o", markersize=4, capsize=2)
        for k, label in enumerate(labels):
            axes.annotate(
                label.split()[1], (x[k], y[k]), (4, 5), textcoords="offset points",
                color=colour, fontsize=8,
            )  # fmt: skip
    axes.set_xlabel("energy of training")
    axes.set_ylabel("test accuracy, %")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value, "J")))
    add_legend(figure, [("bits of a weight", BLUE, "-"), ("bits of a state", VERMILION, "-")])
    return figure


def draw_break_even(summary: Summary) -> Drawing | None:
    """The ratio over the number of steps and the price that decides most."""
    contests = _against("bptt", summary)
    if not contests:
        return None
    titles = [f"{c.substrate}, {c.technology.name}" for c in contests]
    figure, grid = draw_panels(titles, height=2.8)
    factors = np.geomspace(0.02, 5.0, 60)
    for axes, contest in zip(grid, contests, strict=True):
        kind = contest.swings[0].kind
        price = {**contest.theirs.energy_sum().prices, **contest.ours.energy_sum().prices}[kind]
        unit = UNIT_SIZES[price.unit]
        prices = np.geomspace(price.low / 10, price.high * 10, 60)
        moved = prices / price.value
        ratio = break_even_map(contest.ours, contest.theirs, kind, factors, moved)
        place, (low, high) = (prices / unit, factors, ratio), (ratio.min(), ratio.max())
        levels = [level for level in LEVELS if low < level < high]
        axes.set_xscale("log")  # first: the gap of a label is as wide as it is drawn
        axes.set_yscale("log")
        if levels:
            lines = axes.contour(*place, levels, colors=SOFT, linewidths=0.7)
            axes.clabel(lines, fmt="%g", fontsize=7)
        if low < 1.0:
            axes.contourf(*place, [0.0, 1.0], colors=[SKY], alpha=0.45)
        if low < 1.0 < high:
            axes.contour(*place, [1.0], colors=BLUE, linewidths=1.8)
        axes.plot(price.value / unit, 1.0, "o", color=VERMILION, markersize=5)
        axes.axvspan(price.low / unit, price.high / unit, color=SOFT, alpha=0.12, lw=0)
        _label_plainly(axes.xaxis, subs=(1.0,))
        _label_plainly(axes.yaxis)
        axes.set_xlabel(f"{kind}, {price.unit.replace('u', MICRO)}")
        if is_leftmost(axes):
            axes.set_ylabel("factor on the steps")
    add_legend(
        figure,
        [("as cheap as BPTT", BLUE, "-"), ("EqProp cheaper", SKY, "area"),
         ("range of the price", "#e6e7e9", "area"), ("this run", VERMILION, "dot")],
    )  # fmt: skip
    return figure


def draw_sensitivity(summary: Summary) -> Drawing | None:
    """How far each price moves the ratio."""
    contests = _against("backprop", summary)
    if not contests:
        return None
    titles = [f"{c.substrate}, {c.technology.name}" for c in contests]
    figure, grid = draw_panels(titles)
    for axes, contest in zip(grid, contests, strict=True):
        swings = [swing for swing in contest.swings if swing.size > 1.001][:6]
        for row, swing in enumerate(swings):
            axes.plot([swing.low, swing.high], [row, row], color=BLUE, linewidth=6)
        axes.axvline(contest.ratio.both.nominal, color=VERMILION, linewidth=1.2)
        axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=DASHED)
        axes.set_yticks(range(len(swings)), [swing.kind for swing in swings])
        axes.set_ylim(len(swings) - 0.4, -0.6)
        axes.set_xscale("log")
        _label_plainly(axes.xaxis)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("EqProp / backprop")
    add_legend(
        figure,
        [("from the low to the high price", BLUE, "-"), ("nominal", VERMILION, "-"),
         ("equal", INK, DASHED)],
    )  # fmt: skip
    return figure
