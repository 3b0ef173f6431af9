"""Runs the test bench in a simulator and says how many words differ."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hw_sim.rtl.description import BENCH
from hw_sim.rtl.plan import RtlError

COMPILER, RUNNER = "iverilog", "vvp"
TRANSLATOR = "verilator"
TOOLS = {COMPILER: (COMPILER, RUNNER), TRANSLATOR: (TRANSLATOR, "make", "g++")}
"""Simulators, and the programs that each consists of."""
LONGEST_S = 3600
VERDICT = re.compile(r"^(\w+): (\d+) compared, (\d+) differ$", re.MULTILINE)
CLIPPED = re.compile(r"^clipped: (\d+) accumulators, (\d+) weights$", re.MULTILINE)
CYCLES = re.compile(r"^cycles: (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Comparison:
    """What a simulation found."""

    kinds: Mapping[str, tuple[int, int]]
    """By kind, how many words were compared, and how many of them differ or are missing."""
    clipped: tuple[int, int]
    """How many words were clipped, of accumulators and of weights."""
    cycles: int
    """In which the chip was busy."""
    printed: str

    @property
    def compared(self) -> int:
        """Words of all kinds."""
        return sum(compared for compared, _ in self.kinds.values())

    @property
    def differ(self) -> int:
        """Words of all kinds that are not as expected."""
        return sum(differ for _, differ in self.kinds.values())


def missing_simulator(simulator: str = COMPILER) -> str:
    """Say what is missing to simulate, and which package has it; empty if nothing is."""
    missing = next((tool for tool in TOOLS[simulator] if shutil.which(tool) is None), None)
    if missing is None:
        return ""
    package = COMPILER if missing == RUNNER else missing
    return f"{missing}, which simulates the chip, is not installed: it is in the package {package}."


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a design into a folder that is there."""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def simulate(
    folder: Path,
    design: Mapping[str, str],
    *,
    longest_s: float = LONGEST_S,
    simulator: str = COMPILER,
) -> Comparison:
    """Compile the design that lies in a folder, and run its test bench there.

    iverilog knows of words that are neither 0 nor 1. Verilator does not; it takes seconds more to
    compile, and a hundredth of the time to run.
    """
    sources = sorted(name for name in design if name.endswith(".v"))
    with TemporaryDirectory() as made:
        run = (_interpreted if simulator == COMPILER else _translated)(sources, Path(made))
        for command in run:
            printed = run_tool(command, folder, longest_s)
    kinds = {name: (int(words), int(wrong)) for name, words, wrong in VERDICT.findall(printed)}
    clipped, cycles = CLIPPED.search(printed), CYCLES.search(printed)
    if clipped is None or cycles is None:
        raise RtlError(f"the simulation in {folder} ended without a verdict: {printed[-300:]!r}.")
    return Comparison(kinds, (int(clipped[1]), int(clipped[2])), int(cycles[1]), printed)


def _interpreted(sources: list[str], made: Path) -> tuple[list[str], list[str]]:
    """Return what iverilog compiles and runs."""
    program = str(made / f"{BENCH}.vvp")
    compiled = [COMPILER, "-g2005", "-Wall", "-s", BENCH, "-o", program, *sources]
    return compiled, [RUNNER, "-n", program]


def _translated(sources: list[str], made: Path) -> tuple[list[str], list[str]]:
    """Return what makes a program of the design, and that program."""
    options = ["--binary", "--timing", "-Wno-fatal", "--Mdir", str(made), "-o", BENCH]
    return [TRANSLATOR, *options, "--top-module", BENCH, *sources], [str(made / BENCH)]


def run_tool(command: list[str], folder: Path, longest_s: float) -> str:
    """Return what a tool prints, or say in a sentence that it failed."""
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=longest_s, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise RtlError(f"{command[0]} took more than {longest_s:g} s in {folder}.") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RtlError(f"{command[0]} refused the design in {folder}: {' '.join(said[:3])}.")
    return done.stdout
