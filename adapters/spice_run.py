"""ngspice as a program: what it is given, what it prints, and what it complains of."""

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from engine.arrays import FloatArray
from engine.errors import EngineError, reason
from engine.model.network import Network

PATIENCE_S = 600
"""After so many seconds a run is given up."""
PRINTED = re.compile(r"v\(n(\d+)_(\d+)\) = (\S+)")


class SpiceError(EngineError):
    """A circuit that cannot be written or run, as one sentence."""


def run_netlist(text: str, network: Network) -> FloatArray:
    """Return the voltages `(samples, units)` that ngspice finds for what `write_netlist` wrote."""
    with TemporaryDirectory() as folder:
        printed, complaint = run_ngspice(text, Path(folder))
    return read_voltages(printed, network, complaint)


def run_ngspice(text: str, folder: Path) -> tuple[str, str]:
    """Run a netlist in a folder; return what ngspice printed, and what it complained of."""
    program = find_ngspice()
    file = folder / "circuit.cir"
    file.write_text(text, encoding="ascii")
    try:
        run = subprocess.run(
            [program, "-b", str(file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise SpiceError(f"ngspice did not come to an end in {PATIENCE_S} s.") from None
    return run.stdout, run.stderr


def read_voltages(printed: str, network: Network, complaint: str = "") -> FloatArray:
    """Return the voltages `(samples, units)` from what ngspice printed."""
    starts = [network.columns[layer.name].start for layer in network.layers]
    samples: list[FloatArray] = []
    for line in printed.splitlines():
        if line.startswith("settle sample"):
            samples.append(np.full(network.units, np.nan))
        elif (found := PRINTED.fullmatch(line.strip())) and samples:
            samples[-1][starts[int(found[1])] + int(found[2])] = float(found[3])
    voltages = np.array(samples)
    if not len(samples) or not np.isfinite(voltages).all():
        said = next((s for s in complaint.splitlines() if s.strip()), "it printed no voltages")
        raise SpiceError(f"ngspice found no operating point: {reason(ValueError(said.strip()))}.")
    return voltages


def missing_ngspice() -> str:
    """Say how to get ngspice where it is missing; empty if it is there."""
    if shutil.which("ngspice"):
        return ""
    return "ngspice, which runs the netlist, is not installed: it is in the package ngspice."


def find_ngspice() -> str:
    """Return where ngspice is, or refuse to go on without it."""
    missing = missing_ngspice()
    if missing:
        raise SpiceError(missing)
    return str(shutil.which("ngspice"))
