"""A user's own data as a task: arrays from `.npz`, or a table from CSV or Parquet."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from experiments.tasks.columns import FEW, LabelledNumbers, labelled_numbers
from experiments.tasks.table_files import read_csv, read_parquet
from experiments.tasks.task import (
    FloatArray,
    Image,
    IntArray,
    Part,
    RawArray,
    Split,
    Task,
    TaskError,
    held_out,
    normalised_split,
    stratified_parts,
)

Target: TypeAlias = Literal["classes", "regression"]
CLASSES: Target = "classes"
REGRESSION: Target = "regression"
TARGETS = (CLASSES, REGRESSION)

SAMPLES_PER_CLASS = 5
"""The fewest samples of a class from which each of the three parts can get one."""
FEWEST_NUMBERS = 20
"""Samples of a target that is a number; each part then has some to tell a spread from."""

MISSING = ("", "nan")
"""Texts that stand for a label that is not there, in lower case."""

MOST_UNPACKED = 100
"""How many times its own size an archive may unpack to: only constants pack much better."""

SMALL = 1 << 24
"""Bytes to which any archive may unpack."""

TABLES = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
    ".pq": read_parquet,
}


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Raw inputs `(samples, inputs)`, and labels counted from zero in the order of `names`.

    Without names the labels are numbers to be predicted. `test` is the official test part, if
    there is one.
    """

    x: FloatArray
    y: IntArray | FloatArray
    names: tuple[str, ...]
    test: Part | None = None


@dataclass(frozen=True, eq=False)
class _Found:
    """What a file holds: inputs and labels, those of a test part, and remarks."""

    x: RawArray
    y: RawArray
    x_test: RawArray | None = None
    y_test: RawArray | None = None
    label: str = "y"
    remark: str = ""


def task_from_file(
    path: str | Path, label: str | None = None, target: Target | None = CLASSES
) -> Task:
    """Read a task from `.npz` (`X, y` or `x, y`), or from CSV or Parquet with a label column.

    Labels are integers or text; with `target` None they may be numbers to be predicted, and are if
    they look like it. Inputs may be images. The task is named after the file, with its ending, so
    that it is never taken for a built-in one; it carries the data, so that other machines need no
    copy.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".npz", *TABLES):
        raise TaskError(f"{path} is neither .npz nor .csv nor .parquet.")
    return _as_task(path, _read(path, label), target)


def images_from_file(path: str | Path, label: str | None = None) -> Task:
    """Read images from `.npz`: `x (samples, height, width[, channels])`, and labels `y`."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise TaskError(f"{path} is not .npz, which images have to be in.")
    found = _read(path, label)
    if found.x.ndim not in (3, 4) or 0 in found.x.shape[1:]:
        raise TaskError(
            f"{path} has images of shape {found.x.shape}, expected (samples, height, width, "
            f"channels), or (samples, height, width)."
        )
    return _as_task(path, found, CLASSES)


def load_table(table: NumberTable, seed: int, per_feature: bool = True) -> Split:
    """Cut a table into parts, stratified if it has classes; scale inputs one by one or alike.

    An official test part stays whole: the seed chooses what else is held out for tuning.
    """
    by_class = bool(table.names)
    what = f"samples of {len(table.names)} classes" if by_class else "samples"
    how = "stratified " if by_class else "random "
    if table.test is None:
        parts = stratified_parts(table.x, table.y, seed, by_class)
        cut = f"{how}60/20/20"
    else:
        parts = (*held_out(table.x, table.y, seed, 0.2, by_class), table.test)
        cut = f"the test part of the file, {how}80/20 of the rest"
    samples = len(table.x) + (len(table.test[0]) if table.test else 0)
    return normalised_split(
        *parts, per_feature=per_feature, description=f"{samples:,} {what}, {cut}"
    )


def _read(path: Path, label: str | None) -> _Found:
    try:
        if path.suffix.lower() == ".npz":
            return _read_npz(path, label)
        table = labelled_numbers(TABLES[path.suffix.lower()](path), label)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}.") from None
    return _from_table(table)


def _from_table(table: LabelledNumbers) -> _Found:
    return _Found(table.x, table.y, label=table.label, remark=table.left_out)


def read_npz_arrays(path: Path) -> dict[str, RawArray]:
    """Return the plain arrays of an archive, which may not unpack to much more than its size."""
    from engine.archives import ArchiveError, read_arrays  # late, as in `stratified_parts`

    size = path.stat().st_size
    try:
        return read_arrays(path, max(SMALL, MOST_UNPACKED * size))
    except ArchiveError as error:
        raise TaskError(f"{path} is not a readable .npz of plain arrays: {error}") from None


def _read_npz(path: Path, label: str | None) -> _Found:
    arrays = read_npz_arrays(path)

    def array(*names: str) -> RawArray | None:
        return next((arrays[name] for name in names if name in arrays), None)

    x, y = array("x", "X"), array(label) if label else array("y", "Y")
    for name, values in (("x", x), (label or "y", y)):
        if values is None:
            held = ", ".join(arrays) or "none"
            raise TaskError(f"{path} has no array {name!r}; its named arrays: {held}.")
    x_test, y_test = array("x_test", "X_test"), array(f"{label or 'y'}_test", "Y_test")
    if (x_test is None) != (y_test is None):
        there, absent = ("y_test", "x_test") if x_test is None else ("x_test", "y_test")
        raise TaskError(f"{path} has {there} without {absent}: a test part needs both.")
    assert x is not None
    assert y is not None
    return _Found(x, y, x_test, y_test, label or "y")


def _as_task(path: Path, found: _Found, target: Target | None) -> Task:
    image = _image_of(found.x)
    x, y = checked_inputs(path, "", found.x), _checked_labels(path, "", found.x, found.y)
    kind = _kind_of(path, y) if target is None else target
    test = None
    if found.x_test is not None and found.y_test is not None:
        if found.x_test.shape[1:] != found.x.shape[1:]:
            raise TaskError(
                f"{path} has x_test of shape {found.x_test.shape}, expected (samples, "
                f"{', '.join(map(str, found.x.shape[1:]))})."
            )
        y_test = _checked_labels(path, "test ", found.x_test, found.y_test)
        test = (checked_inputs(path, "test ", found.x_test), y_test)
    number_table = _numbers if kind == REGRESSION else _classes
    table = number_table(path, x, y, test)
    note = _note(path, table, found, image is None)
    return Task(
        path.name,
        path.stem,
        inputs=x.shape[1],
        classes=max(1, len(table.names)),
        load=partial(load_table, table, per_feature=image is None),
        image=image,
        names=table.names,
        continuous=kind == REGRESSION,
        note=note,
    )


def _image_of(x: RawArray) -> Image | None:
    if x.ndim not in (3, 4):
        return None
    height, width, channels = x.shape[1:] if x.ndim == 4 else (*x.shape[1:], 1)
    return height, width, channels


def _note(path: Path, table: NumberTable, found: _Found, per_feature: bool) -> str:
    """Say what was read, and how it will be used."""
    label = f"label {found.label!r} of {len(table.names)} classes"
    if not table.names:
        label = f"{found.label!r} to be predicted as a number (R²)"
    parts = [f"{len(table.x):,} samples", f"{table.x.shape[1]:,} inputs", label]
    if table.test is not None:
        parts.insert(1, f"{len(table.test[0]):,} test samples of its own")
    scaled = "each input is" if per_feature else "all pixels are"
    scaling = f"{scaled} scaled to mean 0 and deviation 1"
    return (
        "; ".join(filter(None, (f"{path.name}: {', '.join(parts)}", found.remark, scaling))) + "."
    )


def checked_inputs(path: Path, part: str, x: RawArray) -> FloatArray:
    """Return inputs as rows of double precision, or say which of them is no number."""
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:] or x.dtype.kind not in "biuf":
        raise TaskError(
            f"{path} has {part}inputs of shape {x.shape} and type {x.dtype}, expected numbers of "
            f"shape (samples, inputs)."
        )
    if len(x) == 0:
        raise TaskError(f"{path} holds no {part}samples.")
    rows = x.reshape(len(x), -1)
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    if not np.isfinite(single).all():
        row, column = np.argwhere(~np.isfinite(single))[0]
        raise TaskError(
            f"{path} holds {rows[row, column]} at {part}sample {row + 1}, input {column + 1}, not "
            f"a finite float32."
        )
    return rows.astype(np.float64)


def _checked_labels(path: Path, part: str, x: RawArray, y: RawArray) -> RawArray:
    flat = y[:, 0] if y.shape == (len(x), 1) else y
    if flat.shape != (len(x),):
        raise TaskError(f"{path} has {part}labels of shape {y.shape}, expected ({len(x)},).")
    if flat.dtype.kind not in "biufU":
        raise TaskError(f"{path} has {part}labels of type {y.dtype}, expected numbers or text.")
    absent = np.flatnonzero(
        np.isin(np.char.lower(flat), MISSING) if flat.dtype.kind == "U" else ~np.isfinite(flat)
    )
    if absent.size:
        raise TaskError(f"{path} has no label for {part}sample {absent[0] + 1}.")
    return flat


def _is_continuous(y: RawArray) -> bool:
    """Tell whether fractions have more values than there may be classes."""
    return len(np.unique(y)) > min(FEW, len(y) // 2)


def _kind_of(path: Path, y: RawArray) -> Target:
    """Tell classes from numbers to be predicted, or ask."""
    if y.dtype.kind != "f":
        return CLASSES
    if _is_continuous(y):
        return REGRESSION
    if (y == np.round(y)).all():
        return CLASSES
    raise TaskError(
        f"{path} has labels of {len(np.unique(y))} different fractions, such as {y[0]:g}: are they "
        "classes or numbers to be predicted? Say --target classes or --target regression."
    )


def _numbers(path: Path, x: FloatArray, y: RawArray, test: Part | None) -> NumberTable:
    for part, labels in (("", y), ("test ", y if test is None else test[1])):
        if labels.dtype.kind == "U":
            raise TaskError(f"{path} has the {part}label {str(labels[0])!r}, not a number.")
        if len(np.unique(labels)) < 2:
            raise TaskError(f"{path} has only the {part}target {labels[0]:g}: nothing varies.")
    if len(y) < FEWEST_NUMBERS:
        raise TaskError(f"{path} has {len(y)} samples, at least {FEWEST_NUMBERS} are needed.")
    tested = None if test is None else (test[0], test[1].astype(np.float64))
    return NumberTable(x, y.astype(np.float64), (), tested)


def _classes(path: Path, x: FloatArray, y: RawArray, test: Part | None) -> NumberTable:
    if y.dtype.kind == "f":
        if _is_continuous(y):
            raise TaskError(
                f"{path} has labels of {len(np.unique(y))} different values, which are numbers to "
                "be predicted and no classes."
            )
        if (y != np.round(y)).any():
            y = np.array([f"{value:g}" for value in y])
            test = None if test is None else (test[0], np.array([f"{v:g}" for v in test[1]]))
        else:
            y = y.astype(np.int64)
    names, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise TaskError(f"{path} has only the class {names[0]!s}, at least 2 are needed.")
    _check_counts(path, names, counts)
    if test is not None:
        strange = np.setdiff1d(test[1], names)
        if strange.size:
            raise TaskError(f"{path} has the class {strange[0]!s} in its test part only.")
        test = (test[0], np.searchsorted(names, test[1]).astype(np.int64))
    return NumberTable(x, places.astype(np.int64), tuple(str(name) for name in names), test)


def _check_counts(path: Path, names: RawArray, counts: RawArray) -> None:
    """Refuse classes with too few samples, of which there are many if they are no classes."""
    rarest = int(counts.argmin())
    if counts[rarest] >= SAMPLES_PER_CLASS:
        return
    if names.dtype.kind in "iu" and len(names) > FEW:
        raise TaskError(
            f"{path} has {len(names)} different whole numbers as labels, of which each needs "
            f"{SAMPLES_PER_CLASS} samples to be a class; numbers are predicted by the parity "
            "experiment with --target regression."
        )
    raise TaskError(
        f"{path} has {counts[rarest]} samples of class {names[rarest]!s}, at least "
        f"{SAMPLES_PER_CLASS} are needed."
    )
