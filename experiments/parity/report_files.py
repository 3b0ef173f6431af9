"""The report of the parity experiment: its files, and its tables in the terminal."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from experiments.contest.plots import draw_plots
from experiments.contest.report_content import lead_sentences
from experiments.contest.report_files import metrics_csv, print_report, results_json, write_files
from experiments.contest.result_tables import goals_table
from experiments.contest.roster import Roster
from experiments.contest.runs import arrange_runs, list_records
from experiments.contest.summary import ContestSummary, summarise
from experiments.parity.circuits import circuits_table
from experiments.parity.report_content import build_document
from experiments.parity.result_tables import controls_table, headline_table, returns_table
from experiments.parity.roster import PARITY
from experiments.records import Record


def write_report(
    records: Iterable[Record],
    folder: Path,
    *,
    roster: Roster = PARITY,
    best_baseline: Mapping[str, str],
    looks: int = 1,
    command: str,
    machine: Mapping[str, str],
) -> ContestSummary:
    """Write every file of the report from the runs that there are, and return what they show.

    The same records give the same files, whatever their order.
    """
    runs = arrange_runs(roster, records)
    summary = summarise(roster, list_records(runs), best_baseline, looks)
    pictures = draw_plots(roster, summary, runs)
    figures = {picture.name: picture.figure for picture in pictures}
    document = build_document(roster, summary, runs, figures, command, machine)
    results = results_json(summary, runs, command, machine)
    write_files(folder, document, pictures, metrics_csv(runs), results)
    return summary


def print_summary(summary: ContestSummary, console: Console, roster: Roster = PARITY) -> None:
    """Print the headline, goals, controls and returns, and what is missing."""
    tables = (
        headline_table(summary),
        goals_table(roster, summary),
        circuits_table(summary),
        controls_table(summary),
        returns_table(summary),
    )
    print_report(tables, lead_sentences(roster, summary), summary, console)
