"""The drawing of a network for a phone: layers below each other, letters in their own size."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from experiments.reporting.plot_style import BLUE, INK, PAPER, SOFT, VERMILION

WIDE, HIGH, GAP, MARGIN = 128, 54, 56, 8
"""Of a box, between two, and around all, in pixels."""
ARC, TEXT = 36, 96
"""How far a curve bends to the right, and what its name and size take beside it."""


class Arrow(NamedTuple):
    """A coupling: where it begins and ends, and what stands at it."""

    source: str
    target: str
    name: str
    size: str
    both_ways: bool

    def steps(self, places: Mapping[str, int]) -> int:
        """Return how many arcs high it rises: none to its neighbour, one to itself."""
        apart = abs(places[self.target] - places[self.source])
        return 1 if apart == 0 else apart - 1


def tall_svg(boxes: Mapping[str, str], arrows: Sequence[Arrow], heads: str) -> str:
    """Return a drawing of boxes with their texts and of arrows between them."""
    places = {name: k for k, name in enumerate(boxes)}
    rise = max((arrow.steps(places) for arrow in arrows), default=0)
    width = 2 * MARGIN + WIDE + ARC * rise + TEXT
    height = 2 * MARGIN + len(boxes) * (HIGH + GAP) - GAP
    parts = [_arrow(arrow, places) for arrow in arrows]
    parts += [_box(name, text, places[name]) for name, text in boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">{heads}'
        f"{''.join(parts)}</svg>"
    )


def _box(name: str, text: str, place: int) -> str:
    top, middle = MARGIN + place * (HIGH + GAP), MARGIN + WIDE / 2
    return (
        f'<rect x="{MARGIN}" y="{top}" width="{WIDE}" height="{HIGH}" rx="8" fill="{PAPER}" '
        f'stroke="{SOFT}"/>'
        f'<text x="{middle:g}" y="{top + 23}" text-anchor="middle" font-weight="bold" '
        f'fill="{INK}">{escape(name)}</text>'
        f'<text x="{middle:g}" y="{top + 41}" text-anchor="middle" fill="{SOFT}">{escape(text)}'
        "</text>"
    )


def _arrow(arrow: Arrow, places: Mapping[str, int]) -> str:
    """Draw a line to a neighbour, a loop to itself, or an arc past others."""
    upper, lower = sorted((places[arrow.source], places[arrow.target]))
    if lower - upper == 1:
        x, end = MARGIN + WIDE / 2, MARGIN + lower * (HIGH + GAP)
        line, at = f"M{x:g} {end - GAP + 3}L{x:g} {end - 3}", (x + 10, end - GAP / 2)
    else:
        quarter = HIGH / 4 if upper == lower else 0
        begin = MARGIN + upper * (HIGH + GAP) + HIGH / 2 - quarter
        finish = MARGIN + lower * (HIGH + GAP) + HIGH / 2 + quarter
        edge, bend = MARGIN + WIDE + 3, ARC * arrow.steps(places)
        peak = edge + bend * 4 / 3  # a curve reaches three quarters of it
        line = f"M{edge} {begin:g}C{peak:g} {begin:g} {peak:g} {finish:g} {edge} {finish:g}"
        at = (edge + bend + 6, (begin + finish) / 2)
    colour, head = (BLUE, "both") if arrow.both_ways else (VERMILION, "one")
    ends = f'marker-end="url(#{head})"'
    ends += f' marker-start="url(#{head})"' if arrow.both_ways else ""
    x, y = at
    return (
        f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.6" {ends}/>'
        f'<text x="{x:g}" y="{y - 3:g}" fill="{INK}">{escape(arrow.name)}</text>'
        f'<text x="{x:g}" y="{y + 12:g}" fill="{SOFT}">{escape(arrow.size)}</text>'
    )
