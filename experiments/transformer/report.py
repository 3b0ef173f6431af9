"""The report of the transformer experiment: its tables, its document and its files."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from experiments.records import write_text
from experiments.reporting.document import (
    Badge,
    Bullets,
    Cell,
    Code,
    Document,
    Figure,
    Section,
    Table,
)
from experiments.reporting.html_page import render_html
from experiments.reporting.json_page import render_json
from experiments.reporting.markdown_page import render_markdown
from experiments.reporting.number_text import NONE, setting
from experiments.reporting.picture import write_picture
from experiments.reporting.terminal_table import rich_table
from experiments.transformer.outcomes import TransformerOutcome
from experiments.transformer.plots import draw_plots
from experiments.transformer.summary import Kind, arrange, lead_sentences, spread
from experiments.transformer.training import EQPROP, METHODS

TITLE = "The energy transformer"
METHOD = (
    "A hash of its tokens puts every possible sequence into one part, for good: one tenth is for "
    "the test, one tenth for validation, the rest for training. Training draws fresh sequences of "
    "its part for every update, so no test sequence can have been seen.",
    "EqProp and backprop start from the same weights and see the same sequences; optimizer, "
    "schedule and decay are the same. Backprop differentiates 30 steps of the relaxation by "
    "autograd, and its gradient is cut to a norm of at most 1, for through steps that do not "
    "contract it may explode; EqProp uses a free phase and two nudged ones, and no autograd.",
    "Cosines are those of the gradient as training estimates it with that of the equilibrium, "
    "which autograd differentiates implicitly in double precision, on validation sequences, before "
    "the first update, at even distances, and after the last.",
    "At equilibrium means a residual of at most 1e-5 for every unit, from the start that the input "
    "gives; a sequence that does not get there is counted as unsettled and its answer as it is.",
    "Several equilibria: a restart from a state drawn evenly from -1 to 1 settled elsewhere, with "
    "a unit more than 0.01 away.",
    "Settings were chosen on validation sequences with seeds 7 to 12.",
)


def write_report(
    outcomes: Iterable[TransformerOutcome], folder: Path, command: str, machine: Mapping[str, str]
) -> list[Kind]:
    """Write `report.md`, `report.html`, `results.json`, and PNG and SVG under `plots`."""
    kinds = arrange(outcomes)
    pictures = draw_plots(kinds)
    for picture in pictures:
        write_picture(folder, picture)
    figures = {picture.name: picture.figure for picture in pictures}
    document = build_document(kinds, figures, command, machine)
    content = {
        "command": command,
        "machine": dict(machine),
        "summary": lead_sentences(kinds),
        "goals": {
            kind.title: {"tokens": kind.reached, "cosine": kind.faithful}
            for kind in kinds
            if kind.goal is not None
        },
        "runs": [asdict(run) for kind in kinds for runs in kind.runs.values() for run in runs],
    }
    write_text(folder / "results.json", render_json(content))
    write_text(folder / "report.md", render_markdown(document))
    write_text(folder / "report.html", render_html(document))
    return kinds


def print_summary(kinds: list[Kind], console: Console) -> None:
    """Print the tables and the verdicts."""
    for table in (headline_table(kinds), dynamics_table(kinds)):
        if table.rows:
            console.print(rich_table(table, console.width))
            console.print()
    for sentence in lead_sentences(kinds):
        console.print(Text(sentence))


def build_document(
    kinds: list[Kind], figures: Mapping[str, Figure], command: str, machine: Mapping[str, str]
) -> Document:
    """Put tables and figures in order."""
    training = [
        figures[n] for n in ("learning", "gradient_cosine", "relaxation_steps") if n in figures
    ]
    maps = [figures["attention"]] if "attention" in figures else []
    if not kinds:
        return Document(TITLE, tuple(lead_sentences(kinds)), ())
    sections = (
        Section("Results", (headline_table(kinds),)),
        Section("Equilibria", (dynamics_table(kinds),)),
        Section("Attention", tuple(maps)),
        Section("Training", (training_table(kinds), *training)),
        Section(
            "How the numbers were made",
            (
                Bullets(METHOD),
                settings_table(kinds),
                _pairs("Machine", machine),
                "The command that makes this report again:",
                Code(command),
            ),
        ),
    )
    return Document(TITLE, tuple(lead_sentences(kinds)), tuple(s for s in sections if s.blocks))


def headline_table(kinds: list[Kind]) -> Table:
    """Wrong tokens and accuracy of both methods."""
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        for method, runs in kind.runs.items():
            verdict: Cell = NONE
            if method == EQPROP and kind.reached is not None:
                both = kind.reached and kind.faithful
                verdict = Badge("reached", "good") if both else Badge("missed", "bad")
            rows.append(
                (
                    kind.title,
                    METHODS[method],
                    _each(run.settled.wrong for run in runs),
                    _percent(kind.accuracies(method)),
                    _each(run.few.wrong for run in runs),
                    _percent(kind.accuracies(method, settled=False)),
                    f"{runs[0].settled.tokens:,}",
                    verdict,
                )
            )
    return Table(
        "Held-out tokens",
        (
            "Sequences",
            "Method",
            "Wrong,\nsettled",
            "Right,\nsettled (%)",
            "Wrong,\n30 steps",
            "Right,\n30 steps (%)",
            "Tokens",
            "Goal",
        ),
        tuple(rows),
        caption="Wrong tokens seed by seed; shares as mean ± standard deviation over seeds. "
        "Settled: at equilibrium. Tokens are those of one seed. The goal asks for tokens and for "
        "the cosine of the gradient.",
        text_columns=2,
    )


def dynamics_table(kinds: list[Kind]) -> Table:
    """Residuals, steps and multistability."""
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        for method, runs in kind.runs.items():
            several = [100 * r.multistability.several / r.multistability.sequences for r in runs]
            steps = [max(run.settled.steps[k] for run in runs) for k in range(3)]
            rows.append(
                (
                    kind.title,
                    METHODS[method],
                    f"{max(run.settled.residual for run in runs):.1e}",
                    _each(run.settled.unsettled for run in runs),
                    " / ".join(f"{count:.0f}" for count in steps),
                    _each(f"{share:.1f}" for share in several),
                    _each(run.multistability.wrong for run in runs),
                    f"{max(run.few.residual for run in runs):.1e}",
                )
            )
    return Table(
        "Equilibria of the test sequences",
        (
            "Sequences",
            "Method",
            "Largest\nresidual",
            "Unsettled\nsequences",
            "Steps: median /\n95 % / most",
            "Several\nequilibria (%)",
            "Wrong from\nrestarts",
            "Residual,\n30 steps",
        ),
        tuple(rows),
        caption="Seed by seed, or the largest over seeds. Restarts begin at random states: see how "
        "the numbers were made.",
        text_columns=2,
    )


def training_table(kinds: list[Kind]) -> Table:
    """Gradient fidelity and time."""
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        for method, runs in kind.runs.items():
            last = runs[0].curve[-1]
            rows.append(
                (
                    kind.title,
                    METHODS[method],
                    f"{kind.least_cosine:.5f}" if method == EQPROP else NONE,
                    f"{100 * max(run.most_lopsided for run in runs):.0f}",
                    f"{last.cost:.1e}",
                    f"{last.free_steps:.0f} / {last.nudged_steps:.0f}",
                    f"{spread([run.seconds for run in runs])[0]:.0f}",
                )
            )
    return Table(
        "Training",
        (
            "Sequences",
            "Method",
            "Least cosine\nwith autograd",
            "Most lopsided\n(%)",
            "Last cost\na token",
            "Last steps,\nfree / nudged",
            "CPU seconds",
        ),
        tuple(rows),
        caption="Lopsided are sequences whose two nudged states are not opposite: the nudge is too "
        "large for them, or moves them to another equilibrium, where there is no gradient. Counted "
        "among 16 validation sequences, at the moment with most of them. Cost and steps are those "
        "of the first seed. Seconds are CPU time on one core, mean over seeds; EqProp runs on "
        "compiled kernels, backprop on torch.",
        text_columns=2,
    )


def settings_table(kinds: list[Kind]) -> Table:
    """Every setting, kind by kind."""
    runs = [next(iter(kind.runs.values()))[0] for kind in kinds]
    names = list(runs[0].settings)
    rows = tuple((name, *(setting([run.settings[name]]) for run in runs)) for name in names)
    return Table("Settings", ("Setting", *(kind.title for kind in kinds)), rows)


def _pairs(title: str, values: Mapping[str, str]) -> Table:
    return Table(title, ("What", "Which"), tuple(values.items()), text_columns=2)


def _each(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


def _percent(shares: list[float]) -> str:
    mean, deviation = spread([100 * share for share in shares])
    return f"{mean:.4f}" if deviation != deviation else f"{mean:.4f} ± {deviation:.4f}"
