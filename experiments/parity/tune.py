"""Choose learning rates, betas and activations on the validation split, for every contestant."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from experiments.parity.contestants import ParityJob
from experiments.parity.roster import BASELINES
from experiments.parity.settings import BUDGETS, USER_BUDGET, ParitySettings
from experiments.records import Record
from experiments.tasks import Task

SEEDS = (7, 8, 9)
"""For tuning only: no reported run uses them."""

RATES = (2.5e-3, 6e-3, 1.5e-2)
DECAYS = (0.0, 0.3)
BETAS = (0.01, 0.03, 0.1)
ACTIVATIONS = ("tanh", "relu")
GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "eqprop_looped": {"lr": RATES, "decay": DECAYS},
    "eqprop_layered": {"lr": RATES, "decay": DECAYS},
    "backprop_looped": {"lr": RATES, "decay": DECAYS},
    "backprop_feedforward": {"lr": RATES, "decay": DECAYS, "activation": ACTIVATIONS},
}
"""All points of these are tried first, with the activation and beta of the budget elsewhere."""

AFTERWARDS: dict[str, dict[str, Sequence[Any]]] = {
    "eqprop_looped": {"activation": ACTIVATIONS, "beta": BETAS},
    "eqprop_layered": {"activation": ACTIVATIONS, "beta": BETAS},
    "backprop_looped": {"activation": ACTIVATIONS},
}
"""Tried at the best point of the first grid, one at a time: relaxations cost too much for more."""

_IMAGES: dict[str, Any] = {"seeds": SEEDS[:1], "lr": (1e-3, 2.5e-3)}
_CONTROL: dict[str, Any] = {"decay": DECAYS[:1]}
ADAPTED: dict[str, dict[str, Any]] = {
    "digits": {"seeds": tuple(range(7, 17)), "lr": (6e-3, 1.5e-2, 4e-2)},
    "mnist": _IMAGES,
    "fashion_mnist": _IMAGES,
    "cartpole": _CONTROL,
    "acrobot": _CONTROL,
}
"""Seeds and points of tasks that are tuned with others, for all contestants alike.

The validation part of digits has only 360 samples, so it takes more seeds. The images have ten
times the data and steps, so lower rates; the experts of the control tasks are rules without noise,
so nothing is overfitted.
"""


def tuning_jobs(tasks: Iterable[Task]) -> list[ParityJob]:
    """Return every point of the first grids, with each tuning seed."""
    jobs: list[ParityJob] = []
    for task in tasks:
        budget = BUDGETS.get(task.name, USER_BUDGET)
        for contestant, grid in GRIDS.items():
            jobs += _points(task, contestant, budget, grid)
    return jobs


def afterwards_jobs(tasks: Iterable[Task], chosen: Iterable[dict[str, Any]]) -> list[ParityJob]:
    """Return what is tried after the first grids, at the points that they chose."""
    known = {task.name: task for task in tasks}
    jobs: list[ParityJob] = []
    for row in chosen:
        task, contestant = known[row["task"]], row["contestant"]
        settings = replace(BUDGETS.get(task.name, USER_BUDGET), **row["chosen"])
        for name, values in AFTERWARDS.get(contestant, {}).items():
            others = [value for value in values if value != getattr(settings, name)]
            jobs += _points(task, contestant, settings, {name: others})
    return jobs


def _points(
    task: Task, contestant: str, settings: ParitySettings, grid: Mapping[str, Sequence[Any]]
) -> Iterator[ParityJob]:
    adapted = ADAPTED.get(task.name, {})
    axes = {name: adapted.get(name, values) for name, values in grid.items()}
    for values in product(*axes.values()):
        point = replace(settings, **dict(zip(axes, values, strict=True)))
        chosen = {name: getattr(point, name) for name in tuned_names(contestant)}
        label = "".join(f"-{name}{value}" for name, value in chosen.items())
        for seed in adapted.get("seeds", SEEDS):
            yield ParityJob(task, contestant, seed, point, final=False, label=label)


def tuned_names(contestant: str) -> tuple[str, ...]:
    """Return the settings that tuning chooses for a contestant."""
    return *GRIDS[contestant], *AFTERWARDS.get(contestant, {})


def choose(results: Iterable[tuple[ParityJob, Record]]) -> list[dict[str, Any]]:
    """Return the best point of each task and contestant.

    Of the points whose accuracy is within one standard error of the highest, the one with the
    lowest cost: what the validation part cannot tell apart by counting, it may by likelihood.
    """
    groups: dict[tuple[str, str, str], list[tuple[ParityJob, Record]]] = defaultdict(list)
    for job, record in results:
        groups[job.task.name, job.contestant, job.label].append((job, record))
    points: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for (task, contestant, _), runs in groups.items():
        job = runs[0][0]
        row = {
            "task": task,
            "contestant": contestant,
            "chosen": {name: getattr(job.settings, name) for name in tuned_names(contestant)},
            "accuracy": float(np.mean([record.accuracy for _, record in runs])),
            "cost": float(np.mean([record.cost for _, record in runs])),
            "samples": sum(record.n_test for _, record in runs),
        }
        points[task, contestant].append(row)
    return [min(_near_the_best(rows), key=lambda row: row["cost"]) for rows in points.values()]


def _near_the_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best = max(rows, key=_rank)
    accuracy = best["accuracy"]
    error = np.sqrt(accuracy * (1 - accuracy) / best["samples"])
    return [row for row in rows if row["accuracy"] >= accuracy - error]


def best_baselines(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the backprop contestant of each task with the best validation result."""
    rivals = [row for row in rows if row["contestant"] in BASELINES]
    names = {}
    for task in dict.fromkeys(row["task"] for row in rivals):
        top = max((row for row in rivals if row["task"] == task), key=_rank)
        names[task] = top["contestant"]
    return names


def _rank(row: dict[str, Any]) -> tuple[float, float]:
    # Means of equal accuracies may differ in the last bits, which must not decide.
    return round(row["accuracy"], 9), -row["cost"]
