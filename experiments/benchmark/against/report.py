"""The report of two versions: its files, and its table in the terminal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from experiments.benchmark.against.compare import MARGIN, ComparedRow
from experiments.benchmark.report import making_section
from experiments.records import write_text
from experiments.reporting.document import Badge, Cell, Document, Section, Table, Tone
from experiments.reporting.html_page import render_html
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.number_text import NONE, in_units, probability
from experiments.reporting.terminal_table import rich_table
from experiments.statistics import CONFIDENCE, SIGNIFICANCE

TITLE = "Two versions of Settle, side by side"
FILES = ("against.html", "against.md", "against.json")
TONES: dict[str, Tone] = {"faster": "good", "slower": "bad", "undecided": "open"}

METHOD = (
    "In every round each version starts a process of its own and they take turns, A B B A, in the "
    "next round B A A B; a ratio is taken within a round. A first run of both, which compiles what "
    "is not compiled yet, is not counted.",
    "Training is by fit on made-up clusters, the same in every round; a step is an epoch over its "
    "number of batches.",
    "With one thread the CPU time decides, with more the wall-clock time, since threads that wait "
    "for work use the processor; the other one is given beside it.",
    f"A verdict needs Wilcoxon's signed-rank test of the logarithms of the ratios at "
    f"{SIGNIFICANCE:.0%}, with Holm's correction over all rows, and a median ratio that is more "
    f"than {MARGIN:.0%} away from one. The interval is that of the median by the sign test.",
)


@dataclass(frozen=True)
class ComparisonResults:
    """All that was measured of two versions, as it is written to `against.json`."""

    command: str
    machine: Mapping[str, str]
    old: str
    new: str
    threads: int
    rounds: int
    rows: Sequence[ComparedRow]

    @property
    def summary(self) -> str:
        """Say how many rows have which verdict."""
        verdicts = [row.verdict for row in self.rows if row.verdict]
        parts = [f"{verdicts.count(kind)} {kind}" for kind in ("faster", "slower", "undecided")]
        absent = len(self.rows) - len(verdicts)
        if absent:
            parts.append(f"{absent} without a verdict")
        return f"{self.new} against {self.old}: {', '.join(parts)}."

    @property
    def notes(self) -> list[str]:
        """Return why rows are empty."""
        return [row.note for row in self.rows if row.note]


def write_comparison(results: ComparisonResults, folder: Path) -> None:
    """Write the page in HTML and Markdown, and the numbers."""
    document = comparison_document(results)
    write_text(folder / "against.json", json.dumps(asdict(results), indent=1) + "\n")
    write_text(folder / "against.md", render_markdown(document))
    write_text(folder / "against.html", render_html(document))


def print_comparison(results: ComparisonResults, console: Console) -> None:
    """Print the table and what it comes to."""
    console.print(rich_table(rows_table(results), console.width))
    console.print()
    for note in results.notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
    console.print(results.summary, soft_wrap=True)


def comparison_document(results: ComparisonResults) -> Document:
    """Put the report in order."""
    making = making_section(results.command, results.machine, (*METHOD, *results.notes))
    table = Section("Verdicts", (rows_table(results),))
    return Document(TITLE, (results.summary,), (table, making))


def rows_table(results: ComparisonResults) -> Table:
    """Return a row for each case."""
    clocks = ("CPU", "wall") if results.threads == 1 else ("wall", "CPU")
    return Table(
        f"{results.new} (new) over {results.old} (old), {results.threads} thread(s)",
        (
            "case",
            f"old, {clocks[0]}",
            f"new, {clocks[0]}",
            "new / old",
            f"by {clocks[1]} time",
            "p",
            "verdict",
        ),
        tuple(_cells(row) for row in results.rows),
        f"Medians of {results.rounds} rounds, with the {CONFIDENCE:.0%} interval of the ratio in "
        "brackets; below one the new version is faster.",
    )


def _cells(row: ComparedRow) -> tuple[Cell, ...]:
    if row.verdict is None or row.old is None or row.new is None:
        return (row.case, *[NONE] * 6)
    ratio = f"{row.ratio:.3f}"
    if row.interval is not None:
        ratio += f"\n({row.interval[0]:.3f} to {row.interval[1]:.3f})"
    return (
        row.case,
        in_units(row.old, "s"),
        in_units(row.new, "s"),
        ratio,
        f"{row.other_ratio:.3f}",
        probability(row.p),
        Badge(row.verdict, TONES[row.verdict]),
    )
