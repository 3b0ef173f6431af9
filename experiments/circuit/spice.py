"""Write a trained circuit as a SPICE netlist, run it in ngspice, and compare the voltages.

The free phase is an operating point with the samples as sources; the nudged phase has a current
source at each output beside them. Both netlists run in ngspice as they are. With ideal diodes the
voltages have to be those of the engine, to a microvolt; with others the difference is told.
"""

import argparse
import csv
import io
import json
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console

from adapters.spice_netlist import Parts, check_circuit, write_netlist
from adapters.spice_run import SpiceError, missing_ngspice, run_netlist
from engine import NumbaBackend, Params, Relaxation, load
from engine.arrays import FloatArray
from experiments.circuit.asked import add_circuit, parts_of, samples_of, sizes_of
from experiments.machine import describe_machine
from experiments.options import add_out
from experiments.output import prepare_output
from experiments.records import write_text
from experiments.shell import make_console
from golden.metric import format_table

GOAL_V = 1e-6
"""Largest difference of a voltage, where all diodes are ideal."""
FREE, NUDGED, VOLTAGES, RECORD = "free.cir", "nudged.cir", "voltages.csv", "spice.json"
SETTLED = Relaxation(100_000, 1e-13, "sweeps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_circuit(parser)
    add_out(parser, "results/spice")


def run(options: argparse.Namespace) -> int:
    """Write both netlists, run them, and print how far the voltages are from the engine's."""
    console, parts = make_console(), parts_of(options)
    params = load(options.network)[0].astype(np.float64)
    check_circuit(params.network)
    x, y = samples_of(params, options)
    prepare_output(options.out, FREE, NUDGED, VOLTAGES, RECORD)
    phases = {FREE: 0.0} if y is None else {FREE: 0.0, NUDGED: options.beta}
    texts = {name: write_netlist(params, x, y, beta, parts) for name, beta in phases.items()}
    states = {name: _settled(params, x, y, beta) for name, beta in phases.items()}
    for name, text in texts.items():
        write_text(options.out / name, text)
        console.print(f"Written: {options.out / name}", soft_wrap=True)
    missing = missing_ngspice()
    if missing:
        console.print(f"Not run: {missing}", soft_wrap=True)
        return 0
    found = {name: (run_netlist(texts[name], params.network), states[name]) for name in texts}
    write_text(options.out / VOLTAGES, _table(params, options.samples, found))
    console.print(f"All voltages: {options.out / VOLTAGES}", soft_wrap=True)
    layers = _layers(params, found)
    worst = max(layer.difference_v for layer in layers)
    _print_differences(layers, console)
    _write(params, options, parts, layers)
    if parts != Parts():
        console.print(f"Largest difference: {worst:.2g} V. These parts are not ideal: no goal.")
        return 0
    verdict = "reached" if worst <= GOAL_V else "missed"
    console.print(f"Largest difference: {worst:.2g} V, goal {GOAL_V:g} V: {verdict}.")
    return 0 if worst <= GOAL_V else 1


def _settled(params: Params, x: FloatArray, y: FloatArray | None, beta: float) -> FloatArray:
    """Return the voltages `(samples, units)` of the engine."""
    backend = NumbaBackend(params.network, params)
    settled = backend.settle(backend.clamp(x, y), beta, SETTLED)
    if not settled.converged.all():
        raise SpiceError(f"the engine finds no equilibrium to compare: {settled.summary()}.")
    return settled.state


@dataclass(frozen=True)
class _Layer:
    """How far the voltages of a layer are apart in one phase."""

    netlist: str
    layer: str
    nodes: int
    largest_v: float
    difference_v: float


def _layers(params: Params, found: dict[str, tuple[FloatArray, FloatArray]]) -> list[_Layer]:
    """Compare ngspice with the engine, layer by layer of each phase."""
    layers = []
    for phase, (spice, engine) in found.items():
        for name, columns in params.network.columns.items():
            off = float(np.abs(spice[:, columns] - engine[:, columns]).max())
            most = float(np.abs(engine[:, columns]).max())
            layers.append(_Layer(phase, name, columns.stop - columns.start, most, off))
    return layers


def _print_differences(layers: list[_Layer], console: Console) -> None:
    """Print a row for each layer of each phase."""
    rows = [
        (one.netlist, one.layer, one.nodes, f"{one.largest_v:.4g}", f"{one.difference_v:.2g}")
        for one in layers
    ]
    console.print(format_table(("netlist", "layer", "nodes", "largest V", "difference V"), rows))


def _write(params: Params, options: argparse.Namespace, parts: Parts, layers: list[_Layer]) -> None:
    """Write what was compared as JSON."""
    record = {
        "command": options.told,
        "machine": describe_machine(),
        "sizes": sizes_of(params.network),
        "samples": options.samples,
        "parts": asdict(parts),
        "goal_v": GOAL_V if parts == Parts() else None,
        "layers": [asdict(one) for one in layers],
    }
    write_text(options.out / RECORD, json.dumps(record, indent=1))


def _table(
    params: Params, samples: list[int], found: dict[str, tuple[FloatArray, FloatArray]]
) -> str:
    """Return every voltage as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("netlist", "sample", "node", "layer", "engine_v", "spice_v"))
    for phase, (spice, engine) in found.items():
        for row, sample in enumerate(samples):
            for k, (layer, columns) in enumerate(params.network.columns.items()):
                for j, unit in enumerate(range(columns.start, columns.stop)):
                    voltages = f"{engine[row, unit]:.12g}", f"{spice[row, unit]:.12g}"
                    writer.writerow((phase, sample, f"n{k}_{j}", layer, *voltages))
    return text.getvalue()
