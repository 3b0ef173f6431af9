"""What the specimens of a circuit show: a table, and accuracy against spread as a plot."""

from collections.abc import Iterable

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from engine.arrays import FloatArray
from experiments.circuit.specimens import Design, Tried
from experiments.contest.curves import draw_band
from experiments.contest.roster import Look
from experiments.reporting.document import Cell, Table
from experiments.reporting.number_text import percent, points
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    GRID,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
    is_leftmost,
    to_png,
)

PLOT = "spread.png"
WAYS = {"loaded": "trained ideally, then loaded", "in_place": "trained in place"}
LOOKS = {"loaded": Look(VERMILION, DASHED), "in_place": Look(BLUE)}
KINDS = {
    "device": ("Conductances", "deviation of the logarithm of a conductance"),
    "diode": ("Diodes", "deviation of the threshold of a diode (V)"),
}
"""What may be spread: the title of its panel, and its axis."""


def spread_table(outcomes: Iterable[Tried], title: str, design: Design) -> Table:
    """List each spread with what both ways get right, and the specimens that gain by the second."""
    groups: dict[tuple[float, float], list[Tried]] = {}
    for one in outcomes:
        groups.setdefault((one.specimen.device, one.specimen.diode), []).append(one)
    rows: list[tuple[Cell, ...]] = []
    for (device, diode), found in groups.items():
        loaded, in_place = (_accuracies(found, way) for way in WAYS)
        gain = in_place - loaded
        signs = (int((gain > 0).sum()), int((gain == 0).sum()), int((gain < 0).sum()))
        rows.append(
            (
                f"{device:g}",
                f"{diode:g}",
                f"{len(found)}",
                percent(float(loaded.mean()), _deviation(loaded)),
                percent(float(loaded.min())),
                percent(float(in_place.mean()), _deviation(in_place)),
                percent(float(in_place.min())),
                points(float(gain.mean())),
                " / ".join(map(str, signs)),
            )
        )
    sizes = ", ".join(map(str, design.hidden))
    late = max(one.unsettled for found in groups.values() for one in found)
    return Table(
        f"{title}: a circuit with {sizes} hidden nodes and its specimens",
        (
            "Mismatch of\nconductances",
            "Spread of\ndiodes, V",
            "Specimens",
            "Loaded, %",
            "worst",
            "In place, %",
            "worst",
            "Gain, points",
            "better / same\n/ worse",
        ),
        tuple(rows),
        caption=f"Percent of the {design.judged_by} part, mean ± standard deviation over draws and "
        "seeds. Mismatch: standard deviation of the logarithm of what a device conducts over what "
        "was programmed. Better: specimens that are more often right when they were trained in "
        f"place. Largest share of relaxations that did not settle: {100 * late:.2g} %.",
        text_columns=0,
    )


def draw_spread(outcomes: list[Tried]) -> bytes:
    """Draw accuracy against each spread: mean, and the range from the worst to the best."""
    shown = [kind for kind in KINDS if len({getattr(o.specimen, kind) for o in outcomes}) > 1]
    shown = shown or list(KINDS)[:1]
    with matplotlib.rc_context(STYLE):
        figure, panels = draw_panels([KINDS[kind][0] for kind in shown], height=3.0)
        for axes, kind in zip(panels, shown, strict=True):
            others = [other for other in KINDS if other != kind]
            alone = [o for o in outcomes if not any(getattr(o.specimen, x) for x in others)]
            _draw_kind(axes, kind, alone)
        entries = [(WAYS[way], look.colour, look.dashes) for way, look in LOOKS.items()]
        add_legend(figure, [*entries, ("from the worst to the best", GRID, "area")])
        return to_png(figure)


def _draw_kind(axes: Axes, kind: str, outcomes: list[Tried]) -> None:
    spreads = sorted({getattr(one.specimen, kind) for one in outcomes})
    for way, look in LOOKS.items():
        at = [
            _accuracies([one for one in outcomes if getattr(one.specimen, kind) == spread], way)
            for spread in spreads
        ]
        curves = np.array([[a.mean() for a in at], [a.min() for a in at], [a.max() for a in at]])
        draw_band(axes, np.array(spreads), 100 * curves, look)
    axes.set_xlabel(KINDS[kind][1])
    axes.set_ylim(top=100.0)
    if is_leftmost(axes):
        axes.set_ylabel("right, of held-out data (%)")


def _accuracies(outcomes: list[Tried], way: str) -> FloatArray:
    return np.array([getattr(one, way) for one in outcomes])


def _deviation(values: FloatArray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")
