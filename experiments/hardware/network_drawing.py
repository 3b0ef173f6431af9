"""A network as a drawing: layers as boxes with their sizes, couplings as arrows between them."""

from html import escape

from engine.couplings.link import INPUT, ONE, OUTPUT
from engine.model.network import Network
from experiments.hardware.tall_drawing import Arrow, tall_svg
from experiments.reporting.document import Figure
from experiments.reporting.plot_style import BLUE, INK, PAPER, SOFT, VERMILION, for_dark_page

WIDE, HIGH, GAP, MARGIN = 128, 58, 132, 14
"""Of a box, between two, and around all, in pixels."""
ARC, TEXT = 40, 30
"""How far the curve of a coupling that passes by a box, or returns to its own, rises, and what its
name and size take above it."""
PATH = "plots/network.svg"


def draw_network(network: Network, title: str = "The network of EqProp") -> Figure:
    """Return a drawing of a network; biases are left out."""
    boxes, found = boxes_of(network), arrows_of(network)
    places = {name: k for k, name in enumerate(boxes)}
    rise = max((arrow.steps(places) for arrow in found), default=0)
    top = MARGIN + (ARC * rise + TEXT if rise else 0)
    width = 2 * MARGIN + len(boxes) * (WIDE + GAP) - GAP
    height = top + HIGH + MARGIN
    parts = [_arrow(arrow, places, top) for arrow in found]
    parts += [_box(name, text, places[name], top) for name, text in boxes.items()]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">{_heads()}'
        f"{''.join(parts)}</svg>"
    )
    caption = (
        "Layers with their sizes, and the matrices or kernels between them. Blue arrows carry "
        "signals both ways with the same weights (over a read-out the nudge returns), orange ones "
        "forward alone. Biases are not drawn."
    )
    tall = tall_svg(boxes, found, _heads())
    return Figure(title, caption, PATH, svg, for_dark_page(svg), (tall, for_dark_page(tall)))


def boxes_of(network: Network) -> dict[str, str]:
    """Return what stands in each box, by name: input, layers and, if they are none, the outputs."""
    found = {INPUT: f"{network.inputs:,} inputs"}
    for layer in network.layers:
        shape = " x ".join(f"{size:,}" for size in layer.shape)
        found[layer.name] = f"{shape} {layer.activation}"
    if network.reading is not None and network.reading.link is not None:
        found[OUTPUT] = f"{network.outputs:,} outputs"
    return found


def arrows_of(network: Network) -> list[Arrow]:
    """Return every coupling, and the read-out; what is no product has the name of its kind."""
    found = []
    for coupling in network.couplings:
        link = network.links.get(coupling.name)
        if link is None:
            ends = [INPUT, *coupling.layers] if coupling.clamped else list(coupling.layers)
            kind = type(coupling).__name__
            found.append(Arrow(ends[0], ends[-1], coupling.name, kind, not coupling.clamped))
        elif link.source != ONE:
            size = _size(link.fan_in, link.fan_out, link.positions)
            found.append(Arrow(link.source, link.target, link.block, size, not link.clamped))
    if network.reading is not None and network.reading.link is not None:
        link = network.reading.link
        size = _size(link.fan_in, link.fan_out, link.positions)
        found.append(Arrow(link.source, OUTPUT, link.block, size, both_ways=True))
    return found


def _size(fan_in: int, fan_out: int, positions: int) -> str:
    at = f" at {positions:,}" if positions > 1 else ""
    return f"{fan_in:,} x {fan_out:,}{at}"


def _box(name: str, text: str, place: int, top: int) -> str:
    left = MARGIN + place * (WIDE + GAP)
    middle = left + WIDE / 2
    return (
        f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" rx="8" fill="{PAPER}" '
        f'stroke="{SOFT}"/>'
        f'<text x="{middle:g}" y="{top + 25}" text-anchor="middle" font-weight="bold" '
        f'fill="{INK}">{escape(name)}</text>'
        f'<text x="{middle:g}" y="{top + 43}" text-anchor="middle" fill="{SOFT}">{escape(text)}'
        "</text>"
    )


def _arrow(arrow: Arrow, places: dict[str, int], top: int) -> str:
    """Draw a line to a neighbour, a loop to itself, or an arc past others."""
    left, right = sorted((places[arrow.source], places[arrow.target]))
    steps, middle = arrow.steps(places), top + HIGH / 2
    if right - left == 1:
        start, end = MARGIN + left * (WIDE + GAP) + WIDE, MARGIN + right * (WIDE + GAP)
        line, x = f"M{start + 3} {middle:g}L{end - 3} {middle:g}", (start + end) / 2
        above, below = middle - 10, middle + 20
    else:
        quarter = WIDE / 4 if left == right else 0
        begin = MARGIN + left * (WIDE + GAP) + WIDE / 2 - quarter
        finish = MARGIN + right * (WIDE + GAP) + WIDE / 2 + quarter
        peak = top - ARC * steps * 4 / 3  # a curve rises to three quarters of it
        line = f"M{begin:g} {top - 3}C{begin:g} {peak:g} {finish:g} {peak:g} {finish:g} {top - 3}"
        x, above, below = (begin + finish) / 2, top - ARC * steps - 18, top - ARC * steps - 4
    colour, heads = (BLUE, "both") if arrow.both_ways else (VERMILION, "one")
    ends = f'marker-end="url(#{heads})"'
    ends += f' marker-start="url(#{heads})"' if arrow.both_ways else ""
    return (
        f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.6" {ends}/>'
        f'<text x="{x:g}" y="{above:g}" text-anchor="middle" fill="{INK}">{escape(arrow.name)}'
        f'</text><text x="{x:g}" y="{below:g}" text-anchor="middle" fill="{SOFT}">'
        f"{escape(arrow.size)}</text>"
    )


def _heads() -> str:
    marker = (
        '<marker id="{}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{}"/></marker>'
    )
    return f"<defs>{marker.format('both', BLUE)}{marker.format('one', VERMILION)}</defs>"
