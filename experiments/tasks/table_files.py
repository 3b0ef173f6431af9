"""Tables from files: CSV by the standard library, Parquet by pandas where it is installed."""

import csv
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.tasks.columns import Columns, has_header, same_width
from experiments.tasks.task import TaskError

SEPARATORS = ("\t", ";")
"""What separates cells if it stands in each of the first lines; else it is the comma."""
LOOKED_AT = 20
NOTHING = ("nan", "NaT", "<NA>")
"""How pandas writes a number, a time and anything else that is missing."""


def read_csv(path: Path) -> Columns:
    """Read a CSV, whose separator and header are found out; cells may have a decimal comma."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at {error.start:,}"
        raise TaskError(
            f"{path} is not readable CSV: {byte} is no text in UTF-8, in which it has to be saved."
        ) from None
    separator = _separator(text)
    lines = csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=True)
    try:
        found = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        why = "a quotation mark is opened and not closed" if "end of data" in str(error) else error
        raise TaskError(
            f"{path} is not readable CSV: up to line {lines.line_num}, {why}."
        ) from None
    if not found:
        raise TaskError(f"{path} holds no samples.")
    numbers, rows = zip(*found, strict=True)
    same_width(path, rows, numbers)
    if separator != ",":
        rows = _with_points(rows)
    names: tuple[str, ...] = ()
    if has_header(rows):
        names, rows, numbers = tuple(cell.strip() for cell in rows[0]), rows[1:], numbers[1:]
    if not rows:
        raise TaskError(f"{path} holds no samples.")
    return Columns(path, names, tuple(rows), tuple(numbers))


def read_parquet(path: Path) -> Columns:
    """Read a Parquet file; the index of its frame is left out."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise TaskError(f'{path} needs pandas: pip install "settle[pandas]".') from None
    try:
        frame: Any = pandas.read_parquet(path)
    except ImportError:
        raise TaskError(f'{path} needs pyarrow: pip install "settle[pandas]".') from None
    except OSError:
        raise
    except Exception as error:  # as many kinds as there are engines that read it
        from engine.errors import reason  # late, as in `stratified_parts`

        raise TaskError(f"{path} is not readable Parquet: {reason(error)}.") from None
    rows = tuple([_text(value) for value in row] for row in frame.itertuples(index=False))
    if not rows:
        raise TaskError(f"{path} holds no samples.")
    return Columns(path, tuple(map(str, frame.columns)), rows, tuple(range(1, len(rows) + 1)))


def _separator(text: str) -> str:
    first = [line for line in text.splitlines()[: 2 * LOOKED_AT] if line.strip()][:LOOKED_AT]
    for separator in SEPARATORS:
        if first and min(map(len, csv.reader(first, delimiter=separator))) > 1:
            return separator
    return ","


def _with_points(rows: Sequence[list[str]]) -> tuple[list[str], ...]:
    """Return rows with a point for the decimal comma, if all fractions have one."""
    cells = [cell for row in rows for cell in row]
    if not any(_has_comma(cell) for cell in cells) or any(_has_point(cell) for cell in cells):
        return tuple(rows)
    return tuple(
        [cell.replace(",", ".") if _has_comma(cell) else cell for cell in row] for row in rows
    )


def _has_comma(cell: str) -> bool:
    whole, comma, fraction = cell.strip().lstrip("+-").partition(",")
    return bool(comma) and (whole + fraction).isdecimal()


def _has_point(cell: str) -> bool:
    whole, point, fraction = cell.strip().lstrip("+-").partition(".")
    return bool(point) and (whole + fraction).isdecimal()


def _text(value: Any) -> str:
    """Return a value as CSV would have it: nothing for what is missing, 0 or 1 for a truth."""
    if value is None or (not isinstance(value, str) and str(value) in NOTHING):
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)
