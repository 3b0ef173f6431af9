"""What a netlist of `adapters.spice_netlist` holds, part by part, as its schematic draws it."""

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from adapters.spice_run import SpiceError

NODE = re.compile(r"n(\d+)_(\d+)")
MOST_NODES, MOST_RESISTORS = 40, 200
"""More than these are a picture that nobody can read."""


class InputSource(NamedTuple):
    """A pin that holds a gain times an input."""

    label: str
    gain: float
    voltage: float
    ohm: float = 0.0


class Resistor(NamedTuple):
    """Between a source or a node, perhaps behind its amplifier, and a node."""

    begin: str
    end: str
    siemens: float


@dataclass
class Schematic:
    """The parts of a netlist; nodes are named as there."""

    title: str = ""
    sources: dict[str, InputSource] = field(default_factory=dict)
    """By the pin that resistors begin at."""
    resistors: list[Resistor] = field(default_factory=list)
    layers: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The nodes of each layer: those that have a leak."""
    amplifiers: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By the pin behind them: the node they listen to, and the gain."""
    diodes: list[tuple[str, bool]] = field(default_factory=list)
    """A node, and whether it is kept from below."""
    currents: dict[str, float] = field(default_factory=dict)
    """Bias into a node, in amperes."""
    nudges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """At an output: beta and the target."""
    capacitances: dict[str, float] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """All nodes, layer by layer."""
        return [node for k in sorted(self.layers) for node in self.layers[k]]


def read_schematic(text: str) -> Schematic:
    """Return the parts of a netlist, or refuse one that is not of Settle or too large to draw."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("* Settle: "):
        raise SpiceError("the file is no netlist of Settle: its first line does not say so.")
    found = Schematic(lines[0].removeprefix("* Settle: "))
    inputs: dict[str, float] = {}
    targets: dict[str, float] = {}
    joined: dict[str, tuple[str, float]] = {}  # pins behind a source, which it is, and its ohms
    for number, line in enumerate(lines[1:], 2):
        words = line.split()
        if line.startswith(".control"):
            break
        if not words or line[0] in "*.":
            continue
        try:
            _take(found, words, inputs, targets, joined)
        except (IndexError, ValueError):
            raise SpiceError(f"line {number} of the netlist is not understood: {line}") from None
    for pin, ohm in joined.values():
        found.sources[pin] = found.sources[pin]._replace(ohm=ohm)
    pins = {behind: pin for behind, (pin, _) in joined.items()}
    found.resistors = [r._replace(begin=pins.get(r.begin, r.begin)) for r in found.resistors]
    count, joints = len(found.nodes), len(found.resistors)
    if count > MOST_NODES or joints > MOST_RESISTORS:
        raise SpiceError(
            f"the netlist has {count} nodes and {joints} resistors; a schematic shows at most "
            f"{MOST_NODES} and {MOST_RESISTORS}."
        )
    return found


def _take(
    found: Schematic,
    words: list[str],
    inputs: dict[str, float],
    targets: dict[str, float],
    joined: dict[str, tuple[str, float]],
) -> None:
    """Enter one part."""
    name, kind = words[0], words[0][0]
    if kind == "V" and name[1] == "x":
        inputs[words[1]] = float(words[4])
    elif kind == "V" and name[1] == "y":
        targets[words[1]] = float(words[4])
    elif kind == "E" and words[3].startswith("x"):
        gain = float(words[5])
        found.sources[words[1]] = InputSource(words[3], gain, gain * inputs[words[3]])
    elif kind == "E":
        pin = words[1].replace("b", "a")
        found.amplifiers[pin] = (words[3], float(words[5]))
    elif name.startswith("Rl"):
        found.layers[_layer(words[1])].append(words[1])
    elif name.startswith("Rs"):
        joined[words[2]] = words[1], float(words[3])
    elif kind == "R":
        _layer(words[2])
        found.resistors.append(Resistor(words[1], words[2], 1.0 / float(words[3])))
    elif kind in "BD":
        node = next(word for word in words[1:3] if NODE.fullmatch(word))
        found.diodes.append((node, name[1] == "l"))
    elif kind == "I":
        found.currents[words[2]] = float(words[4])
    elif kind == "G":
        found.nudges[words[2]] = (float(words[5]), targets[words[3]])
    elif kind == "C":
        found.capacitances[words[1]] = float(words[3])
    elif kind not in "VF":  # the rest of an amplifier, or the rail of a diode
        raise ValueError(name)


def _layer(node: str) -> int:
    match = NODE.fullmatch(node)
    if match is None:
        raise ValueError(node)
    return int(match[1])


def merged_sources(circuit: Schematic) -> dict[str, list[str]]:
    """Return the pins that hold the same voltage of the same input, by their first one."""
    same: dict[tuple[str, float], list[str]] = defaultdict(list)
    for pin, source in circuit.sources.items():
        same[source.label, source.gain].append(pin)
    order = sorted(same, key=lambda key: (int(key[0][1:]), -math.copysign(1, key[1])))
    return {same[key][0]: same[key] for key in order}
