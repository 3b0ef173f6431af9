"""How a resistive network settles in time, as ngspice integrates it (`.tran`).

    C dv_j/dt = sum_i g_ij (A v_i - v_j) - v_j + b_j + beta (y_j - v_j) + i_diode

Every node has the same capacitance `C` to ground, and charges from given voltages at time zero,
when the sources are already on. The netlist is otherwise that of `adapters.spice_netlist`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from adapters.spice_netlist import Parts, circuit_lines
from adapters.spice_run import SpiceError, run_ngspice
from engine.arrays import FloatArray
from engine.errors import reason
from engine.model.network import Network
from engine.model.params import Params

TOLERANCES = "method=gear reltol=1e-6 abstol=1e-12 vntol=1e-9 gmin=1e-18 itl1=500 itl4=200"
AT_ONCE = 50
"""Nodes whose voltages are written in one file."""
LEAK_S = 1.0
"""Leak of every node, in siemens: `C / LEAK_S` is the unit of time of `engine.model.continuous`."""


@dataclass(frozen=True)
class Charging:
    """How long a circuit is watched."""

    capacitance_f: float
    """Of every node to ground."""
    duration_s: float
    points: int = 2000
    """Least number of time steps."""

    def __post_init__(self) -> None:
        for name in ("capacitance_f", "duration_s"):
            if not (np.isfinite(value := getattr(self, name)) and value > 0.0):
                raise SpiceError(f"{name} is {value}, expected a number above zero.")

    @property
    def unit_s(self) -> float:
        """Seconds of one unit of time."""
        return self.capacitance_f / LEAK_S


class Waveform(NamedTuple):
    """Voltages `(times, units)` at times in seconds."""

    times_s: FloatArray
    voltages: FloatArray


def write_transient(
    params: Params,
    x: FloatArray,
    charging: Charging,
    nudge: tuple[FloatArray, float] | None = None,
    start: FloatArray | None = None,
    parts: Parts | None = None,
) -> str:
    """Return the netlist of one sample `x (inputs,)`, which charges from `start (units,)` or zero.

    A nudge is a target `(outputs,)` and its beta.
    """
    y, beta = (None, 0.0) if nudge is None else nudge
    network = params.network
    lines = circuit_lines(params, x, y, beta, parts or Parts())
    begin = np.zeros(network.units) if start is None else start
    for node, voltage in zip(_node_names(network), begin, strict=True):
        lines.append(f"C{node} {node} 0 {charging.capacitance_f:.17g} IC={voltage:.17g}")
    step = charging.duration_s / charging.points
    lines += [f".options {TOLERANCES}", ".control", "set numdgt=16", "set wr_singlescale"]
    lines.append(f"tran {step:.17g} {charging.duration_s:.17g} 0 {step:.17g} uic")
    lines += _written(network)
    return "\n".join([*lines, "quit", ".endc", ".end", ""])


def run_transient(text: str, network: Network) -> Waveform:
    """Return the waveform that ngspice finds for what `write_transient` wrote."""
    with TemporaryDirectory() as folder:
        _, complaint = run_ngspice(text, Path(folder))
        try:
            files = [np.loadtxt(Path(folder, name), ndmin=2) for name, _ in _files(network)]
        except (OSError, ValueError):
            said = next((s for s in complaint.splitlines() if s.strip()), "it wrote no voltages")
            raise SpiceError(
                f"ngspice found no transient: {reason(ValueError(said.strip()))}."
            ) from None
    voltages = np.concatenate([file[:, 1:] for file in files], axis=1)
    if voltages.shape[1] != network.units or not np.isfinite(voltages).all():
        raise SpiceError("ngspice wrote voltages that are not those of the nodes.")
    return Waveform(files[0][:, 0], voltages)


def settling_time(wave: Waveform, start: FloatArray, final: FloatArray, fraction: float) -> float:
    """Return when every node is as near to `final` as `fraction` of the largest move, and stays.

    Between two points of the waveform the distance is a straight line.
    """
    allowed = fraction * float(np.abs(final - start).max())
    away = np.abs(wave.voltages - final).max(1)
    outside = np.flatnonzero(away > allowed)
    if not len(outside):
        return float(wave.times_s[0])
    last = int(outside[-1])
    if last + 1 == len(away):
        raise SpiceError(f"the voltages have not settled within {wave.times_s[-1]:.3g} s.")
    share = (away[last] - allowed) / (away[last] - away[last + 1])
    return float(wave.times_s[last] + share * (wave.times_s[last + 1] - wave.times_s[last]))


def _node_names(network: Network) -> list[str]:
    return [f"n{k}_{j}" for k, layer in enumerate(network.layers) for j in range(layer.size)]


def _files(network: Network) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each file of voltages, and its nodes."""
    nodes = _node_names(network)
    for first in range(0, len(nodes), AT_ONCE):
        yield f"voltages{first}.txt", nodes[first : first + AT_ONCE]


def _written(network: Network) -> Iterator[str]:
    for name, nodes in _files(network):
        yield f"wrdata {name} {' '.join(f'v({node})' for node in nodes)}"
