"""Choose learning rates, betas and activations on the validation split, for every contestant."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from experiments.parity.contestants import Job
from experiments.parity.runs import BASELINES
from experiments.parity.settings import BUDGETS, USER_BUDGET
from experiments.records import Record
from experiments.tasks import Task

SEEDS = (7, 8)
"""For tuning only: no reported run uses them."""

RATES = (1e-3, 2.5e-3, 6e-3)
BETAS = (0.01, 0.05)
GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "eqprop_looped": {"lr": RATES, "beta": BETAS},
    "eqprop_layered": {"lr": RATES, "beta": BETAS},
    "backprop_looped": {"lr": RATES},
    "backprop_feedforward": {"lr": RATES, "activation": ("tanh", "relu")},
}

LARGE: dict[str, Any] = {"seeds": SEEDS[:1], "lr": RATES[:2], "beta": BETAS[1:]}
SHORTENED: dict[str, dict[str, Any]] = {
    "mnist": LARGE,
    "fashion_mnist": LARGE,
}
"""Tasks that are tuned with less, for all contestants: seeds, points of the grid."""


def tuning_jobs(tasks: Iterable[Task]) -> list[Job]:
    """Return every point of every grid, with each tuning seed."""
    jobs = []
    for task in tasks:
        short = SHORTENED.get(task.name, {})
        budget = BUDGETS.get(task.name, USER_BUDGET)
        budget = replace(budget, epochs=short.get("epochs", budget.epochs))
        for contestant, whole in GRIDS.items():
            grid = {name: short.get(name, values) for name, values in whole.items()}
            for values in product(*grid.values()):
                point = dict(zip(grid, values, strict=True))
                label = "".join(f"-{name}{value}" for name, value in point.items())
                settings = replace(budget, **point)
                jobs += [
                    Job(task, contestant, seed, settings, final=False, label=label)
                    for seed in short.get("seeds", SEEDS)
                ]
    return jobs


def choose(results: Iterable[tuple[Job, Record]]) -> list[dict[str, Any]]:
    """Return the best point of each task and contestant: by accuracy, then by cost."""
    groups: dict[tuple[str, str, str], list[tuple[Job, Record]]] = defaultdict(list)
    for job, record in results:
        groups[job.task.name, job.contestant, job.label].append((job, record))
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for (task, contestant, _), runs in groups.items():
        job = runs[0][0]
        row = {
            "task": task,
            "contestant": contestant,
            "chosen": {name: getattr(job.settings, name) for name in GRIDS[contestant]},
            "accuracy": float(np.mean([record.accuracy for _, record in runs])),
            "cost": float(np.mean([record.cost for _, record in runs])),
        }
        rival = best.get((task, contestant))
        if rival is None or _rank(row) > _rank(rival):
            best[task, contestant] = row
    return list(best.values())


def best_baselines(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the backprop contestant of each task with the best validation result."""
    rivals = [row for row in rows if row["contestant"] in BASELINES]
    names = {}
    for task in dict.fromkeys(row["task"] for row in rivals):
        top = max((row for row in rivals if row["task"] == task), key=_rank)
        names[task] = top["contestant"]
    return names


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    return row["accuracy"], -row["cost"]
