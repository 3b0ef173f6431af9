"""Numbers of a report one a row, as a table that any program reads."""

import csv
import io
from collections.abc import Iterable
from typing import NamedTuple


class Measure(NamedTuple):
    """One number, of what, and the range within which it may lie."""

    substrate: str
    technology: str
    learner: str
    setting: str
    """Of a grid or a sweep; empty for the main runs."""
    seed: str
    """Empty for what is a mean over seeds."""
    measure: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None


def render_csv(measures: Iterable[Measure]) -> str:
    """Return rows below a header; what is not known is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Measure._fields)
    for measure in measures:
        writer.writerow(["" if value is None else value for value in measure])
    return file.getvalue()
