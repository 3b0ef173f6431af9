"""Symbols of a schematic: resistor, diode, capacitor, sources, ground. Lengths are in its grid."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Polygon

from experiments.reporting.plot_style import INK, PAPER

Point = tuple[float, float]
TEETH, TOOTH, LENGTH = 3, 0.085, 0.5
WIRE = 0.8


def wire(axes: Axes, *points: Point, color: str = INK, width: float = WIRE, **look: Any) -> None:
    """Draw a line through points."""
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=color, linewidth=width, solid_joinstyle="round", **look)


def resistor(
    axes: Axes, begin: Point, end: Point, at: float, color: str = INK, width: float = WIRE
) -> None:
    """Draw a zigzag in a wire, with its middle so far from the end."""
    a, b = np.array(begin), np.array(end)
    along = (b - a) / np.linalg.norm(b - a)
    across = np.array([-along[1], along[0]])
    first = b - (at + LENGTH / 2) * along
    steps = (np.arange(2 * TEETH) + 0.5) / (2 * TEETH) * LENGTH
    sides = TOOTH * np.where(np.arange(2 * TEETH) % 2, -1.0, 1.0)
    teeth = first + steps[:, None] * along + sides[:, None] * across
    wire(axes, tuple(a), tuple(first), color=color, width=WIRE, alpha=0.55)
    last = first + LENGTH * along
    wire(axes, tuple(first), *map(tuple, teeth), tuple(last), color=color, width=width)
    wire(axes, tuple(last), tuple(b), color=color, width=WIRE, alpha=0.55)


def ground(axes: Axes, at: Point) -> None:
    """Draw the three lines of a ground."""
    x, y = at
    for k, half in enumerate((0.15, 0.095, 0.04)):
        wire(axes, (x - half, y - 0.06 * k), (x + half, y - 0.06 * k))


def diode(axes: Axes, top: Point, bottom: Point, up: bool) -> None:
    """Draw a diode in a vertical wire, which conducts upwards or downwards."""
    (x, high), (_, low) = top, bottom
    middle, half, side = (high + low) / 2, 0.11, 0.12
    wire(axes, top, (x, middle + half))
    wire(axes, (x, middle - half), bottom)
    tip, base = (middle + half, middle - half) if up else (middle - half, middle + half)
    shape = [(x, tip), (x - side, base), (x + side, base)]
    axes.add_patch(Polygon(shape, closed=True, facecolor=INK, edgecolor=INK, linewidth=WIRE))
    wire(axes, (x - side, tip), (x + side, tip), width=1.3)


def capacitor(axes: Axes, top: Point, bottom: Point) -> None:
    """Draw two plates in a vertical wire."""
    (x, high), (_, low) = top, bottom
    middle = (high + low) / 2
    for side in (0.04, -0.04):
        wire(axes, (x - 0.13, middle + side), (x + 0.13, middle + side), width=1.3)
    wire(axes, top, (x, middle + 0.04))
    wire(axes, (x, middle - 0.04), bottom)


def current_source(
    axes: Axes, at: Point, towards: Point, color: str = INK, radius: float = 0.16
) -> None:
    """Draw a circle with an arrow in the direction of its current."""
    axes.add_patch(Circle(at, radius, facecolor=PAPER, edgecolor=color, linewidth=1.0, zorder=3))
    way = np.subtract(towards, at)
    way = way / np.linalg.norm(way) * radius * 0.7
    look: dict[str, Any] = {"arrowstyle": "->", "color": color, "linewidth": 1.0, "shrinkA": 0}
    ends = tuple(np.add(at, way)), tuple(np.subtract(at, way))
    axes.annotate("", ends[0], ends[1], arrowprops=look | {"shrinkB": 0}, zorder=4)


def voltage_source(axes: Axes, at: Point, sign: str, color: str, radius: float = 0.2) -> None:
    """Draw a circle with its sign."""
    axes.add_patch(Circle(at, radius, facecolor=PAPER, edgecolor=color, linewidth=1.2, zorder=3))
    axes.text(*at, sign, color=color, ha="center", va="center_baseline", fontsize=9, zorder=4)


def amplifier(axes: Axes, at: Point) -> None:
    """Draw a triangle that points to the right."""
    x, y = at
    shape = [(x - 0.16, y + 0.17), (x - 0.16, y - 0.17), (x + 0.18, y)]
    look: dict[str, Any] = {"facecolor": PAPER, "edgecolor": INK, "linewidth": 1.0, "zorder": 3}
    axes.add_patch(Polygon(shape, closed=True, **look))
