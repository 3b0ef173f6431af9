"""A resistive network as a SPICE netlist, which ngspice runs as it is.

    .op     sum_i g_ij (A v_i - v_j) - v_j + b_j + beta (y_j - v_j) + i_diode = 0 at each node j

Voltages are in volts, conductances in siemens, and the leak of every node is 1 S. The nudge is a
controlled current source at each output, beside a source that holds its target. An ideal diode is a
source whose current is zero on one side and `ON` siemens on the other: it lets a node pass its
limit by a `1 / ON` of the current that it carries.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adapters.spice_run import SpiceError
from engine.arrays import FloatArray
from engine.couplings.link import INPUT, ONE
from engine.model.network import Layer, Network
from engine.model.params import Params

ON = 1e11
"""Conductance of an ideal diode that conducts, in siemens."""
TOLERANCES = "reltol=1e-10 abstol=1e-15 vntol=1e-13 gmin=1e-18 itl1=500"
Diode = Literal["ideal", "shockley"]


@dataclass(frozen=True)
class Parts:
    """What the circuit is made of, where it is not ideal."""

    diode: Diode = "ideal"
    saturation_a: float = 1e-14
    """Saturation current of a Shockley diode."""
    emission: float = 1.0
    """Its emission coefficient."""
    source_ohm: float = 0.0
    """Resistance of each input source."""
    wire_ohm: float = 0.0
    """Resistance of the wires to each conductance, in series with it."""

    def __post_init__(self) -> None:
        for name in ("source_ohm", "wire_ohm", "saturation_a", "emission"):
            value = getattr(self, name)
            least = 0.0 if name.endswith("ohm") else math.ulp(0.0)
            if not (math.isfinite(value) and value >= least):
                raise SpiceError(f"{name} is {value}, expected a number above zero.")
        if self.diode not in ("ideal", "shockley"):
            raise SpiceError(f"unknown diode '{self.diode}'; known: ideal, shockley.")


def check_circuit(network: Network) -> None:
    """Refuse a network that is no circuit of resistors, sources and diodes."""
    for coupling in network.couplings:
        link = network.links.get(coupling.name)
        if coupling.name not in network.squares and (link is None or link.source != ONE):
            raise SpiceError(
                f"the network is not resistive: coupling '{coupling.name}' "
                f"({type(coupling).__name__}) is neither a conductance nor a bias."
            )
    for layer in network.layers:
        if layer.activation == "tanh":
            raise SpiceError(f"layer '{layer.name}' has units of tanh, which no diode makes.")
    if network.reading is None or network.reading.link is not None:
        kind = type(network.readout).__name__
        raise SpiceError(f"the read-out {kind} is no voltage of a node: use squared_error.")


def write_netlist(
    params: Params,
    x: FloatArray,
    y: FloatArray | None = None,
    beta: float = 0.0,
    parts: Parts | None = None,
) -> str:
    """Return the netlist of a batch `x (samples, inputs)`, nudged to `y (samples, outputs)`.

    Sources have the values of the first sample; the others are set one after the other, each with
    an operating point.
    """
    lines = circuit_lines(params, x[0], None if y is None else y[0], beta, parts or Parts())
    targets = None if beta == 0.0 else y
    lines += [f".options {TOLERANCES}", ".control", "set numdgt=16", "set width=80"]
    for sample in range(len(x)):
        lines += _operating_point(params.network, x, targets, sample)
    return "\n".join([*lines, "quit", ".endc", ".end", ""])


def circuit_lines(
    params: Params, x: FloatArray, y: FloatArray | None, beta: float, parts: Parts
) -> list[str]:
    """Return the elements of a circuit, with the sources of one sample; no analysis."""
    network = params.network
    check_circuit(network)
    if beta != 0.0 and y is None:
        raise SpiceError(f"a nudge of beta {beta} needs targets, but there are none.")
    lines = [f"* Settle: {_sizes(network)}, beta {beta:g}, {parts.diode} diodes"]
    for k, layer in enumerate(network.layers):
        about = f"n{k}_0 to n{k}_{layer.size - 1}, {layer.activation}"
        lines.append(f"* layer {k}, {_plain(layer.name)}: {about}")
    lines.append(f"* inputs: x0 to x{len(x) - 1}")
    lines += _sources(x, parts)
    for name, squares in network.squares.items():
        lines += _resistors(network, name, squares.amplification, params[name], parts)
    lines += _amplifiers(network)
    lines.append("* leaks of 1 S, and diodes")
    for k, layer in enumerate(network.layers):
        lines += _nodes(k, layer, parts)
    lines.append("* biases: currents into the nodes")
    lines += _biases(params)
    if beta != 0.0 and y is not None:
        lines.append(f"* nudges: {beta:g} S times what the target y has more than the node")
        lines += _nudges(network, y, beta)
    if parts.diode == "shockley":
        lines.append(f".model bend D(IS={parts.saturation_a:.17g} N={parts.emission:.17g})")
    return lines


def _sizes(network: Network) -> str:
    return "-".join(map(str, network.sizes.values()))


def _sources(x: FloatArray, parts: Parts) -> Iterator[str]:
    """Yield a pair of sources for each input, amplified at the nodes `p` and `m`."""
    for i, value in enumerate(x):
        yield f"Vx{i} x{i} 0 DC {value:.17g}"


def _resistors(
    network: Network, name: str, gain: float, g: FloatArray, parts: Parts
) -> Iterator[str]:
    """Yield the resistors of a coupling; a conductance of zero is no resistor."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    coupling = next(c for c in network.couplings if c.name == name)
    c, to = network.couplings.index(coupling), index[coupling.layers[-1]]
    paired = network.senders[name].source == INPUT
    yield f"* {_plain(name)}: {_joined(c, index[coupling.layers[0]], to, gain, paired)}"
    if paired:
        for i in range(network.inputs):
            for sign, side in (("", "p"), ("-", "m")):
                begin, end = f"c{c}{side}{i}", f"c{c}{side}{i}"
                if parts.source_ohm:
                    begin = f"c{c}{side}s{i}"
                    yield f"Rs{c}{side}{i} {begin} {end} {parts.source_ohm:.17g}"
                yield f"E{c}{side}{i} {begin} 0 x{i} 0 {sign}{gain:.17g}"
    for side, block in zip("pm" if paired else " ", g if paired else g[None], strict=True):
        below = index[coupling.layers[0]]
        for i, j in np.argwhere(block > 0.0):
            begin = f"c{c}{side}{i}" if paired else f"n{below}_{i}"
            if not paired and gain != 1.0:
                begin = f"c{c}a{i}"
            ohm = 1.0 / float(block[i, j]) + parts.wire_ohm
            yield f"R{c}{side.strip()}_{i}_{j} {begin} n{to}_{j} {ohm:.17g}"


def _joined(c: int, below: int, to: int, gain: float, paired: bool) -> str:
    """Say which nodes the resistors of coupling `c` join."""
    if paired:
        ends = f"c{c}pI at {gain:g} xI", f"c{c}mI at {-gain:g} xI"
        return f"R{c}p_I_J from {ends[0]}, R{c}m_I_J from {ends[1]}, to n{to}_J"
    begin = f"n{below}_I" if gain == 1.0 else f"c{c}aI at {gain:g} n{below}_I"
    return f"R{c}_I_J from {begin}, to n{to}_J"


def _plain(name: str) -> str:
    """Return the name of a part of a network as a comment can hold it."""
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)


def _amplifiers(network: Network) -> Iterator[str]:
    """Yield what drives resistors with `A` times a voltage, and draws `A` times their current."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    for c, coupling in enumerate(network.couplings):
        squares = network.squares.get(coupling.name)
        if squares is None or coupling.clamped or squares.amplification == 1.0:
            continue
        k, gain = index[coupling.layers[0]], squares.amplification
        for i in range(network.layers[k].size):
            yield f"E{c}a{i} c{c}b{i} 0 n{k}_{i} 0 {gain:.17g}"
            yield f"V{c}a{i} c{c}b{i} c{c}a{i} DC 0"
            yield f"F{c}a{i} n{k}_{i} 0 V{c}a{i} {gain:.17g}"


def _nodes(k: int, layer: Layer, parts: Parts) -> Iterator[str]:
    """Yield the leak of each node and the diodes that keep it in the range of its activation."""
    low, high = layer.rule.low, layer.rule.high
    for j in range(layer.size):
        node = f"n{k}_{j}"
        yield f"Rl{k}_{j} {node} 0 1"
        for side, edge in (("l", low), ("h", high)):
            if not math.isfinite(edge):
                continue
            below = side == "l"
            if parts.diode == "ideal":
                beyond = f"({edge:g}-v({node}))" if below else f"(v({node})-{edge:g})"
                ends = f"0 {node}" if below else f"{node} 0"
                yield f"B{side}{k}_{j} {ends} I = {beyond} > 0 ? {ON:g}*{beyond} : 0"
                continue
            rail = "0"
            if edge != 0.0:
                rail = f"r{side}{k}_{j}"
                yield f"V{side}{k}_{j} {rail} 0 DC {edge:g}"
            yield f"D{side}{k}_{j} {f'{rail} {node}' if below else f'{node} {rail}'} bend"


def _biases(params: Params) -> Iterator[str]:
    """Yield a current source into each node that has a bias."""
    network = params.network
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    for c, coupling in enumerate(network.couplings):
        if coupling.name in network.links:
            k = index[coupling.layers[0]]
            for j, current in enumerate(params[coupling.name]):
                yield f"I{c}_{j} 0 n{k}_{j} DC {current:.17g}"


def _nudges(network: Network, y: FloatArray, beta: float) -> Iterator[str]:
    """Yield a current source of `beta (y - v)` into each output, and one that holds its target."""
    k = [layer.name for layer in network.layers].index(network.readout.layer)
    for j, target in enumerate(y):
        yield f"Vy{j} y{j} 0 DC {target:.17g}"
        yield f"G{j} 0 n{k}_{j} y{j} n{k}_{j} {beta:.17g}"


def _operating_point(
    network: Network, x: FloatArray, y: FloatArray | None, sample: int
) -> Iterator[str]:
    """Yield what sets the sources of a sample that differ from those before it, and asks."""
    for name, values in (("x", x), ("y", y)):
        if sample and values is not None:
            for i in np.flatnonzero(values[sample] != values[sample - 1]):
                yield f"alter V{name}{i} dc = {values[sample, i]:.17g}"
    yield "op"
    yield f"echo settle sample {sample}"
    for k, layer in enumerate(network.layers):
        yield from (f"print v(n{k}_{j})" for j in range(layer.size))
    yield "destroy all"  # or each point makes the next one slower
