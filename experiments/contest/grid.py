"""Choose settings on the validation split: the points of a grid, and the best of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.contest.jobs import AnyJob
from experiments.contest.metrics import METRICS, R2
from experiments.records import Record


def grid_points(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every point of a grid."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def point_label(settings: object, names: Iterable[str]) -> str:
    """Return what tells a point apart from others in the name of a run."""
    return "".join(f"-{name}{getattr(settings, name)}" for name in names)


def best_points(
    results: Iterable[tuple[AnyJob, Record]], tuned_names: Callable[[str], Iterable[str]]
) -> list[dict[str, Any]]:
    """Return the best point of each task and contestant.

    Of the points whose accuracy is within one standard error of the highest, the one with the
    lowest cost: what the validation part cannot tell apart by counting, it may by likelihood.
    """
    groups: dict[tuple[str, str, str], list[tuple[AnyJob, Record]]] = defaultdict(list)
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
            "metric": runs[0][1].metric,
        }
        points[task, contestant].append(row)
    return [min(_near_the_best(rows), key=lambda row: row["cost"]) for rows in points.values()]


def _near_the_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best = max(rows, key=rank)
    accuracy = best["accuracy"]
    variance = accuracy * (1 - accuracy)
    if best["metric"] == R2.name:  # that of R2 in a large sample
        variance = 4 * max(accuracy, 0.0) * (1 - accuracy) ** 2
    error = np.sqrt(variance / best["samples"])
    return [row for row in rows if row["accuracy"] >= accuracy - error]


def rank(row: dict[str, Any]) -> tuple[float, float]:
    """Return what a row is compared by: its accuracy, and among equals its cost."""
    # Means of equal accuracies may differ in the last bits, which must not decide.
    return round(row["accuracy"], 9), -row["cost"]


def print_chosen(chosen: Iterable[dict[str, Any]], console: Console) -> None:
    """Print the best point of each task and contestant."""
    table = Table(title="Chosen on the validation split")
    for column in ("task", "contestant", "chosen", "validation score"):
        table.add_column(column)
    for row in chosen:
        score = METRICS[row["metric"]].note(row["accuracy"])
        table.add_row(row["task"], row["contestant"], str(row["chosen"]), score)
    console.print(table)
