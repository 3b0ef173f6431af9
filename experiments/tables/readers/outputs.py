"""What all readers share: files of commands, pictures, and means with their deviations."""

import json
import math
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from experiments.reporting.number_text import percent
from experiments.tables.measurement import Measurement
from experiments.tables.pages import picture_hash
from experiments.tables.stored import TablesError

Rows: TypeAlias = tuple[tuple[str, ...], ...]


def read_output(path: Path, command: str) -> dict[str, Any]:
    """Read what a command wrote; refuse the output of another one."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TablesError(f"{path} cannot be read: {error}.") from None
    _refuse_another(path, content["command"], command)
    return content


def copied_picture(folder: Path, measurement: Measurement, place: Path, root: Path) -> Rows:
    """Copy a picture beside the pages; return its place and its hash."""
    for record in folder.glob("*.json"):
        content = json.loads(record.read_text(encoding="utf-8"))
        if "command" in content:
            _refuse_another(record, content["command"], measurement.command)
    try:
        shutil.copyfile(folder / measurement.picture, place)
    except OSError as error:
        raise TablesError(f"{folder / measurement.picture} cannot be copied: {error}.") from None
    return ((place.relative_to(root).as_posix(), picture_hash(place)),)


def written_rows(path: Path) -> Rows:
    """Return the rows of the first table of a page in Markdown, as the command wrote them."""
    return _table(path, "")[1:]


def columns_of(path: Path, column: str) -> list[dict[str, str]]:
    """Return the rows of the first table that has a column, by the names of its columns."""
    header, *rows = _table(path, column)
    names = [name.replace("\\", "") for name in header]  # escapes of Markdown
    return [dict(zip(names, row, strict=True)) for row in rows]


def _table(path: Path, column: str) -> Rows:
    """Return header and rows of the first table with a column, any without one."""
    tables: list[list[tuple[str, ...]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
            tables[-1].append(tuple(cells))
        elif tables[-1]:
            tables.append([])
    for table in tables:
        if table and (not column or column in table[0]):
            return (table[0], *table[2:])
    raise TablesError(f"{path} has no table with a column '{column}'.")


def spread_text(values: Sequence[float]) -> str:
    """Return the mean of shares in percent, with the standard deviation if there are several."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return percent(float(np.mean(values)), std)


def _refuse_another(path: Path, written: str, command: str) -> None:
    if _told(written) != _told(command):
        raise TablesError(f"{path} was written by `{written}`, not by `{command}`.")


def _told(command: str) -> list[str]:
    """Return the words of a command without those that change no result."""
    words = shlex.split(command)
    for option in ("--out", "--workers"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return words
