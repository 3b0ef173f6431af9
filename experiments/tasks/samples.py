"""Samples from a user's file for a network that is there: inputs, and labels if it has them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.tasks.columns import Columns, input_numbers, labelled_numbers
from experiments.tasks.files import TABLES, read_npz_arrays
from experiments.tasks.number_table import checked_inputs
from experiments.tasks.task import FloatArray, RawArray, TaskError


@dataclass(frozen=True, eq=False)
class Samples:
    """Raw inputs `(samples, inputs)`, and the label of each as it was written, or `None`."""

    x: FloatArray
    y: RawArray | None


def read_samples(path: Path, inputs: int, label: str | None = None) -> Samples:
    """Read samples of so many `inputs`.

    A table with just as many columns has no labels; with more, one of them is the label, which
    `label` names, and a first column may number the rows. An archive has `x`, and `y` if it likes.
    """
    ending = path.suffix.lower()
    if ending not in (".npz", *TABLES):
        raise TaskError(f"{path} is neither .npz nor .csv nor .parquet.")
    try:
        if ending == ".npz":
            x, y = _from_archive(path, label)
        else:
            x, y = _from_table(TABLES[ending](path), inputs, label)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}.") from None
    rows = checked_inputs(path, "", x)
    if rows.shape[1] != inputs:
        raise TaskError(
            f"{path} has {rows.shape[1]} inputs for each sample, but the network takes {inputs}."
        )
    if y is not None and y.shape != (len(rows),):
        raise TaskError(f"{path} has labels of shape {y.shape}, expected ({len(rows)},).")
    return Samples(rows, y)


def _from_archive(path: Path, label: str | None) -> tuple[RawArray, RawArray | None]:
    arrays = read_npz_arrays(path)
    x = arrays.get("x", arrays.get("X"))
    y = arrays.get("y", arrays.get("Y")) if label is None else arrays.get(label)
    for name, values in (("x", x), (label, y)):
        if name is not None and values is None:
            held = ", ".join(arrays) or "none"
            raise TaskError(f"{path} has no array {name!r}; its named arrays: {held}.")
    assert x is not None
    return x, y


def _from_table(
    columns: Columns, inputs: int, label: str | None
) -> tuple[FloatArray, RawArray | None]:
    if label is None:
        plain = input_numbers(columns, inputs)
        if plain is not None:
            return plain, None
    found = labelled_numbers(columns, label)
    return np.asarray(found.x), found.y
