"""Choose learning rate and weight decay on the validation split, alike for every contestant."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from experiments.contest.grid import best_points, grid_points, point_label
from experiments.records import Record
from experiments.tasks import Task
from experiments.vision.choices import FULL
from experiments.vision.contestants import VisionJob
from experiments.vision.roster import BPTT, CONTESTANTS, WITHOUT_BPTT
from experiments.vision.settings import BUDGETS, USER_BUDGET, VisionSettings

SEEDS = (7, 8, 9)
"""For tuning only: no reported run uses them."""

LARGE = frozenset(FULL)
"""Tasks with so much data that one seed, and a part of it, tells the points apart."""
SHORT: dict[str, Any] = {"images": 12_000, "epochs": 4}
"""How the points of large tasks are tried: a whole training each would take days."""

GRID: dict[str, tuple[float, ...]] = {"lr": (1e-3, 3e-3, 1e-2), "decay": (0.0, 0.1)}
"""The same points for every contestant."""


def contestants_on(task: str) -> tuple[str, ...]:
    """Return who takes part on a task."""
    return tuple(name for name in CONTESTANTS if name != BPTT or task not in WITHOUT_BPTT)


def budget_for(task: str) -> VisionSettings:
    """Return the settings that all points of a task share."""
    return replace(BUDGETS.get(task, USER_BUDGET), **(SHORT if task in LARGE else {}))


def tuning_jobs(tasks: Iterable[Task], budgets: Mapping[str, VisionSettings]) -> list[VisionJob]:
    """Return every point of the grid, for each contestant with each tuning seed."""
    jobs: list[VisionJob] = []
    for task in tasks:
        for contestant in contestants_on(task.name):
            points = [replace(budgets[task.name], **point) for point in grid_points(GRID)]
            jobs += _with_seeds(task, contestant, points)
    return jobs


def choose(results: Iterable[tuple[VisionJob, Record]]) -> list[dict[str, Any]]:
    """Return the best point of each task and contestant."""
    return best_points(results, lambda contestant: GRID)


def _with_seeds(task: Task, contestant: str, points: list[VisionSettings]) -> list[VisionJob]:
    seeds = SEEDS[:1] if task.name in LARGE else SEEDS
    return [
        VisionJob(
            task,
            contestant,
            seed,
            point,
            final=False,
            label=point_label(point, GRID),
        )
        for point in points
        for seed in seeds
    ]
