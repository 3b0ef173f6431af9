"""Train small networks, and print how far engine, circuit simulator and Verilog agree.

Circuits go to ngspice: operating points with ideal and with Shockley diodes, and transients.
Digital networks go to iverilog, word by word. All are trained anew, in seconds. What needs a tool
that is missing is listed as not run, with the name of its package; it is no failure. Exit code 1
means that a goal is missed.
"""

import argparse
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from adapters.spice_netlist import Parts, write_netlist
from adapters.spice_run import missing_ngspice, run_netlist
from engine import (
    Adam,
    Network,
    NumbaBackend,
    Params,
    Relaxation,
    Training,
    fit,
    initial_params,
    layered,
    looped_mlp,
    resistive,
    save,
)
from engine.arrays import FloatArray, IntArray
from engine.learning.predict import checked_data
from experiments.circuit.transient import GOAL as GOAL_SHARE
from experiments.circuit.verilog import rehearsed
from experiments.circuit.watching import SETTLED, Conditions, Watcher
from experiments.machine import describe_machine
from experiments.options import add_out
from experiments.output import prepare_output
from experiments.records import write_bytes, write_text
from experiments.shell import make_console
from experiments.tasks import find_task
from golden.metric import format_table
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import missing_simulator, simulate

SEED = 0
BETA = 0.1
GOAL_V = 1e-6
SAMPLES = 4
IN_TIME = Relaxation(200_000, 1e-9, "ode")
GOAL_FIXED_V = 1e-7
"""A hundred times the tolerance of the integration."""
RECORD = "agreement.json"
XOR = np.array([[-1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])
LABELS = np.array([0, 1, 1, 0])


@dataclass(frozen=True)
class Row:
    """One comparison: `found` in `unit`, and a goal where there is one."""

    network: str
    compared: str
    found: float | None
    """`None` where it was not run."""
    unit: str
    goal: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """What the table says of it."""
        if self.found is None:
            return "not run"
        if self.goal is None:
            return "reported"
        return "reached" if isfinite(self.found) and self.found <= self.goal else "missed"


@dataclass(frozen=True)
class Trained:
    """A network that was trained, and samples to compare it on."""

    name: str
    params: Params
    x: FloatArray
    y: FloatArray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_out(parser, "results/agree")


def run(options: argparse.Namespace) -> int:
    """Compare, print the table, write it as JSON."""
    console = make_console()
    prepare_output(options.out, RECORD)
    rows: list[Row] = []
    for row in _rows(options.out, console):
        rows.append(row)
        about = f"{row.network}: {row.compared}: {row.verdict}"
        console.print(about, soft_wrap=True, highlight=False)
    heads = ("network", "compared", "largest difference", "goal", "verdict", "note")
    table = [
        (row.network, row.compared, _text(row.found, row.unit), _text(row.goal, row.unit),
         row.verdict, row.note)
        for row in rows
    ]  # fmt: skip
    console.print(format_table(heads, table), soft_wrap=True, highlight=False)
    record = {"command": options.told, "machine": describe_machine(), "seed": SEED}
    whole = record | {"rows": [_values(row) for row in rows]}
    write_text(options.out / RECORD, json.dumps(whole, indent=1))
    console.print(f"Written: {options.out / RECORD}", soft_wrap=True)
    return int(any(row.verdict == "missed" for row in rows))


def _values(row: Row) -> dict[str, object]:
    return asdict(row) | {"verdict": row.verdict}


def _text(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2g} {unit}"


def _rows(out: Path, console: Console) -> Iterator[Row]:
    """Yield a row for each comparison, in the order of the table; keep the circuits."""
    missing = missing_ngspice()
    for circuit in _circuits():
        console.print(f"Trained: {circuit.name}", highlight=False)
        _keep(out, circuit)
        yield from _compared(_engine_rows, circuit, "")
        yield from _compared(_point_rows, circuit, missing)
        yield from _compared(_transient_rows, circuit, missing)
    absent = missing_simulator() or ""
    for digital in _digitals():
        console.print(f"Trained: {digital.name}", highlight=False)
        yield from _compared(_word_rows, digital, absent)


def _keep(out: Path, circuit: Trained) -> None:
    """Write the network, its samples, and a netlist of the second one with the nudge."""
    name = circuit.name.split(",")[0].replace(" ", "-")
    save(out / f"{name}.npz", circuit.params)
    samples = io.BytesIO()
    np.savez(samples, x=circuit.x, y=circuit.y)
    write_bytes(out / f"{name}-samples.npz", samples.getvalue())
    nudged = write_netlist(circuit.params, circuit.x[1:2], circuit.y[1:2], BETA)
    write_text(out / f"{name}.cir", nudged)


def _compared(
    rows: Callable[[Trained, bool], Iterator[Row]], trained: Trained, missing: str
) -> Iterator[Row]:
    """Yield the rows of one kind; without the tool, each says that it was not run, and why."""
    for row in rows(trained, not missing):
        yield replace(row, note=missing) if missing else row


def _circuits() -> Iterator[Trained]:
    """Yield trained circuits."""
    network, pairs = resistive((2, 4, 2), input_amplification=4.0), XOR[:, :2]
    yield _trained("circuit 2-4-2, exclusive or", network, (pairs, LABELS), Training(
        epochs=600, batch_size=4, optimizer=Adam(0.02), seed=SEED))  # fmt: skip
    split = find_task("digits").load(SEED)
    network = resistive((64, 16, 10), input_amplification=100.0, total=10.0)
    yield _trained("circuit 64-16-10, digits", network, (split.x_train, split.y_train), Training(
        epochs=3, batch_size=32, optimizer=Adam(0.02), seed=SEED),
        (split.x_test, split.y_test))  # fmt: skip


def _digitals() -> Iterator[Trained]:
    """Yield trained networks of matrices."""
    how = Training(epochs=100, batch_size=4, optimizer=Adam(0.02), seed=SEED)
    for name, network in (
        ("looped 3-8-2, exclusive or", looped_mlp(3, 8, 2)),
        ("layered 3-6-4-2, exclusive or", layered((3, 6, 4, 2))),
    ):
        yield _trained(name, network, (XOR, LABELS), how)


def _trained(
    name: str,
    network: Network,
    data: tuple[FloatArray, IntArray],
    how: Training,
    judged: tuple[FloatArray, IntArray] | None = None,
) -> Trained:
    """Train a network, and return it with the first samples that it is compared on."""
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(SEED)))
    fit(backend, *data, how)
    params = backend.params.astype(np.float64)
    x, y = checked_data(NumbaBackend(network, params), *(judged or data))
    return Trained(name, params, x[:SAMPLES], y[:SAMPLES])


def _engine_rows(it: Trained, runs: bool) -> Iterator[Row]:
    """The solver in time against sweeps, free and nudged."""
    backend = NumbaBackend(it.params.network, it.params)
    clamped, apart = backend.clamp(it.x, it.y), 0.0
    for beta in (0.0, BETA):
        states = [backend.settle(clamped, beta, way).state for way in (IN_TIME, SETTLED)]
        apart = max(apart, float(np.abs(states[0] - states[1]).max()))
    yield Row(it.name, "engine in time, fixed point", apart, "V", GOAL_FIXED_V)


def _point_rows(it: Trained, runs: bool) -> Iterator[Row]:
    """Operating points of ngspice against the engine, free and nudged."""
    backend = NumbaBackend(it.params.network, it.params)
    clamped = backend.clamp(it.x, it.y)
    for diode, goal in (("ideal", GOAL_V), ("shockley", None)):
        apart = None
        for beta in (0.0, BETA) if runs else ():
            text = write_netlist(it.params, it.x, it.y, beta, Parts(diode))  # type: ignore[arg-type]
            away = run_netlist(text, it.params.network)
            away = away - backend.settle(clamped, beta, SETTLED).state
            apart = max(apart or 0.0, float(np.abs(away).max()))
        yield Row(it.name, f"engine, ngspice with {diode} diodes", apart, "V", goal)


def _transient_rows(it: Trained, runs: bool) -> Iterator[Row]:
    """The transient of one sample against the engine in time."""
    found = []
    if runs:
        watch = Watcher(it.params, Conditions(beta=BETA), lambda name, text: None)
        found = [settling for _, settling in watch.phases(0, it.x[0], it.y[0])]
    shares = [100 * abs(s.spice_s / s.engine_s - 1) for s in found]
    times = ", ".join(f"{s.phase} {s.time_constants:.3g} RC" for s in found)
    what = "engine in time, ngspice transient"
    yield Row(it.name, f"{what}: settling time", max(shares, default=None), "%",
              100 * GOAL_SHARE, times)  # fmt: skip
    yield Row(it.name, f"{what}: voltages", max((s.apart_v for s in found), default=None), "V")


def _word_rows(it: Trained, runs: bool) -> Iterator[Row]:
    """Every word of the Verilog against the simulated chip."""
    differ, note = None, ""
    if runs:
        config = replace(DigitalConfig(), weight_bits=10)
        plan, still = Plan(it.params.network, config), 2.0**-config.state_fraction
        schedule = Schedule(0.125, Relaxation(30, still), Relaxation(10, still), 0.0625)
        schedule.check(plan, len(it.x))
        rehearsal = rehearsed(plan, it.params, schedule, it.x, it.y, SEED)
        texts = chip_files(plan) | rehearsal.bench_files()
        with TemporaryDirectory() as folder:
            for name, text in texts.items():
                write_text(Path(folder, name), text)
            found = simulate(Path(folder), texts)
        differ, note = float(found.differ), f"of {found.compared:,} words"
    yield Row(it.name, "simulated chip, Verilog by iverilog", differ, "words", 0.0, note)
