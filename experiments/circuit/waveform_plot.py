"""The voltages of a circuit while it settles, by ngspice and by the engine, over each other."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from adapters.spice_transient import Waveform
from engine.arrays import FloatArray
from experiments.reporting.plot_style import (
    DOTTED,
    INK,
    PANEL_HEIGHT,
    SKY,
    SOFT,
    STYLE,
    VERMILION,
    add_legend,
    draw_panels,
)

MOST_CURVES = 12
"""Nodes of a panel; of more some are drawn, evenly by their last voltage."""
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


class Waveforms(NamedTuple):
    """One phase of one sample."""

    title: str
    spice: Waveform
    engine: Waveform


def draw_courses(courses: Sequence[Waveforms], settled_s: Sequence[float]) -> Figure:
    """Draw a panel for each phase; a line marks when the engine has settled."""
    with matplotlib.rc_context(STYLE):
        figure, panels = draw_panels([course.title for course in courses], 1.3 * PANEL_HEIGHT)
        for axes, course, settled in zip(panels, courses, settled_s, strict=True):
            unit, name = _unit(course.spice.times_s[-1])
            times = course.spice.times_s / unit
            for k in _chosen(course.engine.voltages):
                first = course.engine.voltages[0, k]
                axes.plot(times, course.engine.voltages[:, k] - first, color=SKY, linewidth=2.6)
                spice = course.spice.voltages[:, k] - first
                axes.plot(times, spice, color=INK, linewidth=1.0, ls=DOTTED)
            axes.axvline(settled / unit, color=VERMILION, linewidth=1.0)
            axes.axhline(0.0, color=SOFT, linewidth=0.7)
            axes.set_xlim(0.0, times[-1])
            axes.set_xlabel(f"time ({name})")
            axes.set_ylabel("change of a voltage (V)")
        entries = [
            ("engine", SKY, "-"), ("ngspice", INK, DOTTED), ("settled", VERMILION, "-"),
        ]  # fmt: skip
        add_legend(figure, entries)
    return figure


def _chosen(voltages: FloatArray) -> list[int]:
    """Return the nodes that are drawn: those that move most differently."""
    order = np.argsort(voltages[-1] - voltages[0])
    places = np.linspace(0, len(order) - 1, min(MOST_CURVES, len(order))).round().astype(int)
    return [int(k) for k in order[places]]


def _unit(longest_s: float) -> tuple[float, str]:
    return next(((unit, name) for unit, name in UNITS if longest_s >= unit), UNITS[-1])
