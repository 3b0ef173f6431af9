"""Choose learning rates, betas and activations on the validation split, for every contestant."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from experiments.contest.grid import best_points, grid_points, point_label, rank
from experiments.parity.contestants import ParityJob
from experiments.parity.roster import BASELINES
from experiments.parity.settings import ParitySettings
from experiments.records import Record
from experiments.tasks import Task

Budgets: TypeAlias = Mapping[str, ParitySettings]
"""What all points of a task share, by its name."""

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


def tuning_jobs(tasks: Iterable[Task], budgets: Budgets) -> list[ParityJob]:
    """Return every point of the first grids, with each tuning seed; the rest is the budget."""
    jobs: list[ParityJob] = []
    for task in tasks:
        for contestant, grid in GRIDS.items():
            jobs += _points(task, contestant, budgets[task.name], grid)
    return jobs


def afterwards_jobs(
    tasks: Iterable[Task], budgets: Budgets, chosen: Iterable[dict[str, Any]]
) -> list[ParityJob]:
    """Return what is tried after the first grids, at the points that they chose."""
    known = {task.name: task for task in tasks}
    jobs: list[ParityJob] = []
    for row in chosen:
        task, contestant = known[row["task"]], row["contestant"]
        settings = replace(budgets[task.name], **row["chosen"])
        for name, values in AFTERWARDS.get(contestant, {}).items():
            others = [value for value in values if value != getattr(settings, name)]
            jobs += _points(task, contestant, settings, {name: others})
    return jobs


def _points(
    task: Task, contestant: str, settings: ParitySettings, grid: Mapping[str, Sequence[Any]]
) -> Iterator[ParityJob]:
    adapted = ADAPTED.get(task.name, {})
    axes = {name: adapted.get(name, values) for name, values in grid.items()}
    for chosen in grid_points(axes):
        point = replace(settings, **chosen)
        label = point_label(point, tuned_names(contestant))
        for seed in adapted.get("seeds", SEEDS):
            yield ParityJob(task, contestant, seed, point, final=False, label=label)


def tuned_names(contestant: str) -> tuple[str, ...]:
    """Return the settings that tuning chooses for a contestant."""
    return *GRIDS[contestant], *AFTERWARDS.get(contestant, {})


def choose(results: Iterable[tuple[ParityJob, Record]]) -> list[dict[str, Any]]:
    """Return the best point of each task and contestant."""
    return best_points(results, tuned_names)


def best_baselines(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the backprop contestant of each task with the best validation result."""
    rivals = [row for row in rows if row["contestant"] in BASELINES]
    names = {}
    for task in dict.fromkeys(row["task"] for row in rivals):
        top = max((row for row in rivals if row["task"] == task), key=rank)
        names[task] = top["contestant"]
    return names
