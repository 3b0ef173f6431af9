"""The pictures of the transformer report: what tokens attend to, and how training went."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import (
    BLUE,
    DASHED,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
    is_leftmost,
)
from experiments.transformer.settings import LEAST_COSINE
from experiments.transformer.summary import Kind
from experiments.transformer.training import BACKPROP, EQPROP, METHODS

COLOURS = {EQPROP: BLUE, BACKPROP: VERMILION}
SMALLEST = 1e-6
"""Distances of a cosine from one below this are drawn there."""


def draw_plots(kinds: list[Kind]) -> list[Picture]:
    """Draw every plot for which there is something to draw."""
    plots: list[tuple[str, str, str, Callable[[list[Kind]], Drawing | None]]] = [
        (
            "attention",
            "What tokens attend to",
            "Probability with which the token at a row attends to the token at a column, at "
            "equilibrium: mean over test sequences, first seed, each head. A token does not see "
            "itself.",
            draw_attention,
        ),
        (
            "learning",
            "Learning",
            "Cost per token on validation sequences during training, each seed.",
            lambda kinds: draw_curves(kinds, "cost", "cost per token"),
        ),
        (
            "gradient_cosine",
            "Gradient against autograd",
            "One minus the cosine of the gradient, as training estimates it, with that of autograd "
            "through 300 steps, on validation sequences, each seed. The dotted line is the goal.",
            draw_cosines,
        ),
        (
            "relaxation_steps",
            "Relaxation steps in training",
            "Mean number of steps of the free phase, each seed.",
            lambda kinds: draw_curves(kinds, "free_steps", "steps", logarithmic=False),
        ),
    ]
    with matplotlib.rc_context(STYLE):
        drawings = [draw(kinds) if kinds else None for *_, draw in plots]
    return [
        take_picture(name, title, caption, drawing)
        for (name, title, caption, _), drawing in zip(plots, drawings, strict=True)
        if drawing is not None
    ]


def draw_attention(kinds: list[Kind]) -> Drawing | None:
    """Draw the map of each head of the first EqProp run of each kind."""
    first = [(kind, kind.runs[EQPROP][0]) for kind in kinds if kind.runs.get(EQPROP)]
    maps = {
        f"{kind.task} {kind.vocabulary}x{kind.length}, head {h + 1}": head
        for kind, run in first
        for h, head in enumerate(run.attention)
    }
    return draw_maps(maps) if maps else None


def draw_maps(maps: Mapping[str, Sequence[Sequence[float]]]) -> Drawing:
    """Draw attention maps `(length, length)`, a panel for each under its title."""
    figure, panels = draw_panels(list(maps), height=3.1)
    for axes, head in zip(panels, maps.values(), strict=True):
        axes.imshow(np.array(head), vmin=0.0, vmax=1.0, cmap="Blues")
        axes.grid(visible=False)
        axes.set_xlabel("attends to position")
        if is_leftmost(axes):
            axes.set_ylabel("position")
    figure.colorbar(panels[0].images[0], ax=panels, shrink=0.7, label="probability")
    return figure


def draw_curves(
    kinds: list[Kind], field: str, label: str, *, logarithmic: bool = True
) -> Drawing | None:
    """Draw a quantity over the updates, a panel for each kind and a line for each run."""
    figure, panels = draw_panels([kind.title for kind in kinds])
    for axes, kind in zip(panels, kinds, strict=True):
        for method, runs in kind.runs.items():
            for run in runs:
                updates = [moment.update for moment in run.curve]
                values = [getattr(moment, field) for moment in run.curve]
                line = "-" if method == EQPROP else DASHED
                axes.plot(updates, values, color=COLOURS[method], linestyle=line, marker=".")
        if logarithmic:
            _scale_by_decades(axes)
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel("update")
        if is_leftmost(axes):
            axes.set_ylabel(label)
    present = [m for m in COLOURS if any(m in kind.runs for kind in kinds)]
    add_legend(figure, [(METHODS[m], COLOURS[m], "-" if m == EQPROP else DASHED) for m in present])
    return figure


def draw_cosines(kinds: list[Kind]) -> Drawing | None:
    """Draw how far the cosine with autograd is from one, in the trainings by EqProp."""
    trained = [kind for kind in kinds if kind.runs.get(EQPROP)]
    if not trained:
        return None
    figure, panels = draw_panels([kind.title for kind in trained])
    for axes, kind in zip(panels, trained, strict=True):
        for run in kind.runs[EQPROP]:
            updates = [moment.update for moment in run.curve]
            distance = [max(1 - moment.cosine, SMALLEST) for moment in run.curve]
            axes.plot(updates, distance, color=COLOURS[EQPROP], marker=".")
        axes.axhline(1 - LEAST_COSINE, color=VERMILION, linestyle=":")
        _scale_by_decades(axes)
        axes.set_xlabel("update")
        if is_leftmost(axes):
            axes.set_ylabel("1 - cosine")
    return figure


def _scale_by_decades(axes: Axes) -> None:
    """Make the axis logarithmic with numbers as they are written: no powers, no markup."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
