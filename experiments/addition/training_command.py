"""The `train` command: one run or many side by side, and what it prints."""

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from adapters.torch_arrays import pick_device
from experiments.addition.config import ModelConfig, TrainConfig
from experiments.addition.fast_model import runs_compiled
from experiments.addition.reliability import result_table, write_group
from experiments.addition.seed_run import read_metrics
from experiments.addition.train import train_all
from experiments.output import prepare_output
from experiments.reporting.terminal_table import rich_table


def train(options: argparse.Namespace, given: Sequence[str], console: Console) -> int:
    """Train what the options ask for; finished runs are only reported."""
    model = ModelConfig(**_chosen(ModelConfig, options))
    first = TrainConfig(**_chosen(TrainConfig, options))
    settings = [replace(first, seed=first.seed + k) for k in range(options.seeds)]
    base: Path = options.out / options.run_name
    alone = len(settings) == 1
    folders = [base if alone else base / f"seed_{train.seed}" for train in settings]
    device = pick_device(options.device, np.float32).type
    prepare_output(base, "summary.json", "report.md", "grokking.png")
    if device == "cpu" and not runs_compiled(model):
        console.print("The kernels know one layer with one head: this model trains on torch.")
    summaries = train_all(
        folders, model, settings, device, workers=options.workers, fresh=options.fresh
    )
    console.print(rich_table(result_table(summaries), console.width))
    if alone:
        console.print(json.dumps(summaries[0], indent=1))
    else:
        command = shlex.join(["python", "-m", "experiments.addition", *given])
        curves = {
            train.seed: read_metrics(folder / "metrics.csv")
            for folder, train in zip(folders, settings, strict=True)
        }
        console.print(write_group(base, command, summaries, curves).sentence(), soft_wrap=True)
    console.print(f"Files: {base}", soft_wrap=True)
    return 0


def _chosen(kind: Any, options: argparse.Namespace) -> dict[str, Any]:
    given = vars(options)
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}
