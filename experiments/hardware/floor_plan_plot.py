"""The floor plan as a picture: every tile or core on its mesh, what is in use, and hot spots."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Circle, Rectangle

from experiments.hardware.mapping import ChipMapping
from experiments.reporting.plot_style import INK, SKY, SOFT, VERMILION, add_legend, draw_panels

MOST_NAMED = 10
"""Side of the largest mesh whose spots have their names written in them."""
SIDE = 0.86
"""Of a spot on the mesh, whose places are one apart."""
LARGEST_DOT = 0.26
"""Radius of the busiest spot."""


def draw_floor_plans(mappings: Sequence[ChipMapping]) -> Drawing | None:
    """One panel for each substrate with tiles or cores."""
    if not mappings:
        return None
    titles = [_title(mapping) for mapping in mappings]
    figure, grid = draw_panels(titles, height=3.6)
    for axes, mapping in zip(grid, mappings, strict=True):
        _draw_mesh(axes, mapping)
    add_legend(
        figure,
        [
            ("in use (%: of all)", SKY, "area"),
            ("hot spots: what each did, by area", VERMILION, "area"),
        ],
    )
    return figure


def _title(mapping: ChipMapping) -> str:
    plan, chip = mapping.plan, mapping.substrate
    return f"{chip}: {len(plan.spots)} {plan.part}s, {100 * plan.utilisation:.0f} %"


def _draw_mesh(axes: Axes, mapping: ChipMapping) -> None:
    """Draw spots row by row from the top; dots have areas in proportion to how busy they were."""
    plan, most = mapping.plan, float(mapping.busy.max(initial=0.0))
    for k, spot in enumerate(plan.spots):
        row, column = divmod(k, plan.side)
        left, top = column - SIDE / 2, row - SIDE / 2
        height = SIDE * spot.rows / plan.shape[0]
        width = SIDE * spot.columns / plan.shape[1]
        axes.add_patch(Rectangle((left, top), width, height, facecolor=SKY, alpha=0.4, linewidth=0))
        axes.add_patch(
            Rectangle((left, top), SIDE, SIDE, fill=False, edgecolor=SOFT, linewidth=0.7)
        )
        radius = LARGEST_DOT * float(mapping.busy[k] / most) ** 0.5 if most else 0.0
        axes.add_patch(Circle((column, row), radius, facecolor=VERMILION, linewidth=0))
        if plan.side <= MOST_NAMED:
            axes.text(left + 0.03, top + 0.03, spot.holds, va="top", fontsize=6, color=INK)
            busy = f"{mapping.busy[k]:,.0f}"
            below = top + SIDE - 0.03
            axes.text(column, below, busy, va="bottom", ha="center", fontsize=6, color=INK)
    rows = -(-len(plan.spots) // plan.side)
    axes.set_xlim(-0.5, plan.side - 0.5)
    axes.set_ylim(rows - 0.38, -0.5)
    axes.set_aspect("equal", anchor="N")
    axes.set_xlabel(f"{plan.busy_in}, in an inference")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
