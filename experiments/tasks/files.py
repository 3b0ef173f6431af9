"""A user's own data as a task: arrays from `.npz`, or a table from CSV or Parquet."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.tasks.columns import LabelledNumbers, labelled_numbers
from experiments.tasks.number_table import (
    CLASSES,
    REGRESSION,
    NumberTable,
    Target,
    checked_inputs,
    checked_labels,
    class_labels,
    kind_of,
    number_targets,
)
from experiments.tasks.table_files import read_csv, read_parquet
from experiments.tasks.task import (
    Image,
    Part,
    RawArray,
    Split,
    Task,
    TaskError,
    held_out,
    normalised_split,
    stratified_parts,
)

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
    split = normalised_split(
        *parts, per_feature=per_feature, description=f"{samples:,} {what}, {cut}"
    )
    if not by_class:
        _check_spread(split, parts, seed)
    return split


def _check_spread(split: Split, parts: Sequence[Part], seed: int) -> None:
    """Refuse parts of which all targets are equal: no prediction explains what does not vary."""
    targets = (split.y_train, split.y_valid, split.y_test)
    for name, y, raw in zip(("training", "validation", "test"), targets, parts, strict=True):
        if np.ptp(y) == 0.0:
            raise TaskError(
                f"all {len(y)} targets of the {name} part with seed {seed} are "
                f"{float(raw[1][0]):g}, so R² says nothing: bring samples that vary more."
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
    x, y = checked_inputs(path, "", found.x), checked_labels(path, "", found.x, found.y)
    if (x == x[0]).all():
        raise TaskError(f"{path} has the same inputs in every sample: nothing can be learned.")
    kind = kind_of(path, y) if target is None else target
    test = None
    if found.x_test is not None and found.y_test is not None:
        if found.x_test.shape[1:] != found.x.shape[1:]:
            raise TaskError(
                f"{path} has x_test of shape {found.x_test.shape}, expected (samples, "
                f"{', '.join(map(str, found.x.shape[1:]))})."
            )
        y_test = checked_labels(path, "test ", found.x_test, found.y_test)
        test = (checked_inputs(path, "test ", found.x_test), y_test)
    number_table = number_targets if kind == REGRESSION else class_labels
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
