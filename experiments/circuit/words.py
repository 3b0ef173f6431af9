"""Compare the Verilog of networks of digits with the simulated chip, at ten sets of widths.

Three networks are trained in seconds and kept, with samples, for `verilog`; a fourth is larger and
as it was drawn. Each is rehearsed word by word in iverilog, which takes ten minutes of a processor
in all, four of them for the large one. Exit code 1 means that a word differs.
"""

import argparse
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits

from engine import (
    Network,
    NumbaBackend,
    Params,
    Relaxation,
    Training,
    fit,
    initial_params,
    layered,
    looped_mlp,
    save,
)
from engine.arrays import FloatArray, IntArray
from experiments.circuit.verilog import SAMPLES, rehearsed
from experiments.machine import describe_machine
from experiments.options import add_out
from experiments.output import prepare_output
from experiments.records import write_bytes, write_text
from experiments.shell import make_console
from golden.metric import format_table
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan, RtlError
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import Comparison, missing_simulator, simulate

SHOWN = ("name", "bits", "cycles", "compared", "differ")
RECORD, DIGITS = "words.json", "digits.npz"
SEED = 0
TRAINED = 1400
"""Digits that are trained on; samples are those behind them."""
NETWORKS: Mapping[str, Network] = {
    "looped": looped_mlp(64, 32, 10),
    "layered": layered((64, 32, 16, 10)),
    "squared": layered((64, 24, 10), readout="squared_error"),
}
DRAWN = looped_mlp(784, 64, 10)
"""As `initial_params` draws it, with random samples."""


@dataclass(frozen=True)
class Widths:
    """Bits of states, weights and accumulators, and the largest weight."""

    state_bits: int = 10
    weight_bits: int = 12
    accumulator_bits: int = 32
    weight_range: float = DigitalConfig().weight_range

    def text(self) -> str:
        """Say them in one cell of a table."""
        bits = f"{self.state_bits} / {self.weight_bits} / {self.accumulator_bits}"
        usual = self.weight_range == Widths().weight_range
        return bits if usual else f"{bits} (`--weight-range {self.weight_range:g}`)"


CASES: tuple[tuple[str, Widths], ...] = (
    ("looped", Widths()),
    ("layered", Widths()),
    ("squared", Widths()),
    ("looped", Widths(8, 8, 24)),
    ("looped", Widths(accumulator_bits=18)),
    ("looped", Widths(6, 6, 12, 1.0)),
    ("looped", Widths(14, 16, 36)),
    ("layered", Widths(accumulator_bits=18)),
    ("squared", Widths(accumulator_bits=18)),
    ("drawn", Widths()),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--train-only", action="store_true", help="keep networks, compare nothing")
    add_out(parser, "results/words")


def run(options: argparse.Namespace) -> int:
    """Train, keep what was trained, compare, print and write the table."""
    console = make_console()
    prepare_output(options.out, RECORD, DIGITS, *(f"{name}.npz" for name in NETWORKS))
    trained, (x, y) = _train(), _digits()
    for name, params in trained.items():
        save(options.out / f"{name}.npz", params)
    samples = io.BytesIO()
    np.savez(samples, x=x[TRAINED:], y=y[TRAINED:])
    write_bytes(options.out / DIGITS, samples.getvalue())
    console.print(f"Trained: {', '.join(trained)}, in {options.out}.", soft_wrap=True)
    if options.train_only:
        return 0
    missing = missing_simulator()
    if missing:
        raise RtlError(missing)
    rows = []
    for name, widths in CASES:
        if name == "drawn":
            params, samples_of = initial_params(DRAWN, np.random.default_rng(SEED)), _random()
        else:
            targets = np.eye(10)[y[TRAINED : TRAINED + SAMPLES]]
            params, samples_of = trained[name], (x[TRAINED : TRAINED + SAMPLES], targets)
        found = _compare(params, widths, *samples_of)
        rows.append(_row(name, params.network, widths, found))
        about = f"{name}, {widths.text()}: {found.compared:,} words, {found.differ:,} differ"
        console.print(about, soft_wrap=True, highlight=False)
    console.print(format_table(SHOWN, [tuple(row[name] for name in SHOWN) for row in rows]))
    record = {"command": options.told, "machine": describe_machine(), "rows": rows}
    write_text(options.out / RECORD, json.dumps(record, indent=1))
    console.print(f"Written: {options.out / RECORD}", soft_wrap=True)
    return int(any(row["differ"] for row in rows))


def _digits() -> tuple[FloatArray, IntArray]:
    """Return all digits with a mean of zero and a deviation of one."""
    x, y = load_digits(return_X_y=True)
    return (x - x.mean()) / x.std(), y


def _train() -> dict[str, Params]:
    x, y = _digits()
    trained = {}
    for name, network in NETWORKS.items():
        backend = NumbaBackend(network, initial_params(network, np.random.default_rng(SEED)))
        fit(backend, x[:TRAINED], y[:TRAINED], Training(epochs=8))
        trained[name] = backend.params
    return trained


def _random() -> tuple[FloatArray, FloatArray]:
    """Return the samples that `verilog` draws where it is given none."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(0.0, 1.0, (SAMPLES, DRAWN.inputs))
    return x, np.eye(DRAWN.outputs)[rng.integers(DRAWN.outputs, size=SAMPLES)]


def _compare(params: Params, widths: Widths, x: FloatArray, y: FloatArray) -> Comparison:
    """Rehearse a network on four samples, as `verilog` does."""
    config = replace(DigitalConfig(), seed=SEED + 1, **asdict(widths))
    plan, still = Plan(params.network, config), 2.0**-config.state_fraction
    schedule = Schedule(0.125, Relaxation(30, still), Relaxation(10, still), 0.0625)
    schedule.check(plan, len(x))
    texts = chip_files(plan) | rehearsed(plan, params, schedule, x, y, SEED).bench_files()
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            write_text(Path(folder, name), text)
        return simulate(Path(folder), texts)


def _row(name: str, network: Network, widths: Widths, found: Comparison) -> dict[str, object]:
    return {
        "name": name,
        "sizes": [*network.sizes.values(), *_outside(network)],
        "bits": widths.text(),
        "words": {kind: compared for kind, (compared, _) in found.kinds.items()},
        "clipped": found.clipped[0],
        "cycles": found.cycles,
        "compared": found.compared,
        "differ": found.differ,
    }


def _outside(network: Network) -> tuple[int, ...]:
    """Return the outputs where they are no units, so that no layer has them."""
    return () if [*network.sizes.values()][-1] == network.outputs else (network.outputs,)
