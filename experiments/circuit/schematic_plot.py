"""Draw a schematic: sources on the left, a column of nodes for each layer, nudges on the right."""

from collections import Counter, defaultdict

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.circuit import symbols
from experiments.circuit.schematic import Resistor, Schematic, merged_sources
from experiments.circuit.symbols import Point
from experiments.reporting.plot_style import BLUE, INK, ORANGE, SOFT, STYLE, VERMILION

COLUMN, ROW = 4.8, 1.75
"""Grid of the nodes; rows are further apart where many resistors meet."""
SIDE, HANG = 0.75, 0.62
"""How far resistors stay from a node, and how far its own parts hang down."""
INCHES = 0.62
"""Of one length of the grid."""
ARM, PIN = 0.8, 0.25
"""Length of the last piece of a wire, which has the resistor, and the distance of two of them."""
MINUS = "\N{MINUS SIGN}"


def draw_schematic(circuit: Schematic) -> Figure:
    """Return the drawing."""
    places = _places(circuit)
    x, y = (np.array(side) for side in zip(*places.values(), strict=True))
    with matplotlib.rc_context(STYLE):
        height = float(np.ptp(y)) + _row(circuit) + 1.5
        width = float(np.ptp(x)) + (5.0 if circuit.nudges else 3.4)
        figure = Figure(figsize=(INCHES * width, INCHES * height))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-2.0, width - 2.0)
        middle = -0.2
        axes.set_ylim(middle - height / 2, middle + height / 2)
        _draw_resistors(axes, circuit, places)
        _draw_sources(axes, circuit, places)
        for node in circuit.nodes:
            _draw_node(axes, circuit, node, places[node])
        _draw_words(axes, circuit, middle + height / 2, middle - height / 2)
    return figure


def _places(circuit: Schematic) -> dict[str, Point]:
    """Return where each source and node stands."""
    steps = _distances(circuit)
    columns: dict[int, list[str]] = {0: list(merged_sources(circuit))}
    for k in sorted(circuit.layers):
        columns.setdefault(steps[k], []).extend(circuit.layers[k])
    height = _row(circuit)
    return {
        name: (COLUMN * column, height * ((len(names) - 1) / 2 - row))
        for column, names in columns.items()
        for row, name in enumerate(names)
    }


def _row(circuit: Schematic) -> float:
    """Return how far two nodes of a layer are apart: so far that their resistors do not meet."""
    meet = Counter(r.end for r in circuit.resistors)
    return max(ROW, PIN * (max(meet.values(), default=0) + 2))


def _distances(circuit: Schematic) -> dict[int, int]:
    """Return how many resistors lie between a source and each layer."""
    layer_of = {node: k for k, nodes in circuit.layers.items() for node in nodes}
    found: dict[int, int] = {}
    here = {layer_of[r.end] for r in circuit.resistors if r.begin in circuit.sources}
    step = 1
    while here:
        found |= dict.fromkeys(here, step)
        ends = {
            (layer_of[_node(circuit, r.begin)], layer_of[r.end])
            for r in circuit.resistors
            if r.begin not in circuit.sources
        }
        here = {b for pair in ends for a, b in (pair, pair[::-1]) if a in here} - set(found)
        step += 1
    for k in sorted(circuit.layers):  # what nothing reaches
        found.setdefault(k, step)
    return found


def _node(circuit: Schematic, pin: str) -> str:
    """Return the node that a pin is, or that its amplifier listens to."""
    return circuit.amplifiers[pin][0] if pin in circuit.amplifiers else pin


def _draw_resistors(axes: Axes, circuit: Schematic, places: dict[str, Point]) -> None:
    """Draw each in the colour of its source, wider the more it conducts."""
    first = {pin: name for name, pins in merged_sources(circuit).items() for pin in pins}
    most = max((r.siemens for r in circuit.resistors), default=1.0)
    ends: dict[str, list[Resistor]] = defaultdict(list)
    for r in sorted(circuit.resistors, key=lambda r: -_start(circuit, r, first, places)[1]):
        ends[r.end].append(r)
    for node, group in ends.items():
        x, y = places[node]
        pins = y + PIN * ((len(group) - 1) / 2 - np.arange(len(group)))
        symbols.wire(axes, (x - SIDE, pins[0]), (x - SIDE, pins[-1]))
        for r, pin in zip(group, pins, strict=True):
            color, begin = INK, _start(circuit, r, first, places)
            if r.begin in circuit.sources:
                color = BLUE if circuit.sources[r.begin].gain > 0 else VERMILION
            corner, width = (x - SIDE - ARM, float(pin)), 0.7 + 1.8 * r.siemens / most
            symbols.wire(axes, (begin[0] + SIDE, begin[1]), corner, color=color, alpha=0.55)
            symbols.resistor(axes, corner, (x - SIDE, float(pin)), ARM / 2, color, width)


def _start(
    circuit: Schematic, r: Resistor, first: dict[str, str], places: dict[str, Point]
) -> Point:
    """Return where the source or the node stands that a resistor begins at."""
    return places[first.get(r.begin, _node(circuit, r.begin))]


def _draw_sources(axes: Axes, circuit: Schematic, places: dict[str, Point]) -> None:
    for name in merged_sources(circuit):
        source, (x, y) = circuit.sources[name], places[name]
        color = BLUE if source.gain > 0 else VERMILION
        symbols.wire(axes, (x, y), (x + SIDE, y), color=color)
        symbols.voltage_source(axes, (x, y), "+" if source.gain > 0 else MINUS, color)
        gain = "" if abs(source.gain) == 1.0 else f"{abs(source.gain):g} "
        sign = "" if source.gain > 0 else MINUS
        within = f"\n{source.ohm:g} ohm" if source.ohm else ""
        label = f"{sign}{gain}x{source.label[1:]}\n{source.voltage:.3g} V{within}".replace(
            "-", MINUS
        )
        axes.text(x - 0.35, y, label, ha="right", va="center", fontsize=8, color=INK)


def _draw_node(axes: Axes, circuit: Schematic, node: str, at: Point) -> None:
    """Draw a node: its wires, what hangs from it to ground, its amplifier and its nudge."""
    x, y = at
    goes_on = any(_node(circuit, r.begin) == node for r in circuit.resistors)
    nudged, amplified = circuit.nudges.get(node), _gain(circuit, node)
    symbols.wire(axes, (x - SIDE, y), (x + (SIDE if goes_on or nudged else 0.35), y))
    axes.plot([x], [y], "o", color=INK, markersize=4, zorder=4)
    axes.text(x, y + 0.12, node, ha="center", va="bottom", fontsize=8, color=INK)
    if amplified is not None:
        symbols.amplifier(axes, (x + 0.5, y))
        axes.text(x + 0.5, y + 0.2, f"{amplified:g}", ha="center", fontsize=7, color=SOFT)
    sides = [below for name, below in circuit.diodes if name == node]
    parts = ["leak", *("up" if below else "down" for below in sides)]
    parts += ["bias"] if node in circuit.currents else []
    parts += ["capacitance"] if node in circuit.capacitances else []
    spread = np.linspace(-0.42, 0.42, len(parts)) if len(parts) > 1 else np.zeros(1)
    bar, bottom = y - 0.2, y - 0.2 - HANG
    symbols.wire(axes, (x, y), (x, bar))
    symbols.wire(axes, (x + spread[0], bar), (x + spread[-1], bar))
    for part, off in zip(parts, spread, strict=True):
        _hang(axes, part, (x + off, bar), (x + off, bottom))
        symbols.ground(axes, (x + off, bottom))
    if nudged is not None:
        _draw_nudge(axes, (x + SIDE, y), *nudged)


def _gain(circuit: Schematic, node: str) -> float | None:
    return next((gain for name, gain in circuit.amplifiers.values() if name == node), None)


def _hang(axes: Axes, part: str, top: Point, bottom: Point) -> None:
    """Draw one part between a node and ground."""
    if part == "leak":
        symbols.resistor(axes, top, bottom, HANG / 2, SOFT)
    elif part in ("up", "down"):
        symbols.diode(axes, top, bottom, up=part == "up")
    elif part == "capacitance":
        symbols.capacitor(axes, top, bottom)
    else:
        middle = (top[0], (top[1] + bottom[1]) / 2)
        symbols.wire(axes, top, bottom)
        symbols.current_source(axes, middle, top, radius=0.13)


def _draw_nudge(axes: Axes, at: Point, beta: float, target: float) -> None:
    """Draw the current into an output."""
    x, y = at
    symbols.wire(axes, at, (x + 0.8, y), color=ORANGE)
    symbols.current_source(axes, (x + 0.35, y), at, ORANGE)
    symbols.wire(axes, (x + 0.8, y), (x + 0.8, y - 0.2), color=ORANGE)
    symbols.ground(axes, (x + 0.8, y - 0.2))
    label = f"{beta:g} S ({target:.3g} V - v)".replace("-", MINUS)
    axes.text(x + 0.1, y + 0.24, label, fontsize=8, color=INK)


def _draw_words(axes: Axes, circuit: Schematic, top: float, bottom: float) -> None:
    """Say what the picture shows."""
    axes.text(-1.8, top - 0.2, circuit.title, va="top", fontsize=10, weight="bold", color=INK)
    said = [
        "Resistors are drawn wider the more they conduct; those from positive sources are blue, "
        "from negative ones red.",
        "From each node to ground: a leak of 1 S (grey)"
        + (", its diodes" if circuit.diodes else "")
        + (", a bias current" if circuit.currents else "")
        + (", a capacitance" if circuit.capacitances else "")
        + "."
        + (" Orange: nudges at the outputs." if circuit.nudges else ""),
    ]
    axes.text(-1.8, bottom + 0.15, "\n".join(said), va="bottom", fontsize=7.5, color=SOFT)
