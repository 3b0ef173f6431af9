"""A saved network as synthesisable Verilog, compared word by word with the simulated chip.

Writes the design, its tables, a test bench that checks itself, and the words it compares with;
runs the test bench where its simulator is installed.
"""

import argparse
import json
from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
from rich.console import Console

from engine.archives import ArchiveError, read_arrays
from engine.arrays import FloatArray
from engine.equilibrium import Relaxation
from engine.learning import checkpoint
from engine.model.network import Network
from engine.model.params import Params
from experiments.circuit.asked import LARGEST_FILE
from experiments.circuit.gates import make_gates
from experiments.options import add_out, named_path, positive, seed_number, whole
from experiments.output import prepare_output
from experiments.records import write_text
from experiments.reporting.document import Table
from experiments.reporting.terminal_table import rich_table
from experiments.shell import make_console
from experiments.tasks.task import RawArray
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan, RtlError, check_weights
from hw_sim.rtl.rehearsal import Rehearsal
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import COMPILER, TOOLS, Comparison, missing_simulator, simulate
from hw_sim.rtl.synthesis import missing_synthesiser

FOLDER = "verilog"
"""Below `--out`."""
TECHNOLOGY, GATES = "technology.toml", "gates.json"
SAMPLES = 4
"""How many are rehearsed, unless others are asked for."""
ASKED = 0.01
"""Spread of the update that a controller asks for in the rehearsal."""
KINDS = {
    "drives": "accumulator words of every drive",
    "states": "state words of every step, also of the last, which is dropped",
    "errors": "error words of every nudged step, and outputs",
    "ends": "words that synapses learn from, at the end of a phase",
    "weights": "weight words after every update",
    "counters": "steps, gaps, and how many words were clipped",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    settings = DigitalConfig()
    parser.add_argument("network", type=named_path, metavar="NETWORK.npz", help="a saved network")
    for name, most in (("state", 24), ("weight", 24), ("accumulator", 60), ("table", 20)):
        usual = getattr(settings, f"{name}_bits")
        parser.add_argument(
            f"--{name}-bits", type=whole(2, most), default=usual, help=f"width ({usual})"
        )
    parser.add_argument(
        "--weight-range", type=float, default=settings.weight_range,
        help=f"largest weight, a power of two ({settings.weight_range:g})",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=named_path, metavar="FILE.npz",
        help="arrays x and y, labels or targets (random)",
    )  # fmt: skip
    parser.add_argument(
        "--sample", type=whole(0, 10**9), nargs="+", metavar="K",
        help=f"which of them, counted from 0 (the first {SAMPLES})",
    )  # fmt: skip
    parser.add_argument("--beta", type=float, default=0.125, help="a power of two (0.125)")
    parser.add_argument("--lr", type=float, default=0.0625, help="a power of two (0.0625)")
    parser.add_argument("--free-steps", type=positive, default=30, help="at most (30)")
    parser.add_argument("--nudged-steps", type=positive, default=10, help="at most (10)")
    parser.add_argument(
        "--simulator", choices=tuple(TOOLS), default=COMPILER,
        help=f"what runs the test bench ({COMPILER}); verilator is faster",
    )  # fmt: skip
    parser.add_argument(
        "--synthesise", action="store_true",
        help="make gates with yosys, measure the energy of a core, write technology.toml",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed_number, default=0, help="of what is random (0)")
    add_out(parser, "results/circuit")


def run(options: argparse.Namespace) -> int:
    """Write the design, simulate it if that is possible; return the exit code."""
    console = make_console(highlight=False)
    params, _, _ = checkpoint.load(options.network)
    config = replace(
        DigitalConfig(), seed=options.seed + 1, weight_range=options.weight_range,
        **{name: getattr(options, name) for name in _WIDTHS},
    )  # fmt: skip
    plan = Plan(params.network, config)
    check_weights(params, config)
    x, y = _chosen(options, params.network)
    still = 2.0**-config.state_fraction
    schedule = Schedule(
        options.beta, Relaxation(options.free_steps, still),
        Relaxation(options.nudged_steps, still), options.lr,
    )  # fmt: skip
    schedule.check(plan, len(x))
    design, folder = chip_files(plan), options.out / FOLDER
    prepare_output(folder, *design, TECHNOLOGY)
    rehearsal = rehearsed(plan, params, schedule, x, y, options.seed)
    texts = design | rehearsal.bench_files()
    for name, text in texts.items():
        write_text(folder / name, text)
    console.print(
        f"Written: {folder}, {len(texts)} files; {plan.cores} cores, "
        f"{params.network.size:,} weights of {config.weight_bits} bits.\n{rehearsal.rounding}",
        soft_wrap=True,
    )
    missing = missing_simulator(options.simulator)
    if missing:
        console.print(f"Not simulated: {missing}", soft_wrap=True)
        return 0
    code = _show(simulate(folder, texts, simulator=options.simulator), rehearsal, console)
    if options.synthesise:
        _synthesise(plan, params, schedule, (x, y), folder, options.told, console)
    return code


_WIDTHS = ("state_bits", "weight_bits", "accumulator_bits", "table_bits")


def rehearsed(
    plan: Plan, params: Params, schedule: Schedule, x: FloatArray, y: FloatArray, seed: int
) -> Rehearsal:
    """Learn the samples alone, take an update from outside, and learn them again."""
    rehearsal = Rehearsal(plan, params, schedule)
    update = np.random.default_rng(seed).normal(0.0, ASKED, plan.network.size)
    rehearsal.train(x, y)
    rehearsal.visit(x, y, update)
    rehearsal.train(x, y)
    return rehearsal


def _synthesise(
    plan: Plan,
    params: Params,
    schedule: Schedule,
    samples: tuple[FloatArray, FloatArray],
    folder: Path,
    command: str,
    console: Console,
) -> None:
    """Measure the gates of a core and write them as a technology, or say what is missing."""
    missing = missing_simulator() or missing_synthesiser()
    if missing:
        console.print(f"Not synthesised: {missing}", soft_wrap=True)
        return
    gates = make_gates(plan, params, schedule, *samples)
    for table in gates.tables():
        console.print(rich_table(table, console.width))
    console.print(
        f"Compared {gates.gross.compared:,} words at the outputs of the gates with those of the "
        f"core: {gates.gross.differ:,} differ.",
        soft_wrap=True,
    )
    write_text(folder / TECHNOLOGY, gates.technology)
    write_text(folder / GATES, json.dumps({"command": command} | gates.values(), indent=1))
    console.print(f"Written: {folder / TECHNOLOGY}", soft_wrap=True)


def _show(found: Comparison, rehearsal: Rehearsal, console: Console) -> int:
    """Print what was compared; return 1 if a word differs."""
    rows = tuple(
        (about, f"{found.kinds[kind][0]:,}", f"{found.kinds[kind][1]:,}")
        for kind, about in KINDS.items()
    )
    title = "Verilog against the simulated chip"
    console.print(rich_table(Table(title, ("words", "compared", "differ"), rows), console.width))
    if found.differ:
        for line in found.printed.splitlines():
            if "expected" in line or "hangs" in line:
                console.print(line, soft_wrap=True)
    accumulators, weights = found.clipped
    inputs = rehearsal.chip.saturations.input
    console.print(
        f"Clipped: {accumulators:,} accumulators, {weights:,} weights, {inputs:,} inputs. "
        f"The chip was busy for {found.cycles:,} cycles.",
        soft_wrap=True,
    )
    console.print(f"Compared {found.compared:,} words: {found.differ:,} differ.")
    return int(found.differ > 0)


def _chosen(options: argparse.Namespace, network: Network) -> tuple[FloatArray, FloatArray]:
    """Return the samples that were asked for, with targets, or random ones."""
    if options.samples is None:
        if options.sample is not None:
            raise RtlError("--sample chooses from --samples, which was not given.")
        rng = np.random.default_rng(options.seed)
        drawn = rng.normal(0.0, 1.0, (SAMPLES, network.inputs))
        return drawn, np.eye(network.outputs)[rng.integers(network.outputs, size=SAMPLES)]
    x, y = _read_samples(options.samples, network)
    fitting = 1 << int(log2(min(len(x), SAMPLES)))
    chosen = options.sample or list(range(fitting))
    for k in chosen:
        if k >= len(x):
            raise RtlError(f"{options.samples} has no sample {k}: the last one is {len(x) - 1}.")
    return x[chosen], y[chosen]


def _read_samples(path: Path, network: Network) -> tuple[FloatArray, FloatArray]:
    """Read inputs and targets; labels become targets of one and zero."""
    if not path.is_file():
        raise RtlError(f"there is no file {path}.")
    try:
        arrays = read_arrays(path, LARGEST_FILE)
    except ArchiveError as error:
        raise RtlError(f"{path} is not a readable .npz of plain arrays: {error}") from None
    for name in ("x", "y"):
        if name not in arrays:
            raise RtlError(f"{path} has no array '{name}'.")
    x, y = arrays["x"], arrays["y"]
    _check_samples(path, network, x, y)
    if y.ndim == 1:
        y = np.eye(network.outputs)[y.astype(np.int64)]
    return x.reshape(len(x), -1).astype(np.float64), y.astype(np.float64)


def _check_samples(path: Path, network: Network, x: RawArray, y: RawArray) -> None:
    """Refuse arrays that are no samples of a network."""
    numbers = x.dtype.kind in "biuf" and y.dtype.kind in "biuf"
    if not numbers or len(x) == 0 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise RtlError(f"{path} holds no samples of finite numbers.")
    if x.ndim < 2 or x[0].size != network.inputs or len(y) != len(x):
        raise RtlError(
            f"{path} has x of shape {x.shape} and y of shape {y.shape}, but the network has "
            f"{network.inputs} inputs."
        )
    if y.ndim == 1:
        if (y != np.floor(y)).any() or y.min() < 0 or y.max() >= network.outputs:
            raise RtlError(f"{path} has labels that are no whole numbers below {network.outputs}.")
    elif y.shape != (len(x), network.outputs):
        raise RtlError(
            f"{path} has y of shape {y.shape}, but the network has {network.outputs} outputs."
        )
