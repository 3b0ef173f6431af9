"""The parity report as a document: what it says, in which order."""

from collections.abc import Mapping

from experiments.contest.method_tables import (
    data_table,
    machine_table,
    settings_table,
    training_table,
)
from experiments.contest.metrics import R2
from experiments.contest.report_content import (
    lead_sentences,
    missing_runs,
    section,
    statistics,
)
from experiments.contest.result_tables import goals_table
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs
from experiments.contest.summary import ContestSummary
from experiments.parity.circuits import circuits_table
from experiments.parity.result_tables import controls_table, headline_table, returns_table
from experiments.reporting.document import Block, Bullets, Code, Document, Figure

METHOD = (
    "A seed sets the split, the initial weights and the order of the batches.",
    "For a seed, all contestants see the same split into training, validation and test; the "
    "control tasks are split by episode.",
    "A reported run trains on training and validation together and is scored once, on the test "
    "part, after its last epoch. The test accuracy of earlier epochs is drawn and used for "
    "nothing else: no early stopping, no choice of an epoch.",
)
OF_KNOWN_TASKS = (
    "Hyper-parameters and the best baseline of a task are chosen on the validation part, with "
    "seeds that no reported run uses, and are kept in one table in the code.",
    "The published numbers are those of runs with 5,000 training images, no environment for the "
    "control tasks, and a biased gradient.",
)


def build_document(
    roster: Roster,
    summary: ContestSummary,
    runs: Runs,
    figures: Mapping[str, Figure],
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Put tables and figures (by name) in order; what there is nothing to say about is left out."""
    sections = (
        section(
            "Results", headline_table(summary), goals_table(roster, summary), figures.get("gap")
        ),
        section("Circuits", circuits_table(summary)),
        section("Missing", *missing_runs(summary)),
        section("Statistics", *statistics(roster, summary)),
        section(_scored(summary), figures.get("accuracy"), figures.get("learning_curves")),
        section("Controls", controls_table(summary)),
        section("Policies", returns_table(summary)),
        section(
            "Training",
            training_table(roster, runs),
            figures.get("relaxation_steps"),
            figures.get("gradient_cosine"),
            figures.get("seconds_per_epoch"),
        ),
        section("Hyper-parameters", settings_table(roster, summary)),
        section("How the numbers were made", *_method(roster, summary, command, machine)),
    )
    filled = tuple(section for section in sections if section.blocks)
    return Document(roster.title, tuple(lead_sentences(roster, summary)), filled)


def _scored(summary: ContestSummary) -> str:
    """Return what the runs are scored by."""
    return "R²" if {task.metric for task in summary.tasks} == {R2.name} else "Accuracy"


def _method(
    roster: Roster, summary: ContestSummary, command: str, machine: Mapping[str, str]
) -> list[Block]:
    return [
        Bullets((*METHOD, *_settings_notes(roster, summary), *_baseline_notes(roster, summary))),
        data_table(roster, summary),
        machine_table(machine),
        "The command that makes this report again:",
        Code(command),
    ]


def _settings_notes(roster: Roster, summary: ContestSummary) -> list[str]:
    """Say where the settings come from: on a user's data from a file, or from one budget."""
    notes: list[str] = []
    if any(task.name in roster.goals for task in summary.tasks):
        notes += OF_KNOWN_TASKS
    for task in summary.tasks:
        if task.name in roster.goals:
            continue
        if task.chosen_on == "validation":
            notes.append(f"{task.title}: settings were chosen on its validation part by --tune.")
        else:
            notes.append(
                f"{task.title}: all contestants share one budget of settings, which was not tuned "
                "on it; --tune chooses others on its validation part."
            )
    return notes


def _baseline_notes(roster: Roster, summary: ContestSummary) -> list[str]:
    """Name the baseline of each task, and warn where hindsight chose it."""
    notes = []
    for task in summary.tasks:
        if task.baseline is None:
            continue
        note = f"Best baseline on {task.title}: {roster.titles.get(task.baseline, task.baseline)}"
        if task.chosen_on == "validation":
            notes.append(f"{note}, chosen on the validation part.")
        elif all(name in task.results for name in roster.baselines):
            notes.append(
                f"{note}, the higher mean on the test part, for lack of a choice on the "
                "validation part. A baseline chosen in hindsight looks better than it is: this "
                "works against EqProp."
            )
        else:
            notes.append(f"{note}, the only one that ran; the other might be better.")
    return notes
