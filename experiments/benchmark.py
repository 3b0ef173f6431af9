"""Measure one relaxation of the compiled engine against the bare matrix products it contains.

Everything is a ratio inside one run: in every round each contestant does the same work once, in
turn, so that a busy moment of the machine hits them alike. Medians, with the quartiles beside them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from adapters.torch_backend import TorchBackend
from engine.backend import Backend, Clamped, Relaxation
from engine.compiled import NumbaBackend
from engine.network import looped_mlp
from engine.params import initial_params
from engine.progress import progress_bar
from engine.spectral import recurrent_norm
from experiments.options import positive
from experiments.records import write_text

STEPS = 30
WIDTHS = (64, 256, 1024)
BATCHES = (16, 128)
INPUTS, OUTPUTS = 64, 10
NORM = 0.95

Contestant = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """Time of a contestant over that of the bare products: median and quartiles."""

    contestant: str
    width: int
    batch: int
    median: float
    low: float
    high: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(arguments)
    console = Console()
    torch.set_num_threads(options.threads)
    ratios: list[Ratio] = []
    with threadpool_limits(options.threads), progress_bar() as bar:
        task = bar.add_task("relaxations", total=len(WIDTHS) * len(BATCHES), note="")
        for width in WIDTHS:
            for batch in BATCHES:
                ratios += measure(width, batch, options.rounds)
                bar.update(task, advance=1, note=f"width {width}, batch {batch}")
    console.print(_table(ratios, options.threads))
    content = {"threads": options.threads, "ratios": [asdict(ratio) for ratio in ratios]}
    write_text(options.out / "benchmark.json", json.dumps(content, indent=1))
    return 0


def measure(width: int, batch: int, rounds: int) -> list[Ratio]:
    """Time every contestant `rounds` times in turn, after one call each to warm up and compile."""
    contestants = prepare(width, batch)
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    floor = np.array(seconds.pop("bare"))
    ratios = []
    for name, times in seconds.items():
        low, median, high = np.percentile(np.array(times) / floor, (25, 50, 75))
        ratios.append(Ratio(name, width, batch, float(median), float(low), float(high)))
    return ratios


def prepare(width: int, batch: int) -> dict[str, Contestant]:
    """Return what is timed: `bare` products of float32 matrices, and the backends."""
    rng = np.random.default_rng(0)
    network = looped_mlp(INPUTS, width, OUTPUTS)
    params = initial_params(network, rng)
    # A weak input and a norm near the cap: no sample settles early, so all do all the steps.
    params["W_rec"][...] *= NORM / recurrent_norm(params)
    x = (0.1 * rng.standard_normal((batch, INPUTS))).astype(np.float32)
    state = rng.standard_normal((batch, width)).astype(np.float32)
    out, weight = np.empty_like(state), params["W_rec"]

    def bare() -> None:
        for _ in range(STEPS):
            np.dot(state, weight, out=out)

    contestants: dict[str, Contestant] = {"bare": bare}
    backends: dict[str, Backend] = {
        "numba": NumbaBackend(network, params),
        "torch": TorchBackend(network, params, "cpu"),
    }
    for name, backend in backends.items():
        contestants[name] = partial(_relax, backend, backend.clamp(x))
    return contestants


def _relax(backend: Backend, clamped: Clamped) -> None:
    backend.relax(clamped, relaxation=Relaxation(STEPS, 0.0))


def _table(ratios: Sequence[Ratio], threads: int) -> Table:
    title = f"{STEPS} steps over the bare matrix products, float32, {threads} thread(s)"
    table = Table(title=title)
    for column in ("width", "batch", "contestant", "times the products", "quartiles"):
        table.add_column(column, justify="right")
    for r in ratios:
        spread = f"{r.low:.2f} to {r.high:.2f}"
        table.add_row(str(r.width), str(r.batch), r.contestant, f"{r.median:.2f}", spread)
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=positive, default=15, help="times each is measured (15)")
    parser.add_argument("--threads", type=positive, default=1, help="threads of BLAS and torch (1)")
    parser.add_argument("--out", type=Path, default=Path("results/benchmark"), help="folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
