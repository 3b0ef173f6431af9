"""The tables of a report that say how the numbers came about."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.contest.metrics import METRICS
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.records import Record
from experiments.reporting.document import Cell, Table
from experiments.reporting.number_text import NONE, number, percent, setting

DATA_MARK = "data"
"""A setting that only tells a user's data apart from other data of the same name."""


def settings_table(roster: Roster, summary: ContestSummary) -> Table:
    """List the hyper-parameters of each contestant on each task."""
    results = [
        (task.title, name, task.results[name])
        for task in summary.tasks
        for name in roster.contestants
        if name in task.results
    ]
    keys = dict.fromkeys(key for *_, result in results for key in result.settings)
    columns = tuple(key for key in keys if key != DATA_MARK)
    rows = tuple(
        (
            title,
            roster.titles[name],
            " / ".join(f"{count:,}" for count in result.parameters),
            *(
                setting(result.settings[key])
                if key in result.settings and key not in roster.unused.get(name, ())
                else NONE
                for key in columns
            ),
        )
        for title, name, result in results
    )
    header = ("Task", "Contestant", "parameters", *(key.replace("_", " ") for key in columns))
    spread = max((_parameter_spread(roster, task) for task in summary.tasks), default=0.0)
    return Table(
        "Optimal hyper-parameters",
        header,
        rows,
        caption=f"The parameter counts of the contestants on a task differ by up to {spread:.1%}.",
        text_columns=2,
    )


def training_table(roster: Roster, runs: Runs) -> Table:
    """List what training took: time, relaxation steps, and how true the gradient was."""
    rows: list[tuple[Cell, ...]] = []
    for contestants in runs.values():
        for name in roster.contestants:
            records = list(contestants.get(name, {}).values())
            if not records:
                continue
            seconds = _measured(records, "seconds")
            cosines = _measured(records, "cosine")
            unsettled = _measured(records, "unsettled")
            rows.append(
                (
                    records[0].title,
                    roster.titles[name],
                    number(float(np.median(seconds)), 2) if seconds else NONE,
                    number(float(np.mean([record.seconds for record in records]))),
                    _last(records, "free_steps"),
                    _last(records, "nudged_steps"),
                    percent(max(unsettled)) if unsettled else NONE,
                    number(min(cosines), 4) if cosines else NONE,
                )
            )
    return Table(
        "What training took",
        (
            "Task",
            "Contestant",
            "Seconds per epoch",
            "Seconds per run",
            "Free steps",
            "Nudged steps",
            "Unsettled, %",
            "Lowest cosine",
        ),
        tuple(rows),
        caption="Seconds per epoch: median. Steps: mean of the last epoch. Unsettled: largest "
        "share of relaxations in an epoch that did not reach their tolerance. Cosine: of the "
        "EqProp estimate with the autograd gradient, lowest of all epochs.",
        text_columns=2,
    )


def data_table(roster: Roster, summary: ContestSummary) -> Table:
    """List samples, inputs, classes, scaling, the majority class and the margin of each task."""
    rows = tuple(
        (
            task.title,
            *_facts(task.data),
            " / ".join(f"{count:,}" for count in task.n_test),
            METRICS[task.metric].text(task.majority_rate),
            f"±{METRICS[task.metric].text(roster.margin_of(task.name, METRICS[task.metric]))}",
        )
        for task in summary.tasks
    )
    splits = dict.fromkeys(
        f"{task.title}: {task.data['split']}." for task in summary.tasks if "split" in task.data
    )
    return Table(
        "Data",
        (
            "Task",
            "Scaled",
            "Samples",
            "Inputs",
            "Classes",
            "Test samples",
            "Best constant",
            "Margin",
        ),
        rows,
        caption="Scaled: to mean 0 and deviation 1 of the training part. Best constant: the "
        "majority class of the test part in percent, of R² its mean. Margin: in percentage points, "
        f"or of R². {' '.join(splits)}".rstrip(),
        text_columns=2,
    )


def _facts(data: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return scaling, samples, inputs and classes, as far as they are known."""
    counts = (data.get(name) for name in ("samples", "inputs", "classes"))
    samples, inputs, classes = (NONE if count is None else f"{count:,}" for count in counts)
    return data.get("scaling", NONE), samples, inputs, classes


def machine_table(machine: Mapping[str, str]) -> Table:
    """List the machine and the versions of what ran on it."""
    return Table("Machine and versions", ("Name", "Value"), tuple(machine.items()), text_columns=2)


def _parameter_spread(roster: Roster, task: TaskSummary) -> float:
    counts = [n for name in roster.contestants for n in _parameters(task, name)]
    return max(counts) / min(counts) - 1.0 if counts else 0.0


def _parameters(task: TaskSummary, name: str) -> tuple[int, ...]:
    return task.results[name].parameters if name in task.results else ()


def _measured(records: Sequence[Record], field: str) -> list[float]:
    values = (getattr(point, field) for record in records for point in record.curve)
    return [value for value in values if value is not None]


def _last(records: Sequence[Record], field: str) -> str:
    values = [getattr(record.curve[-1], field) for record in records if record.curve]
    found = [value for value in values if value is not None]
    return number(float(np.mean(found))) if found else NONE
