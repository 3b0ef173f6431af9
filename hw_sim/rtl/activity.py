"""What the logic of one core takes, from every change of every net in a simulation of its gates.

The gates run beside the core that they stand for, in the test bench of the chip: they see the same
inputs and have to give the same outputs, and a dump tells when which net changed.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hw_sim.rtl.description import BENCH
from hw_sim.rtl.liberty import Library, read_library
from hw_sim.rtl.plan import RtlError
from hw_sim.rtl.simulation import COMPILER, LONGEST_S, RUNNER, run_tool
from hw_sim.rtl.synthesis import GATES, OPEN_LIBRARY, Synthesis

SHADOW = "gate_shadow"
DUMP = "activity.vcd"
WATCHED = "test_bench.chip.layer_0[0].core_of.logic_of"
"""The core that the gates run beside: that of the first unit."""
DIFFERENT = re.compile(r"^gates: (\d+) outputs compared, (\d+) differ$", re.MULTILINE)
SETTLES, LEARNS, RESTS = "settles", "learns", "rests"

Net = int
"""A wire of one bit, as yosys numbers it."""


@dataclass(frozen=True)
class Activity:
    """Energies of the clock cycles of one core, by what it does in them."""

    cycles: Mapping[str, int]
    energy_pj: Mapping[str, float]
    """Mean of such a cycle."""
    compared: int
    differ: int
    """Words at the outputs of the gates that are not those of the core."""


def measure(
    folder: Path,
    design: Mapping[str, str],
    synthesis: Synthesis,
    delays: bool,
    library: Path = OPEN_LIBRARY,
) -> Activity:
    """Run the test bench in `folder` with the gates beside a core, and price every change.

    With `delays` those of the library make nets change several times in a cycle, else nets change
    at once and only to where they stay.
    """
    models = library.with_suffix(".v")
    if not models.is_file():
        raise RtlError(f"there is no file {models}, which says what the cells of a library do.")
    (folder / "gates.v").write_text(synthesis.netlist, encoding="utf-8")
    (folder / f"{SHADOW}.v").write_text(_shadow(synthesis), encoding="utf-8")
    sources = sorted(name for name in design if name.endswith(".v"))
    more = ["-gspecify"] if delays else []
    tops = ["-s", BENCH, "-s", SHADOW]
    files = [*sources, "gates.v", f"{SHADOW}.v", str(models)]
    run_tool([COMPILER, "-g2005", *more, *tops, "-o", "gates.vvp", *files], folder, LONGEST_S)
    printed = run_tool([RUNNER, "-n", "gates.vvp"], folder, LONGEST_S)
    verdict = DIFFERENT.search(printed)
    if verdict is None:
        raise RtlError(f"the simulation of the gates in {folder} ended without a verdict.")
    energies = toggle_energies(synthesis, read_library(library))
    with (folder / DUMP).open(encoding="utf-8") as lines:
        cycles, energy = cycle_energies(lines, synthesis, energies)
    means = {what: energy[what] / count for what, count in cycles.items() if count}
    return Activity(cycles, means, int(verdict[1]), int(verdict[2]))


def toggle_energies(synthesis: Synthesis, library: Library) -> dict[Net, float]:
    """Return what a change of each net takes: its load, and losses of the cells at its ends."""
    load: dict[Net, float] = defaultdict(float)
    ends: list[tuple[Net, str, str]] = []
    for wired in synthesis.wiring["cells"].values():
        cell = library.cells[wired["type"]]
        for pin, (net,) in wired["connections"].items():
            if isinstance(net, int):  # a constant is a text
                load[net] += cell.capacitance_pf[pin]
                ends.append((net, wired["type"], pin))
    energies = {net: 0.5 * pf * library.volts**2 for net, pf in load.items()}
    for net, kind, pin in ends:
        energies[net] += library.cells[kind].loss_pj(pin, load[net])
    return energies


def _shadow(synthesis: Synthesis) -> str:
    """Write what connects the gates to the inputs of a core and compares the outputs of both."""
    ports = synthesis.wiring["ports"]
    outputs = [name for name, port in ports.items() if port["direction"] == "output"]
    lines = [f"    wire [{len(ports[name]['bits']) - 1}:0] {name};" for name in outputs]
    inputs = [name for name in ports if name not in outputs]
    joined = [f".{name}({WATCHED}.{name})" for name in inputs]
    joined += [f".{name}({name})" for name in outputs]
    lines.append(f"    {GATES} {GATES} ({', '.join(joined)});")
    lines.append("    integer compared = 0, wrong = 0;")
    lines.append("    always @(negedge test_bench.clk) begin")
    for name in outputs:  # before the first word is heard, nothing is known of the core
        lines.append(f"        if (^{WATCHED}.{name} !== 1'bx) begin")
        lines.append("            compared = compared + 1;")
        lines.append(f"            if ({name} !== {WATCHED}.{name}) wrong = wrong + 1;")
        lines.append("        end")
    lines.append("    end")
    lines.append(f'    initial begin $dumpfile("{DUMP}"); $dumpvars(1, {GATES}); end')
    said = f'"{GATES}: %0d outputs compared, %0d differ"'
    lines.append(f"    always @({BENCH}.over) $display({said}, compared, wrong);")
    return "\n".join(("`timescale 1ns / 1ps", f"module {SHADOW};", *lines, "endmodule", ""))


def cycle_energies(
    lines: Iterator[str], synthesis: Synthesis, energies: Mapping[Net, float]
) -> tuple[dict[str, int], dict[str, float]]:
    """Return how many cycles of each kind there were, and what they took together.

    A cycle goes from one rising edge of the clock to the next. Its kind is what the inputs say at
    its end; a cycle in which they are unknown is not counted.
    """
    codes = _codes(lines, synthesis)
    clock, adds, learns = (synthesis.wiring["ports"][p]["bits"][0] for p in ("clk", "add", "learn"))
    state: dict[Net, str] = {}
    cycles, total = {SETTLES: 0, LEARNS: 0, RESTS: 0}, {SETTLES: 0.0, LEARNS: 0.0, RESTS: 0.0}
    spent = 0.0
    for line in lines:
        if line[0] in "#$\n":
            continue
        values, code = line[1:].split() if line[0] == "b" else (line[0], line[1:].strip())
        nets = codes.get(code, [])
        for net, value in zip(nets, values.rjust(len(nets), _filling(values)), strict=True):
            was = state.get(net, "x")
            state[net] = value
            if net == clock and value == "1" and was == "0":
                now = state.get(adds, "x"), state.get(learns, "x")
                if "x" not in now:
                    kind = SETTLES if now[0] == "1" else LEARNS if now[1] == "1" else RESTS
                    cycles[kind] += 1
                    total[kind] += spent
                spent = 0.0
            if (was, value) in (("0", "1"), ("1", "0")):
                spent += energies.get(net, 0.0)
    return cycles, total


def _filling(values: str) -> str:
    """Return the digit that a shortened vector is filled up with on its left."""
    return values[0] if values[0] in "xz" else "0"


def _codes(lines: Iterator[str], synthesis: Synthesis) -> dict[str, list[Net]]:
    """Read the head of a dump: the nets of each code, the highest bit first.

    A net that has several names is taken by one of them.
    """
    names, taken = synthesis.wiring["netnames"], set[Net]()
    codes: dict[str, list[Net]] = {}
    for line in lines:
        if line.startswith("$enddefinitions"):
            break
        parts = line.split()
        if parts[:1] != ["$var"]:
            continue
        bits = names[parts[4].removeprefix("\\")]["bits"][::-1]
        if taken.isdisjoint(bits):
            codes[parts[3]] = bits
            taken |= set(bits)
        else:  # bits that other names have are held by nobody here
            codes[parts[3]] = [bit if bit not in taken else -1 for bit in bits]
            taken |= set(bits)
    return codes
