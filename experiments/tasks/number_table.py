"""Inputs and labels of a user: checked, told apart as classes or numbers, and counted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from experiments.tasks.columns import FEW
from experiments.tasks.task import FloatArray, IntArray, Part, RawArray, TaskError

Target: TypeAlias = Literal["classes", "regression"]
CLASSES: Target = "classes"
REGRESSION: Target = "regression"
TARGETS = (CLASSES, REGRESSION)

SAMPLES_PER_CLASS = 5
"""The fewest samples of a class from which each of the three parts can get one."""
FEWEST_NUMBERS = 20
"""Samples of a target that is a number; each part then has some to tell a spread from."""

LARGEST = 1e30
"""Of labels that are numbers, in size: their squares are summed in single precision."""

MISSING = ("", "nan")
"""Texts that stand for a label that is not there, in lower case."""


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


def checked_inputs(path: Path, part: str, x: RawArray) -> FloatArray:
    """Return inputs as finite rows, or name what is not finite."""
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


def checked_labels(path: Path, part: str, x: RawArray, y: RawArray) -> RawArray:
    """Return one label for each sample, or name what is missing."""
    flat = y[:, 0] if y.shape == (len(x), 1) else y
    if flat.shape != (len(x),):
        raise TaskError(f"{path} has {part}labels of shape {y.shape}, expected ({len(x)},).")
    if flat.dtype.kind not in "biufU":
        raise TaskError(f"{path} has {part}labels of type {y.dtype}, expected numbers or text.")
    is_text = flat.dtype.kind == "U"
    absent = np.flatnonzero(np.isin(np.char.lower(flat), MISSING) if is_text else np.isnan(flat))
    if absent.size:
        raise TaskError(f"{path} has no label for {part}sample {absent[0] + 1}.")
    if not is_text:
        beyond = np.flatnonzero(np.abs(flat.astype(np.float64)) > LARGEST)
        if beyond.size:
            raise TaskError(
                f"{path} has the label {flat[beyond[0]]:g} for {part}sample {beyond[0] + 1}, "
                f"expected at most {LARGEST:g} in size."
            )
    return flat


def _is_continuous(y: RawArray) -> bool:
    """Tell whether numbers have more values than there may be classes."""
    return len(np.unique(y)) > min(FEW, len(y) // 2)


def kind_of(path: Path, y: RawArray) -> Target:
    """Tell classes from numbers to be predicted, or ask."""
    values, counts = np.unique(y, return_counts=True)
    if y.dtype.kind == "f":
        if _is_continuous(y):
            return REGRESSION
        kind = "fractions"
        clear = len(values) < 2 or (y == np.round(y)).all()
    else:
        kind = "whole numbers"
        clear = (
            y.dtype.kind not in "iu" or not _is_continuous(y) or min(counts) >= SAMPLES_PER_CLASS
        )
    if clear:
        return CLASSES
    raise TaskError(
        f"{path} has labels of {len(values)} different {kind}, such as {y[0]:g}: are they "
        "classes or numbers to be predicted? Say --target classes or --target regression."
    )


def number_targets(path: Path, x: FloatArray, y: RawArray, test: Part | None) -> NumberTable:
    """Return a table whose labels are numbers to be predicted."""
    for part, labels in (("", y), ("test ", y if test is None else test[1])):
        if labels.dtype.kind == "U":
            raise TaskError(f"{path} has the {part}label {str(labels[0])!r}, not a number.")
        if len(np.unique(labels)) < 2:
            raise TaskError(f"{path} has only the {part}target {labels[0]:g}: nothing varies.")
    if len(y) < FEWEST_NUMBERS:
        raise TaskError(f"{path} has {len(y)} samples, at least {FEWEST_NUMBERS} are needed.")
    tested = None if test is None else (test[0], test[1].astype(np.float64))
    return NumberTable(x, y.astype(np.float64), (), tested)


def class_labels(path: Path, x: FloatArray, y: RawArray, test: Part | None) -> NumberTable:
    """Return a table whose labels count its classes."""
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
