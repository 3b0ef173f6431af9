"""The report of the vision experiment: its document, its files, its tables in the terminal."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from experiments.contest.method_tables import (
    data_table,
    machine_table,
    settings_table,
    training_table,
)
from experiments.contest.plots import draw_plots
from experiments.contest.report_content import lead_sentences, missing_runs, section, statistics
from experiments.contest.report_files import metrics_csv, print_report, results_json, write_files
from experiments.contest.result_tables import goals_table
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs, arrange_runs, list_records
from experiments.contest.summary import ContestSummary, summarise
from experiments.records import Record, write_text
from experiments.reporting.document import Bullets, Code, Document, Figure
from experiments.reporting.markdown_page import render_block
from experiments.vision.choices import DEEP, SHALLOW
from experiments.vision.contestants import CURVE_IMAGES
from experiments.vision.plots import PLOTS
from experiments.vision.roster import roster_for
from experiments.vision.tables import (
    depth_sentences,
    has_published,
    headline_table,
    layers_table,
    published_table,
)

TABLE = "table.md"
"""The file of the table for a README."""

METHOD = (
    "A seed sets the split, the initial weights and the order of the batches.",
    "For a seed, all contestants see the same split into training, validation and test, and have "
    "the same batches, epochs, optimizer and schedule. The test part of MNIST, Fashion-MNIST and "
    "CIFAR-10 is the official one, whole.",
    "Learning rate and weight decay are chosen on the validation part from the same grid for every "
    "contestant, with seeds that no reported run uses, and are kept in one table in the code; of "
    "large tasks on a part of the images and for a few epochs. A task without a choice there runs "
    "with its budget.",
    "EqProp takes one nudge of a tiny beta, whose phase is iterated as a displacement from the "
    "free state; a step is a sweep over the layers.",
    "A reported run trains on training and validation together and is scored once, on the test "
    f"part, after its last epoch. The test accuracy after each epoch, on {CURVE_IMAGES:,} of its "
    "images, is drawn and used for nothing else: no early stopping, no choice of an epoch.",
    "The feed-forward network has the kernels, strides, channels, activation and read-out of the "
    "network that relaxes, so as many parameters. Backprop through the steps starts where that "
    "network has settled.",
)


def write_report(
    records: Iterable[Record],
    folder: Path,
    command: str,
    machine: Mapping[str, str],
    looks: int = 1,
) -> ContestSummary:
    """Write every file of the report from the runs that there are, and return what they show.

    The same records give the same files, whatever their order.
    """
    records = list(records)
    roster = roster_for(records)
    runs = arrange_runs(roster, records)
    summary = summarise(roster, list_records(runs), {}, looks)
    pictures = draw_plots(roster, summary, runs, PLOTS)
    figures = {picture.name: picture.figure for picture in pictures}
    document = build_document(roster, summary, runs, figures, command, machine)
    results = results_json(summary, runs, command, machine)
    write_files(folder, document, pictures, metrics_csv(runs), results)
    table = published_table(summary, runs) if has_published(summary) else headline_table(summary)
    write_text(folder / TABLE, render_block(table) + "\n")
    return summary


def build_document(
    roster: Roster,
    summary: ContestSummary,
    runs: Runs,
    figures: Mapping[str, Figure],
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Put tables and figures (by name) in order; what there is nothing to say about is left out."""
    shown = figures.get
    beside = published_table(summary, runs) if has_published(summary) else None
    sections = (
        section("Results", headline_table(summary), goals_table(roster, summary), shown("gap")),
        section("Beside published results", beside),
        section("Missing", *missing_runs(summary)),
        section("Statistics", *statistics(roster, summary)),
        section("Accuracy", shown("accuracy"), shown("learning_curves"), shown("confusion")),
        section("Gradient", shown("layer_cosine"), layers_table(runs), shown("gradient_cosine")),
        section("Filters", shown("filters")),
        section(
            "Training",
            training_table(roster, runs),
            shown("relaxation_steps"),
            shown("seconds_per_epoch"),
        ),
        section("Hyper-parameters", settings_table(roster, summary)),
        section(
            "How the numbers were made",
            Bullets(METHOD),
            data_table(roster, summary),
            machine_table(machine),
            "The command that makes this report again:",
            Code(command),
        ),
    )
    filled = tuple(part for part in sections if part.blocks)
    return Document(roster.title, tuple(_lead(roster, summary)), filled)


def print_summary(records: Iterable[Record], summary: ContestSummary, console: Console) -> None:
    """Print headline, goals and cosines by layer, and what is missing."""
    roster = roster_for(records)
    runs = arrange_runs(roster, records)
    tables = (headline_table(summary), goals_table(roster, summary), layers_table(runs))
    print_report(tables, _lead(roster, summary), summary, console)


def _lead(roster: Roster, summary: ContestSummary) -> list[str]:
    return [
        *lead_sentences(roster, summary),
        *depth_sentences(roster, summary, SHALLOW, DEEP),
    ]
