"""A module in the gates of an open library, by yosys: cells, area, delay, and the net list."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw_sim.rtl.liberty import Library, read_library
from hw_sim.rtl.plan import RtlError

SYNTHESISER = "yosys"
OPEN_LIBRARY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
"""OSU 0.18 um standard cells, in the package qflow-tech-osu018."""
MAPPING = "+strash;&get,-n;&dch,-f;&nf;&put;topo;stime,-p"
"""What abc does: it maps for delay and then says what it came to, without buffers."""
GATES = "gates"
LONGEST_S = 600.0
DELAY = re.compile(r"ABC: .*Delay =\s*([\d.]+) ps")


@dataclass(frozen=True)
class Synthesis:
    """What a module became."""

    module: str
    cells: Mapping[str, int]
    area_um2: float
    leakage_nw: float
    delay_ps: float
    """Of the longest path, by abc, without wires."""
    netlist: str
    """Verilog of a module called `gates`."""
    wiring: dict[str, Any]
    """The same as yosys writes it in JSON."""


def missing_synthesiser(library: Path = OPEN_LIBRARY) -> str:
    """Say what is missing to synthesise, and which package has it; empty if nothing is."""
    if shutil.which(SYNTHESISER) is None:
        return (
            f"{SYNTHESISER}, which makes gates of it, is not installed: it is in the package yosys."
        )
    if not library.is_file():
        return f"there is no library {library}: that of OSU is in the package qflow-tech-osu018."
    return ""


def synthesise(
    module: str, values: Mapping[str, int], folder: Path, library: Path = OPEN_LIBRARY
) -> Synthesis:
    """Make gates of a module of the design in `folder`, flattened and without memories."""
    known = read_library(library)
    chosen = " ".join(f"-chparam {name} {value}" for name, value in values.items())
    script = (
        "read_verilog -defer saturate.v round_shift.v " + f"{module}.v",
        f"hierarchy -top {module} {chosen}",
        f"synth -flatten -top {module}",
        f"dfflibmap -liberty {library}",
        f"abc -liberty {library} -script {MAPPING}",
        "opt_clean",
        f"rename -top {GATES}",
        "rename -enumerate -pattern part_%",  # so that both files have the same names
        "write_verilog -noattr gates.v",
        "write_json gates.json",
    )
    delay = DELAY.search(run_synthesiser(script, folder, module))
    if delay is None:
        raise RtlError(f"abc told no longest path of {module}.")
    wiring = json.loads((folder / "gates.json").read_text(encoding="utf-8"))["modules"][GATES]
    netlist = (folder / "gates.v").read_text(encoding="utf-8")
    return _summed(module, known, netlist, wiring, float(delay[1]))


def run_synthesiser(script: Iterable[str], folder: Path, module: str) -> str:
    """Run commands of yosys in a folder; return what it printed."""
    (folder / "gates.ys").write_text("".join(f"{line}\n" for line in script), encoding="utf-8")
    try:
        done = subprocess.run(
            [SYNTHESISER, "-s", "gates.ys"], cwd=folder, timeout=LONGEST_S, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RtlError(f"{SYNTHESISER} took more than {LONGEST_S:g} s for {module}.") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RtlError(f"{SYNTHESISER} made no gates of {module}: {' '.join(said)}.")
    return done.stdout


def _summed(
    module: str, library: Library, netlist: str, wiring: dict[str, Any], delay_ps: float
) -> Synthesis:
    cells = Counter(cell["type"] for cell in wiring["cells"].values())
    strange = sorted(set(cells) - set(library.cells))
    if strange:
        raise RtlError(f"{module} needs a {strange[0]}, which {library.name} does not have.")
    return Synthesis(
        module,
        dict(sorted(cells.items())),
        sum(library.cells[kind].area_um2 * count for kind, count in cells.items()),
        sum(library.cells[kind].leakage_nw * count for kind, count in cells.items()),
        delay_ps,
        netlist,
        wiring,
    )
