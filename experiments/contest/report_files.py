"""The files of a contest's report, and its tables in the terminal."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console
from rich.text import Text

from experiments.contest.runs import Runs, list_records
from experiments.contest.summary import ContestSummary
from experiments.records import EpochPoint, write_text
from experiments.reporting.document import Document, Table
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.picture import Picture, write_picture
from experiments.reporting.terminal_table import rich_table

FILES = ("report.html", "report.md", "results.json", "metrics.csv", "plots/accuracy.png")
"""Of every report, one for each folder at least."""


def write_files(
    folder: Path,
    document: Document,
    pictures: Iterable[Picture],
    metrics: str,
    results: str,
) -> None:
    """Write `report.md`, `report.html`, `results.json`, `metrics.csv`, and plots as PNG and SVG."""
    for picture in pictures:
        write_picture(folder, picture)
    write_text(folder / "metrics.csv", metrics)
    write_text(folder / "results.json", results)
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))


def print_report(
    tables: Iterable[Table | None],
    sentences: Sequence[str],
    summary: ContestSummary,
    console: Console,
) -> None:
    """Print the tables that have rows, what came out in sentences, and what is missing."""
    for table in tables:
        if table is not None and table.rows:
            console.print(rich_table(table, console.width))
            console.print()
    for sentence in sentences:
        console.print(Text(sentence))
    for sentence in summary.missing:
        console.print(Text(f"Missing: {sentence}", style="yellow"))


def metrics_csv(runs: Runs) -> str:
    """Return one row for every run and epoch; what was not measured is empty."""
    columns = [field.name for field in fields(EpochPoint)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "contestant", "seed", *columns])
    for record in list_records(runs):
        for point in record.curve:
            values = [getattr(point, name) for name in columns]
            writer.writerow([record.task, record.contestant, record.seed, *values])
    return text.getvalue()


def results_json(
    summary: ContestSummary, runs: Runs, command: str, machine: Mapping[str, str]
) -> str:
    """Return summary and every run with its settings; what is not a number becomes null."""
    content = {
        "command": command,
        "machine": dict(machine),
        "summary": asdict(summary),
        "runs": [asdict(record) for record in list_records(runs)],
    }
    return render_json(content)
