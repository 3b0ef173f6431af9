"""A table of texts, as CSV has it: which column is the label, which an index, which are inputs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.options import meant
from experiments.tasks.task import FloatArray, RawArray, TaskError

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "?"})
"""Texts that stand for an input that is not there, in lower case."""
NO_LABEL = frozenset({"", "nan"})
"""The same of a label: a class may well be called none."""
LABELS = frozenset({"label", "labels", "class", "target", "y"})
"""Names by which a column is the label wherever it stands, in lower case."""
INDICES = frozenset({"", "id", "index", "row", "unnamed: 0"})
"""Names of a first column that only numbers the rows, in lower case."""
TRUTHS = {"true": 1.0, "false": 0.0}
"""What a column of truths holds, in lower case."""
FEW = 20
"""Values of a column that may well be classes."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Texts of a file, row by row, each with the line that it ends in; names if there are any."""

    path: Path
    names: tuple[str, ...]
    rows: tuple[Sequence[str], ...]
    lines: tuple[int, ...]

    def called(self, column: int) -> str:
        """Return how a column is called in a sentence."""
        name = self.names[column] if self.names else ""
        return f"column {column + 1} ({name!r})" if name else f"column {column + 1}"

    def texts(self, column: int) -> list[str]:
        """Return what a column holds."""
        return [row[column].strip() for row in self.rows]


@dataclass(frozen=True, eq=False)
class LabelledNumbers:
    """Inputs `(samples, inputs)`, labels as they were written, and what was found out on the way.

    Labels are integers, or else numbers, or else texts.
    """

    x: FloatArray
    y: RawArray
    label: str
    left_out: str = ""


def labelled_numbers(columns: Columns, label: str | None = None) -> LabelledNumbers:
    """Return the inputs and the label of each row; `label` names its column or its number."""
    width = len(columns.rows[0])
    if width < 2:
        raise TaskError(
            f"{columns.path} has one column, expected inputs and a label, between which stands a "
            "comma, a semicolon or a tab."
        )
    _check_names(columns)
    chosen = _find_label(columns, width) if label is None else _named_label(columns, width, label)
    index = width > 2 and chosen != 0 and _is_index(columns)
    inputs = [j for j in range(int(index), width) if j != chosen]
    labels = columns.texts(chosen)
    for row, text in enumerate(labels):
        if text.lower() in NO_LABEL:
            raise TaskError(f"{columns.path} has no label for sample {row + 1}.")
    return LabelledNumbers(
        np.column_stack([_numbers(columns, j, _doubt(columns, chosen, label)) for j in inputs]),
        _plain_labels(labels),
        columns.names[chosen] if columns.names else f"column {chosen + 1}",
        f"{columns.called(0)} left out, since it numbers the samples" if index else "",
    )


def _check_names(columns: Columns) -> None:
    """Refuse two columns of one name: nobody could say which of them is meant."""
    name, times = (
        Counter(filter(None, columns.names)).most_common(1)[0] if columns.names else ("", 1)
    )
    if times > 1:
        places = [str(j + 1) for j, other in enumerate(columns.names) if other == name]
        raise TaskError(
            f"{columns.path} has {times} columns called {name!r}, columns {', '.join(places)}: "
            "give each a name of its own, or leave the others out."
        )


def _doubt(columns: Columns, chosen: int, label: str | None) -> str:
    """Say which column was taken for the label, where nobody named it."""
    return (
        ""
        if label
        else f"; the label is taken from {columns.called(chosen)}, unless --label says otherwise"
    )


def input_numbers(columns: Columns, inputs: int) -> FloatArray | None:
    """Return a table without labels as `(samples, inputs)`; `None` if it is not as wide as that.

    A first column that numbers the rows is left out.
    """
    width = len(columns.rows[0])
    first = int(width == inputs + 1 and _is_index(columns) and bool(columns.names))
    if width - first != inputs:
        return None
    if first and columns.names[-1].lower() in LABELS:
        return None
    return np.column_stack([_numbers(columns, j) for j in range(first, width)])


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row has names: no number, or one text above a column of numbers."""
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if not any(map(_is_number, first)):
        return any(first)
    for j, cell in enumerate(first):
        below = [row[j].strip() for row in rest if j < len(row)]
        if below and not _is_number(cell) and _all_numbers(below):
            return bool(cell) or _counts(below)
    return False


def _named_label(columns: Columns, width: int, label: str) -> int:
    """Return the column of that name, or of that number, counted from 1."""
    if label in columns.names:
        return columns.names.index(label)
    alike = [j for j, name in enumerate(columns.names) if name.lower() == label.lower()]
    if len(alike) == 1:
        return alike[0]
    if label.isdecimal() and 1 <= int(label) <= width:
        return int(label) - 1
    if not columns.names:
        raise TaskError(
            f"{columns.path} has no column {label!r} and no names, expected a number from 1 to "
            f"{width}."
        )
    listed = ", ".join(columns.names)
    raise TaskError(
        f"{columns.path} has no column {label!r}; its columns: {listed}"
        f"{meant(label, columns.names) or '.'}"
    )


def _find_label(columns: Columns, width: int) -> int:
    """Return the column that its name or its texts make the label, else the last one."""
    named = [j for j, name in enumerate(columns.names) if name.lower() in LABELS]
    if len(named) == 1:
        return named[0]
    texts = [j for j in range(width) if not any(map(_is_number_or_truth, columns.texts(j)))]
    if len(texts) == 1:
        return texts[0]
    last = width - 1
    if texts or _may_be_classes(columns, last):
        return last
    others = [j for j in range(last) if _may_be_classes(columns, j)]
    if not others or not columns.names:
        return last
    raise TaskError(
        f"{columns.path} does not say which column is the label, {columns.called(last)} or "
        f"{columns.called(others[0])}: name it by --label."
    )


def _may_be_classes(columns: Columns, column: int) -> bool:
    """Tell whether a column has few values, all of them whole numbers or truths."""
    values = set(columns.texts(column))
    few = len(values) <= min(FEW, len(columns.rows) // 2)
    return few and all(_is_integer(text) or text.lower() in TRUTHS for text in values)


def _is_index(columns: Columns) -> bool:
    """Tell whether the first column numbers the rows."""
    cells = columns.texts(0)
    if columns.names and columns.names[0].strip().lower() not in INDICES:
        return False
    if _counts(cells):
        return True
    is_named = bool(columns.names and columns.names[0].strip())
    return is_named and len(set(cells)) == len(cells) and all(map(_is_integer, cells))


def _counts(cells: Sequence[str]) -> bool:
    """Tell whether cells are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(
        all(cell == str(k + first) for k, cell in enumerate(cells)) for first in (0, 1)
    ) and bool(cells)


def _numbers(columns: Columns, column: int, doubt: str = "") -> FloatArray:
    """Return a column of numbers or truths, or name its first cell that is neither."""
    texts = columns.texts(column)
    if {text.lower() for text in texts} <= TRUTHS.keys():
        return np.array([TRUTHS[text.lower()] for text in texts])
    lacking = [k for k, text in enumerate(texts) if text.lower() in MISSING]
    if lacking:
        many = f" (nor in {len(lacking) - 1} more of its cells)" if len(lacking) > 1 else ""
        raise TaskError(
            f"{columns.path} has no number in line {columns.lines[lacking[0]]}, "
            f"{columns.called(column)}{many}: fill such cells, or leave their rows out."
        )
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        row = next(k for k, text in enumerate(texts) if not _is_number(text))
        raise TaskError(
            f"{columns.path} holds {texts[row]!r} in line {columns.lines[row]}, "
            f"{columns.called(column)}, not a number{doubt}."
        ) from None


def _plain_labels(texts: Sequence[str]) -> RawArray:
    # Integers sort as numbers: class 10 comes after class 2.
    if all(map(_is_integer, texts)):
        try:
            return np.array([int(text) for text in texts], dtype=np.int64)
        except OverflowError:
            return np.array(texts)
    return np.array([float(text) for text in texts] if _all_numbers(texts) else texts)


def _all_numbers(texts: Sequence[str]) -> bool:
    return all(_is_number(text) or text.lower() in MISSING for text in texts) and any(
        map(_is_number, texts)
    )


def _is_number(text: str) -> bool:
    try:
        return not np.isnan(float(text))
    except ValueError:
        return False


def _is_number_or_truth(text: str) -> bool:
    return _is_number(text) or text.lower() in TRUTHS


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isdecimal()


def same_width(path: Path, rows: Sequence[Sequence[str]], lines: Sequence[int]) -> None:
    """Refuse rows that are not as long as most of them are."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            cells = "1 column" if len(row) == 1 else f"{len(row)} columns"
            raise TaskError(f"{path} has {cells} in line {line}, expected {width}.")
