"""The commands that add by equilibrium propagation: `cell`, and as research `energy`."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from experiments.addition.data import Pairs, holdout
from experiments.addition.energy_adder import (
    EnergyResult,
    EnergySettings,
    result_table,
    train_adder,
)
from experiments.addition.eqprop_cell import CASES, CellResult, CellSettings, judge_cell
from experiments.addition.reliability import reliability
from experiments.addition.sums import TEST_SEEDS
from experiments.output import prepare_output
from experiments.pool import as_finished
from experiments.progress import progress_bars
from experiments.records import write_text
from experiments.reporting.document import Table
from experiments.reporting.terminal_table import rich_table
from experiments.transformer.training import METHODS


def cell(options: argparse.Namespace, command: str, console: Console) -> int:
    """Train the adder cell for several seeds and let each add the published test sums."""
    prepare_output(options.out, "cell.json")
    settings = CellSettings(updates=options.updates)
    parts = [holdout(seed).test for seed in TEST_SEEDS]
    a, b = np.concatenate([p.a for p in parts]), np.concatenate([p.b for p in parts])
    pairs = Pairs(a, b)[: options.sums]
    seeds = range(options.seed, options.seed + options.seeds)
    with progress_bars() as show:
        results = [judge_cell(settings, k, pairs, partial(show, f"seed {k}")) for k in seeds]
    console.print(rich_table(_cell_table(results), console.width))
    solved = sum(result.exact == result.total for result in results)
    share = reliability(solved, len(results))
    console.print(
        f"{solved} of {len(results)} seeds add all {len(pairs):,} sums (exact 95 % interval "
        f"{share.low:.1%} to {share.high:.1%})."
    )
    trained = [asdict(result) for result in results]
    content = {"command": command, "settings": asdict(settings), "results": trained}
    return _write(options.out / "cell.json", content, console)


def energy(options: argparse.Namespace, command: str, console: Console) -> int:
    """Train energy transformers by both methods side by side, one process for each."""
    prepare_output(options.out, "energy.json")
    runs = [
        (EnergySettings(digits, updates=options.updates), method, options.seed + k)
        for digits, k, method in product(options.digits, range(options.seeds), METHODS)
    ]
    found: dict[int, EnergyResult] = {}
    with progress_bars() as show:
        show("trainings", 0, len(runs), "")
        for number, result in as_finished(_train, runs, options.workers):
            found[number] = result
            show("trainings", len(found), len(runs), f"{result.exact:,} of {result.total:,} exact")
    results = [found[number] for number in range(len(runs))]
    console.print(rich_table(result_table(results), console.width))
    settings = [asdict(run[0]) for run in runs]
    content = {"command": command, "settings": settings, "results": list(map(asdict, results))}
    return _write(options.out / "energy.json", content, console)


def _train(run: tuple[EnergySettings, str, int]) -> EnergyResult:
    return train_adder(*run)


def _write(path: Path, content: dict[str, Any], console: Console) -> int:
    write_text(path, json.dumps(content, indent=1))
    console.print(f"Written: {path}", soft_wrap=True)
    return 0


def _cell_table(results: Sequence[CellResult]) -> Table:
    rows = tuple(
        (
            str(r.seed),
            f"{r.right_cases} of {CASES}",
            f"{r.exact:,} of {r.total:,}",
            f"{r.steps:.1f}",
            f"{r.unsettled:.2%}",
        )
        for r in results
    )
    return Table(
        f"Adder cell by equilibrium propagation, {results[0].parameters:,} parameters",
        ("seed", "cases", "ten-digit sums", "steps of a digit", "not settled"),
        rows,
    )
