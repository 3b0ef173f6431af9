"""A user's own data as a task: `.npz` with arrays `x` and `y`, or CSV with the label last."""

import csv
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.tasks.task import (
    FloatArray,
    IntArray,
    RawArray,
    Split,
    Task,
    TaskError,
    normalised_split,
    stratified_parts,
)

SAMPLES_PER_CLASS = 5
"""The fewest samples of a class from which each of the three parts can get one."""

MISSING = ("", "nan")
"""Texts that stand for a label that is not there, in lower case."""

MOST_UNPACKED = 100
"""How many times its own size an archive may unpack to: only constants pack much better."""

SMALL = 1 << 24
"""Bytes to which any archive may unpack."""


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Raw inputs `(samples, inputs)`, and labels counted from zero in the order of `names`."""

    x: FloatArray
    y: IntArray
    names: tuple[str, ...]


def task_from_file(path: str | Path) -> Task:
    """Read a task from `.npz` (arrays `x` and `y`) or `.csv` (label last, header optional).

    Labels are integers or text. The task is named after the file, with its ending, so that it is
    never taken for a built-in one; it carries the data, so that other machines need no copy.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise TaskError(f"{path} is neither .npz nor .csv.")
    try:
        x, labels = readers[path.suffix.lower()](path)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}.") from None
    table = _checked_table(path, x, labels)
    return Task(
        path.name,
        path.stem,
        inputs=table.x.shape[1],
        classes=len(table.names),
        load=partial(load_table, table),
    )


def images_from_file(path: str | Path) -> Task:
    """Read images from `.npz`: `x (samples, height, width[, channels])`, and labels `y`."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise TaskError(f"{path} is not .npz, which images have to be in.")
    try:
        x, labels = _read_npz(path)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}.") from None
    if x.ndim not in (3, 4) or 0 in x.shape[1:]:
        raise TaskError(
            f"{path} has images of shape {x.shape}, expected (samples, height, width, channels), "
            f"or (samples, height, width)."
        )
    height, width, channels = x.shape[1:] if x.ndim == 4 else (*x.shape[1:], 1)
    table = _checked_table(path, x.reshape(len(x), height * width * channels), labels)
    return Task(
        path.name,
        path.stem,
        inputs=table.x.shape[1],
        classes=len(table.names),
        load=partial(load_table, table, per_feature=False),
        image=(height, width, channels),
        names=table.names,
    )


def load_table(table: NumberTable, seed: int, per_feature: bool = True) -> Split:
    """Cut a table into stratified parts, normalised feature by feature or all alike."""
    return normalised_split(
        *stratified_parts(table.x, table.y, seed),
        per_feature=per_feature,
        description=f"{len(table.x):,} samples of {len(table.names)} classes, stratified 60/20/20",
    )


def _read_npz(path: Path) -> tuple[RawArray, RawArray]:
    from engine.archives import ArchiveError, read_arrays  # late, as in `stratified_parts`

    size = path.stat().st_size
    try:
        arrays = read_arrays(path, max(SMALL, MOST_UNPACKED * size))
    except ArchiveError as error:
        raise TaskError(f"{path} is not a readable .npz of plain arrays: {error}") from None
    for name in ("x", "y"):
        if name not in arrays:
            found = ", ".join(arrays) or "none"
            raise TaskError(f"{path} has no array {name!r}; its named arrays: {found}.")
    return arrays["x"], arrays["y"]


def _read_csv(path: Path) -> tuple[RawArray, RawArray]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            rows = [(lines.line_num, row) for row in lines if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TaskError(f"{path} is not readable CSV: {error}.") from None
    if rows and not any(_is_number(cell) for cell in rows[0][1][:-1]):
        rows = rows[1:]
    if not rows:
        raise TaskError(f"{path} holds no samples.")
    x = np.empty((len(rows), len(rows[0][1]) - 1))
    for i, (line, row) in enumerate(rows):
        if len(row) != len(rows[0][1]):
            raise TaskError(
                f"{path} has {len(row)} columns in line {line}, expected {len(rows[0][1])}."
            )
        for j, cell in enumerate(row[:-1]):
            if not _is_number(cell):
                raise TaskError(
                    f"{path} holds {cell!r} in line {line}, column {j + 1}, not a number."
                )
            x[i, j] = float(cell)
    labels = [row[-1].strip() for _, row in rows]
    return x, _integers_or_text(labels)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _integers_or_text(labels: list[str]) -> RawArray:
    # Integers sort as numbers: class 10 comes after class 2.
    try:
        return np.array([int(label) for label in labels], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(labels)


def _checked_table(path: Path, x: RawArray, labels: RawArray) -> NumberTable:
    if x.ndim != 2 or x.shape[1] == 0 or x.dtype.kind not in "biuf":
        raise TaskError(
            f"{path} has inputs of shape {x.shape} and type {x.dtype}, expected numbers of shape "
            f"(samples, inputs)."
        )
    if len(x) == 0:
        raise TaskError(f"{path} holds no samples.")
    if labels.shape != (len(x),):
        raise TaskError(f"{path} has labels of shape {labels.shape}, expected ({len(x)},).")
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    if not np.isfinite(single).all():
        row, column = np.argwhere(~np.isfinite(single))[0]
        raise TaskError(
            f"{path} holds {x[row, column]} at sample {row + 1}, input {column + 1}, not a finite "
            f"float32."
        )
    return _checked_classes(path, x, labels)


def _checked_classes(path: Path, x: RawArray, labels: RawArray) -> NumberTable:
    if labels.dtype.kind not in "biuU":
        raise TaskError(f"{path} has labels of type {labels.dtype}, expected integers or text.")
    if labels.dtype.kind == "U":
        absent = np.flatnonzero(np.isin(np.char.lower(labels), MISSING))
        if absent.size:
            raise TaskError(f"{path} has no label for sample {absent[0] + 1}.")
    names, y, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise TaskError(f"{path} has only the class {names[0]!s}, at least 2 are needed.")
    rarest = int(counts.argmin())
    if counts[rarest] < SAMPLES_PER_CLASS:
        raise TaskError(
            f"{path} has {counts[rarest]} samples of class {names[rarest]!s}, at least "
            f"{SAMPLES_PER_CLASS} are needed."
        )
    return NumberTable(x.astype(np.float64), y.astype(np.int64), tuple(str(name) for name in names))
