"""Two saved hardware reports side by side; a file that is none is refused in one sentence."""

import json
import math
from pathlib import Path
from sys import float_info
from typing import Any

from engine.errors import EngineError, shown
from experiments.hardware.report_files import FORMAT
from experiments.hardware.report_tables import compare_table
from experiments.reporting.document import Table

LARGEST_FILE = 1 << 26
"""Bytes, beyond which a file is not even parsed."""

Measures = dict[str, dict[str, float]]
"""Of each contender, its measures by name."""


def compare_reports(first: Path, second: Path) -> Table:
    """Return two saved reports side by side."""
    return compare_table(*(read_measures(path) for path in (first, second)))


def read_measures(path: Path) -> Measures:
    """Read what two reports can be compared by."""
    content = _read(path)
    try:
        return _measures(content)
    except EngineError as error:
        raise EngineError(f"{path} is no hardware report of this program: {error}") from None


def _read(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > LARGEST_FILE:
            raise ValueError(f"it is no file of at most {LARGEST_FILE:,} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        reason = "it is nested too deeply"
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
    raise EngineError(f"{path} cannot be read as a report: {reason}.")


def _measures(content: Any) -> Measures:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise EngineError(f"its format is not '{FORMAT}'.")
    found: Measures = {}
    for where, run in _entries(content, "runs"):
        name = f"{_text(where, run, 'learner')}, {_text(where, run, 'substrate')}"
        seed = _field(where, run, "seed")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise EngineError(f"{where} has seed {shown(seed)}, expected a whole number.")
        measure = f"test accuracy, seed {shown(seed)}"
        found.setdefault(name, {})[measure] = _number(where, run, "accuracy")
    for where, contest in _entries(content, "contests"):
        name = f"{_text(where, contest, 'substrate')}, {_text(where, contest, 'technology')}"
        found.setdefault(name, {}).update(
            {
                "training energy, J": _nominal(where, contest, "energy_j"),
                f"ratio to {_text(where, contest, 'rival')}": _nominal(where, contest, "ratio"),
                "inference energy, J": _nominal(where, contest, "inference_energy_j"),
                "training time, s": _nominal(where, contest, "latency_s"),
            }
        )
    return found


def _entries(content: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    """Return the entries of a list, each with the words that name it."""
    entries = content.get(name)
    if not isinstance(entries, list):
        raise EngineError(f"its {name} are {shown(entries)}, expected a list.")
    return [(f"entry {k} of its {name}", entry) for k, entry in enumerate(entries, start=1)]


def _field(where: str, table: Any, name: str) -> Any:
    if not isinstance(table, dict):
        raise EngineError(f"{where} is {shown(table)}, expected a table.")
    if name not in table:
        raise EngineError(f"{where} has no {name}.")
    return table[name]


def _text(where: str, table: Any, name: str) -> str:
    text = _field(where, table, name)
    if not isinstance(text, str) or not text.isprintable():
        raise EngineError(f"{where} has {name} {shown(text)}, expected words.")
    return text


def _nominal(where: str, table: Any, name: str) -> float:
    """Return the value of a range; null stands for what has none, such as times without prices."""
    found = _field(where, table, name)
    return math.nan if found is None else _number(f"{name} in {where}", found, "nominal")


def _number(where: str, table: Any, name: str) -> float:
    """Return a number; null stands for one that is not finite."""
    value = _field(where, table, name)
    if value is None:
        return math.nan
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not (real and abs(value) <= float_info.max):
        raise EngineError(f"{where} has {name} {shown(value)}, expected a number.")
    return float(value)
