"""The report of the benchmark: its files, and its tables in the terminal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from experiments.benchmark.crossings import find_crossings
from experiments.benchmark.goals import Goal, Measurements, judge_goals
from experiments.benchmark.growth import GrowthPoint
from experiments.benchmark.growth_plot import draw_growth
from experiments.benchmark.plots import draw_benchmark
from experiments.benchmark.report_tables import (
    crossings_table,
    defaults_table,
    exponents_table,
    first_call_table,
    first_step_table,
    floor_table,
    goals_table,
    growth_table,
    images_table,
    races_table,
    sweeps_table,
)
from experiments.benchmark.service_tables import parallel_tables, prediction_table
from experiments.records import write_text
from experiments.reporting.document import Bullets, Code, Document, Figure, Section, Table
from experiments.reporting.html_page import render_html
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.picture import write_picture
from experiments.reporting.terminal_table import rich_table

TITLE = "How fast Settle is"

METHOD = (
    "In every round each contestant does the same work once, in turn; a ratio is taken within a "
    "round. Numbers are medians with quartiles.",
    "An epoch is timed by the CPU with one thread, and by the clock with more.",
    "The first call of each, which compiles, loads and fills caches, is timed apart.",
    "BLAS and torch have the stated number of threads. Everything is float32.",
    "The bare products are 30 calls of np.dot with an output array. Torch eager does the same "
    "steps with the residual of every sample and with all buffers allocated beforehand.",
    "Backprop is torch's own, on a feed-forward ReLU network of the same size, with the data as "
    "tensors and the faster of torch's Adam implementations. BPTT goes through all the steps that "
    "EqProp's free phase may take; a second one stops where EqProp stops on average.",
    "Multiply-adds are counted from the products that a training step needs, with the steps that "
    "EqProp took on average. Training() without settings has the samples, the order, the rate, the "
    "batches and the schedule of its backprop.",
    "Convolutional networks: EqProp sweeps a fixed number of times, nudges once by a displacement "
    "and starts calibrated. In plain torch operations it does the same, without autograd. To "
    "tolerance it sweeps as often as the vision experiment has it. Smaller images get a border of "
    "zeros, grey ones equal channels. Both contestants in torch have their images beforehand in "
    "the layout in which torch is faster, with the channels of a pixel side by side.",
    "Memory is the resident memory of a process of its own, the allocator of torch included.",
)


@dataclass(frozen=True)
class BenchmarkResults:
    """Everything a run measured, as it is written to `results.json`."""

    command: str
    machine: Mapping[str, str]
    measured: Measurements
    points: Sequence[GrowthPoint] = ()
    notes: Sequence[str] = ()
    goals: Sequence[Goal] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "goals", judge_goals(self.measured))


def write_report(results: BenchmarkResults, folder: Path) -> None:
    """Write `report.md`, `report.html`, `results.json` and the plot."""
    measured, points = results.measured, results.points
    drawn = (
        draw_benchmark(measured.cells, measured.races),
        draw_growth(points, find_crossings(points)),
    )
    pictures = [picture for picture in drawn if picture is not None]
    for picture in pictures:
        write_picture(folder, picture)
    document = build_document(results, [picture.figure for picture in pictures])
    write_text(folder / "results.json", json.dumps(asdict(results), indent=1) + "\n")
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))


def print_results(results: BenchmarkResults, console: Console) -> None:
    """Print every table, the goals last."""
    for table in (*result_tables(results), goals_table(results.goals)):
        console.print(rich_table(table, console.width))
        console.print()
    for note in results.notes:
        console.print(Text(note, style="yellow"))


def result_tables(results: BenchmarkResults) -> list[Table]:
    """Return the tables of the parts that ran."""
    measured = results.measured
    counts = dict.fromkeys(cell.threads for cell in measured.cells)
    tables = [floor_table(measured.cells, threads) for threads in counts]
    if measured.cells:
        tables.append(first_call_table(measured.cells))
    if measured.races:
        tables.append(races_table(measured.races, measured))
    if measured.defaults:
        tables.append(defaults_table(measured.defaults, measured.task))
    if results.points:
        tables += [growth_table(results.points), exponents_table(measured.exponents)]
        tables.append(crossings_table(find_crossings(results.points)))
    if measured.first_step is not None:
        tables.append(first_step_table(measured.first_step))
    if measured.images:
        tables.append(images_table(measured.images))
    if measured.sweeps:
        tables.append(sweeps_table(measured.sweeps))
    if measured.predictions:
        tables.append(prediction_table(measured.predictions))
    if measured.parallel is not None:
        tables += parallel_tables(measured.parallel)
    return tables


def build_document(results: BenchmarkResults, figures: Sequence[Figure]) -> Document:
    """Put the report in order."""
    reached = [goal for goal in results.goals if goal.reached]
    missed = dict.fromkeys(goal.what for goal in results.goals if goal.reached is False)
    count = sum(goal.reached is not None for goal in results.goals)
    lead = [f"{len(reached)} of {count} goals reached."]
    if missed:
        lead.append(f"Missed: {'; '.join(missed)}.")
    sections = [
        Section("Goals", (goals_table(results.goals), *figures)),
        Section("Measurements", tuple(result_tables(results))),
        making_section(results.command, results.machine, (*METHOD, *results.notes)),
    ]
    return Document(TITLE, tuple(lead), tuple(sections))


def making_section(command: str, machine: Mapping[str, str], statements: Sequence[str]) -> Section:
    """Say how the numbers of a report were made, by which command, and where."""
    rows = tuple(machine.items())
    return Section(
        "How the numbers were made",
        (
            Bullets(tuple(statements)),
            Code(command),
            Table("Machine", ("what", "value"), rows, text_columns=2),
        ),
    )
