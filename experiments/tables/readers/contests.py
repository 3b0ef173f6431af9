"""Rows of the comparisons of EqProp and backprop."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.parity.goals import REFERENCES
from experiments.reporting.number_text import percent, points, points_between
from experiments.tables.readers.outputs import Rows, read_output, written_rows


def parity_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return a row for each task: published, measured, and both gaps."""
    content = read_output(folder / "results.json", command)
    return tuple(_parity_row(task) for task in content["summary"]["tasks"])


def _parity_row(task: Mapping[str, Any]) -> tuple[str, ...]:
    results, reference = task["results"], REFERENCES[task["name"]]
    order = ("backprop_looped", task["baseline"], "eqprop_looped", "eqprop_layered")
    gap = task["judgements"]["eqprop_looped"]["comparison"]
    return (
        task["title"],
        percent(*reference.backprop),
        percent(*reference.eqprop),
        *(percent(results[name]["mean"], _number(results[name]["std"])) for name in order),
        points(task["same_network"]["comparison"]["difference"]),
        points_between(gap["difference"], gap["interval"]).replace("\n", " "),
    )


def vision_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the rows of the table that the command writes for a page."""
    read_output(folder / "results.json", command)
    return written_rows(folder / "table.md")


def _number(value: float | None) -> float:
    return math.nan if value is None else value
