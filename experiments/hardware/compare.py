"""Two saved hardware reports side by side; a file that is none is refused in one sentence."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from sys import float_info
from typing import Any

from engine.errors import EngineError, shown
from experiments.hardware.report_files import FORMAT
from experiments.hardware.report_tables import LEARNER_TITLES
from experiments.output import prepare_output
from experiments.records import write_text
from experiments.reporting.document import Cell, Document, Section, Table, text_of
from experiments.reporting.html_page import render_html
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.number_text import NONE, in_units, percent

SIDES = ("First", "Second")
ACCURACY = "test accuracy"
COMPARISON_FILES = ("comparison.html", "comparison.md", "comparison.csv")
LARGEST_FILE = 1 << 26
"""Bytes, beyond which a file is not even parsed."""

Measures = dict[str, dict[str, float]]
"""Of each contender, its measures by name."""


def compare_reports(first: Path, second: Path) -> tuple[Table, Table, Table]:
    """Return what two saved reports priced, and their measures to read and as plain numbers."""
    (priced, old), (other, new) = (read_report(path) for path in (first, second))
    plain = compare_table(old, new, _plain)
    read = compare_table(old, new, _in_units)
    rows = tuple((row[0], _without_unit(text_of(row[1])), *row[2:]) for row in read.rows)
    return priced_table(priced, other), replace(read, rows=rows), plain


def read_report(path: Path) -> tuple[dict[str, str], Measures]:
    """Read what a report priced, and what two can be compared by."""
    content = _read(path)
    try:
        return _priced(content), _measures(content)
    except EngineError as error:
        raise EngineError(f"{path} is no hardware report of this program: {error}") from None


def write_comparison(tables: Sequence[Table], paths: Sequence[Path], folder: Path) -> None:
    """Write `comparison.html`, `.md` and `.csv`, the last from the last of the tables."""
    prepare_output(folder, *COMPARISON_FILES)
    which = "; ".join(f"{side} is {path}" for side, path in zip(SIDES, paths, strict=True))
    *shown_tables, plain = tables
    sections = tuple(Section(table.title, (table,)) for table in shown_tables)
    document = Document("Two hardware reports", (f"{which}.",), sections)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([plain.header, *([text_of(cell) for cell in row] for row in plain.rows)])
    write_text(folder / "comparison.csv", file.getvalue())
    write_text(folder / "comparison.md", render_markdown(document))
    write_text(folder / "comparison.html", render_html(document))


def priced_table(first: dict[str, str], second: dict[str, str]) -> Table:
    """Where two reports priced different things, and in what of it."""
    rows: list[tuple[Cell, ...]] = []
    for what in {**first, **second}:
        sides = [side.get(what, NONE).split(", ") for side in (first, second)]
        if sides[0] != sides[1]:
            only = ([t for t in a if t not in b] or a for a, b in (sides, sides[::-1]))
            rows.append((what, *(",\n".join(texts) for texts in only)))
    same = [what for what in first if first[what] == second.get(what)]
    caption = f"The same in both: {'; '.join(same) or 'nothing'}."
    nothing = (("nothing", NONE, NONE),)
    return Table("What differs", ("What", *SIDES), tuple(rows) or nothing, caption, 3)


def compare_table(old: Measures, new: Measures, text: Callable[[float, str], str]) -> Table:
    """Return the measures of two saved reports side by side, in the words of `text`."""
    rows = []
    for name in dict.fromkeys([*old, *new]):
        for measure in dict.fromkeys([*old.get(name, {}), *new.get(name, {})]):
            a, b = (side.get(name, {}).get(measure, math.nan) for side in (old, new))
            change = f"{b / a:.3g}" if a and not math.isnan(a * b) else NONE
            texts = (NONE if math.isnan(value) else text(value, measure) for value in (a, b))
            rows.append((name, measure, *texts, change))
    return Table("Accuracies and costs", ("What", "Measure", *SIDES, "Ratio"), tuple(rows), "", 2)


def _without_unit(measure: str) -> str:
    """Return a measure whose numbers say their unit themselves."""
    return measure.removesuffix(", J").removesuffix(", s")


def _plain(value: float, _: str) -> str:
    return f"{value:.6g}"


def _in_units(value: float, measure: str) -> str:
    """Return a number as the reports print it; the measure ends with its unit, if it has one."""
    unit = measure.rpartition(", ")[2]
    if measure.startswith(ACCURACY):
        return f"{percent(value)} %"
    return in_units(value, unit) if unit in ("J", "s") else f"{value:.3g}"


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


def _priced(content: Any) -> dict[str, str]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise EngineError(f"its format is not '{FORMAT}'.")
    found = {}
    for where, row in _entries(content, "priced"):
        words = isinstance(row, list) and all(isinstance(t, str) and t.isprintable() for t in row)
        if not words or len(row) != 2:
            raise EngineError(f"{where} is {shown(row)}, expected two texts.")
        found[row[0]] = row[1]
    return found


def _measures(content: dict[str, Any]) -> Measures:
    found: Measures = {}
    for where, run in _entries(content, "runs"):
        learner = _text(where, run, "learner")
        name = f"{LEARNER_TITLES.get(learner, learner)} on {_text(where, run, 'substrate')}"
        seed = _field(where, run, "seed")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise EngineError(f"{where} has seed {shown(seed)}, expected a whole number.")
        measure = f"{ACCURACY}, seed {shown(seed)}"
        found.setdefault(name, {})[measure] = _number(where, run, "accuracy")
    for where, contest in _entries(content, "contests"):
        name = f"{_text(where, contest, 'substrate')}, {_text(where, contest, 'technology')}"
        rival = _text(where, contest, "rival")
        found.setdefault(name, {}).update(
            {
                "training energy, J": _nominal(where, contest, "energy_j"),
                f"training energy over {LEARNER_TITLES.get(rival, rival)}": _nominal(
                    where, contest, "ratio"
                ),
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
