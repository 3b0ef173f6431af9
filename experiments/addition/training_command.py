"""The `train` command: its options, one run or many side by side, and what it prints."""

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
from experiments.addition.config import TYINGS, ModelConfig, TrainConfig
from experiments.addition.fast_model import runs_compiled
from experiments.addition.reliability import result_table, write_group
from experiments.addition.seed_run import read_metrics
from experiments.addition.train import train_all
from experiments.options import (
    MOST_TIMES,
    add_out,
    add_workers,
    plain_name,
    seed_count,
    seed_number,
    whole,
)
from experiments.output import prepare_output
from experiments.reporting.terminal_table import rich_table

MOST_SUMS = 10**6
"""In an update, so that it fits the memory."""


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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options; their names are those of the published code where it has them."""
    add = parser.add_argument
    add("--run-name", type=plain_name, required=True, metavar="NAME", help="folder below --out")
    add_out(parser, "results/runs")
    add("--seeds", type=seed_count, default=1, metavar="N", help="train N seeds from --seed on (1)")
    add_workers(parser, "seeds")
    add("--device", default="cpu", help="cpu, cuda, mps or auto; all seeds in one stack if not cpu")
    add("--fresh", action="store_true", help="train again instead of going on")
    model, train = ModelConfig(), TrainConfig()
    for name, text in (
        ("d-model", "width"),
        ("d-ff", "width of the feed-forward layer"),
        ("n-layer", "layers"),
        ("n-head", "heads"),
        ("pos-rank", "rank of the position embedding, 0 is full"),
        ("qkv-rank", "rank of the query, key and value maps, 0 is full"),
        ("attn-out-rank", "rank of the attention's output map, 0 is full"),
        ("ffn-rank", "rank of the feed-forward maps, 0 is full"),
    ):
        default = getattr(model, name.replace("-", "_"))
        add(f"--{name}", type=int, default=default, metavar="N", help=f"{text} ({default})")
    add("--use-rmsnorm", action="store_true", help="RMSNorm in place of LayerNorm")
    add("--tie-qkv", default=model.tie_qkv, metavar="MODE", help=", ".join(TYINGS))
    add(
        "--frozen-residual",
        type=float,
        default=0.0,
        metavar="X",
        help="deviation, in units of 1/sqrt(inputs), of a random matrix that is added to every "
        "low-rank linear map and never trained (0: none)",
    )
    add("--seed", type=seed_number, default=train.seed, metavar="N", help=f"first ({train.seed})")
    for name, least, most, text in (
        ("train-steps", 1, MOST_TIMES, "updates"),
        ("batch-size", 1, MOST_SUMS, "sums in an update"),
        ("warmup-steps", 0, MOST_TIMES, "updates until the learning rate is at its peak"),
        ("eval-interval", 1, MOST_TIMES, "updates between evaluations"),
        ("stop-after", 0, MOST_TIMES, "evaluations in a row without an error to stop, 0 is never"),
    ):
        default = getattr(train, name.replace("-", "_"))
        help_text = f"{text} ({default})"
        add(f"--{name}", type=whole(least, most), default=default, metavar="N", help=help_text)
    for name, text in (
        ("lr", "peak of the learning rate"),
        ("weight-decay", "decoupled weight decay"),
        ("min-lr-ratio", "last learning rate over its peak"),
        ("grad-clip", "largest norm of the gradient"),
        ("carry-share", "share of sums with long carries, which fades in training, 0: published"),
        ("sparse-share", "share of sums with zeros at random places, 0: published lengths"),
        ("aligned-start", "deviation of positions that start alike by weight, 0: published start"),
    ):
        default = getattr(train, name.replace("-", "_"))
        add(f"--{name}", type=float, default=default, metavar="X", help=f"{text} ({default:g})")
    add(
        "--curriculum",
        type=_curriculum,
        default=train.curriculum,
        metavar="DIGITS:STEPS,...",
        help="most digits of an operand for so many updates, then ten; or 'none' (3:2000,6:5000)",
    )


def _curriculum(text: str) -> tuple[tuple[int, int], ...]:
    if text == "none":
        return ()
    parts = [part.split(":") for part in text.split(",")]
    if not all(len(part) == 2 and all(number.isdecimal() for number in part) for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form 3:2000,6:5000")
    return tuple((int(digits), int(steps)) for digits, steps in parts)


def _chosen(kind: Any, options: argparse.Namespace) -> dict[str, Any]:
    given = vars(options)
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}
