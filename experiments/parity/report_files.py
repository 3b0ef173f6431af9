"""The report of the parity experiment: its files, and its tables in the terminal."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console
from rich.text import Text

from experiments.parity.method_tables import returns_table
from experiments.parity.plots import draw_plots
from experiments.parity.report_content import build_document, lead_sentences
from experiments.parity.result_tables import controls_table, goals_table, headline_table
from experiments.parity.roster import Runs, arrange_runs
from experiments.parity.summary import ParitySummary, summarise
from experiments.records import EpochPoint, Record, write_text
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.picture import write_picture
from experiments.reporting.terminal_table import rich_table


def write_report(
    records: Iterable[Record],
    folder: Path,
    *,
    best_baseline: Mapping[str, str],
    command: str,
    machine: Mapping[str, str],
) -> ParitySummary:
    """Write every file of the report from the runs that there are, and return what they show.

    `report.md`, `report.html`, `results.json`, `metrics.csv`, and PNG and SVG under `plots`. The
    same records give the same files, whatever their order.
    """
    runs = arrange_runs(records)
    summary = summarise(list_records(runs), best_baseline)
    pictures = draw_plots(summary, runs)
    for picture in pictures:
        write_picture(folder, picture)
    figures = {picture.name: picture.figure for picture in pictures}
    document = build_document(summary, runs, figures, command, machine)
    write_text(folder / "metrics.csv", metrics_csv(runs))
    write_text(folder / "results.json", results_json(summary, runs, command, machine))
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))
    return summary


def print_summary(summary: ParitySummary, console: Console) -> None:
    """Print the headline, goals, controls and returns, and what is missing."""
    tables = [headline_table(summary), goals_table(summary), controls_table(summary)]
    for table in (*tables, returns_table(summary)):
        if table is not None and table.rows:
            console.print(rich_table(table, console.width))
            console.print()
    for sentence in lead_sentences(summary):
        console.print(Text(sentence))
    for sentence in summary.missing:
        console.print(Text(f"Missing: {sentence}", style="yellow"))


def list_records(runs: Runs) -> list[Record]:
    """Return all records in the order of the report."""
    return [record for task in runs.values() for by in task.values() for record in by.values()]


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
    summary: ParitySummary, runs: Runs, command: str, machine: Mapping[str, str]
) -> str:
    """Return summary and every run with its settings; what is not a number becomes null."""
    content = {
        "command": command,
        "machine": dict(machine),
        "summary": asdict(summary),
        "runs": [asdict(record) for record in list_records(runs)],
    }
    return render_json(content)
