"""The whole chip in the gates of an open library, unit by unit: cells and area, without memories.

Units keep their borders, so that each is counted by itself; what is left in the chip around them
selects words, broadcasts them and says where each weight lies.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw_sim.rtl.description import CHIP, MODULES
from hw_sim.rtl.liberty import Cell, read_library
from hw_sim.rtl.simulation import write_files
from hw_sim.rtl.synthesis import MAPPING, OPEN_LIBRARY, run_synthesiser

MEMORIES = ("word_memory", "table_rom")
"""What is no gate here."""
UNITS = {
    "core_logic": "core: multiplier, accumulator, traces",
    "neuron_core": "core: its rows",
    "nudge_unit": "nudge",
    "softmax_unit": "softmax, with its odds in flip-flops",
    "activation_unit": "activation",
    "update_unit": "update of a weight",
    "weight_walk": "walk over the weights",
    "control": "control",
    "xorshift": "random register",
    CHIP: "the rest: selection of words, broadcast, map of the weights",
}


@dataclass(frozen=True)
class UnitGates:
    """All units of one kind."""

    name: str
    count: int
    cells: Mapping[str, int]
    area_um2: float


def unit_gates(
    design: Mapping[str, str], folder: Path, library: Path = OPEN_LIBRARY
) -> tuple[UnitGates, ...]:
    """Make gates of a chip in `folder`, and count those of each unit; one that it lacks is left."""
    write_files(folder, design)
    (folder / "table.hex").write_text(
        "", encoding="utf-8"
    )  # the file that a table without a name would read
    sources = " ".join(f"{name}.v" for name in (*MODULES, CHIP) if name not in MEMORIES)
    kept = " ".join(f"*{name}*" for name in UNITS if name != CHIP)
    script = (
        f"read_verilog -lib {' '.join(f'{name}.v' for name in MEMORIES)}",
        f"read_verilog -defer {sources}",
        f"hierarchy -top {CHIP}",
        f"setattr -mod -set keep_hierarchy 1 {kept}",
        f"synth -flatten -top {CHIP}",
        f"dfflibmap -liberty {library}",
        f"abc -liberty {library} -script {MAPPING}",
        "opt_clean",
        "write_json chip.json",
    )
    run_synthesiser(script, folder, CHIP)
    modules = json.loads((folder / "chip.json").read_text(encoding="utf-8"))["modules"]
    cells = read_library(library).cells
    units: Counter[str] = Counter()
    gates: dict[str, Counter[str]] = defaultdict(Counter)
    for module in _instances(modules, CHIP):
        kinds = (cell["type"] for cell in modules[module]["cells"].values())
        units[_unit(module)] += 1
        gates[_unit(module)].update(kind for kind in kinds if kind in cells)
    return tuple(
        UnitGates(about, units[name], gates[name], _area(gates[name], cells))
        for name, about in UNITS.items()
        if units[name]
    )


def _area(gates: Mapping[str, int], cells: Mapping[str, Cell]) -> float:
    return sum(cells[kind].area_um2 * count for kind, count in gates.items())


def _instances(modules: Mapping[str, Any], module: str) -> Iterator[str]:
    """Yield a module and all units within it, each as often as it is there."""
    yield module
    for cell in modules[module]["cells"].values():
        if cell["type"] in modules and _unit(cell["type"]):
            yield from _instances(modules, cell["type"])


def _unit(module: str) -> str:
    """Return the name of a unit; yosys writes the values of its parameters around it."""
    return next((part for part in module.split("\\") if part in UNITS), "")
