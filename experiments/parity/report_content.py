"""The parity report as a document: what it says, in which order."""

from collections.abc import Mapping

from experiments.parity.method_tables import (
    data_table,
    machine_table,
    returns_table,
    settings_table,
    training_table,
)
from experiments.parity.result_tables import (
    controls_table,
    goals_table,
    headline_table,
    statistics_table,
)
from experiments.parity.roster import BASELINES, LOOPED, TITLES, Runs
from experiments.parity.summary import ParitySummary
from experiments.reporting.document import Block, Bullets, Code, Document, Figure, Section, Table
from experiments.reporting.number_text import points
from experiments.statistics import Verdict

TITLE = "EqProp against backprop"

METHOD = (
    "A seed sets the split, the initial weights and the order of the batches.",
    "For a seed, all contestants see the same split into training, validation and test; the "
    "control tasks are split by episode.",
    "Hyper-parameters and the best baseline of a task are chosen on the validation part, with "
    "seeds that no reported run uses, and are kept in one table in the code.",
    "A reported run trains on training and validation together and is scored once, on the test "
    "part, after its last epoch. The test accuracy of earlier epochs is drawn and used for "
    "nothing else: no early stopping, no choice of an epoch.",
    "The published numbers are those of runs with 5,000 training images, no environment for the "
    "control tasks, and a biased gradient.",
)


def build_document(
    summary: ParitySummary,
    runs: Runs,
    figures: Mapping[str, Figure],
    command: str,
    machine: Mapping[str, str],
) -> Document:
    """Put tables and figures (by name) in order; what there is nothing to say about is left out."""
    sections = (
        _section("Results", headline_table(summary), goals_table(summary), figures.get("gap")),
        _section("Missing", *_missing(summary)),
        _section("Statistics", *_statistics(summary)),
        _section("Accuracy", figures.get("accuracy"), figures.get("learning_curves")),
        _section("Controls", controls_table(summary)),
        _section("Policies", returns_table(summary)),
        _section(
            "Training",
            training_table(runs),
            figures.get("relaxation_steps"),
            figures.get("gradient_cosine"),
            figures.get("seconds_per_epoch"),
        ),
        _section("Hyper-parameters", settings_table(summary)),
        _section("How the numbers were made", *_method(summary, command, machine)),
    )
    filled = tuple(section for section in sections if section.blocks)
    return Document(TITLE, tuple(lead_sentences(summary)), filled)


def lead_sentences(summary: ParitySummary) -> list[str]:
    """Say what came out: the verdicts, the goals, and what the seeds were."""
    if not summary.tasks:
        return ["No run has finished: there is nothing to report yet."]
    verdicts: dict[str, list[str]] = {}
    for task in summary.tasks:
        if LOOPED in task.judgements:
            verdicts.setdefault(task.judgements[LOOPED].verdict, []).append(task.title)
    ordered = [(verdict, verdicts[verdict]) for verdict in Verdict if verdict in verdicts]
    said = "; ".join(f"{verdict} on {_listed(titles)}" for verdict, titles in ordered)
    contest = "EqProp on the looped network against the best backprop baseline"
    sentences = [f"{contest}: {said or 'not compared'}."]
    twins = [(task.title, task.same_network) for task in summary.tasks]
    gaps = [f"{points(j.comparison.difference)} on {title}" for title, j in twins if j is not None]
    if gaps:
        sentences.append(
            f"Against backprop on the same network, in percentage points: {_listed(gaps)}."
        )
    goals = [(f"accuracy on {task.title}", task.accuracy_goal) for task in summary.tasks]
    goals += [(f"gap on {task.title}", task.gap_goal) for task in summary.tasks]
    measured = [(name, reached) for name, reached in goals if reached is not None]
    if measured:
        missed = [name for name, reached in measured if not reached]
        tail = f" Missed: {_listed(missed)}." if missed else ""
        count = len(measured) - len(missed)
        sentences.append(f"Goals reached: {count} of {len(measured)}.{tail}")
    seeds = ", ".join(map(str, summary.seeds))
    sentences.append(f"Seeds: {seeds}.")
    return sentences


def _section(title: str, *blocks: Block | None) -> Section:
    """Leave out what was not drawn and tables without rows."""
    empty = [block for block in blocks if isinstance(block, Table) and not block.rows]
    return Section(title, tuple(b for b in blocks if b is not None and b not in empty))


def _missing(summary: ParitySummary) -> list[Block]:
    if not summary.missing:
        return ["Nothing: every contestant ran on every task with every seed."]
    return [Bullets(summary.missing)]


def _statistics(summary: ParitySummary) -> list[Block]:
    table = statistics_table(summary)
    if not table.rows:
        return ["Nothing was compared."]
    text = (
        "Equivalent: the gap is within the margin. Better or worse: it differs from zero and is "
        "not shown to be within the margin. Undecided: the interval is too wide for either. At "
        "chance: a run does not beat the majority class, so there is nothing to compare. All at "
        "5 % after correction."
    )
    return [text, table]


def _method(summary: ParitySummary, command: str, machine: Mapping[str, str]) -> list[Block]:
    return [
        Bullets((*METHOD, *_baseline_notes(summary))),
        data_table(summary),
        machine_table(machine),
        "The command that makes this report again:",
        Code(command),
    ]


def _baseline_notes(summary: ParitySummary) -> list[str]:
    """Name the baseline of each task, and warn where hindsight chose it."""
    notes = []
    for task in summary.tasks:
        if task.baseline is None:
            continue
        note = f"Best baseline on {task.title}: {TITLES.get(task.baseline, task.baseline)}"
        if task.chosen_on == "validation":
            notes.append(f"{note}, chosen on the validation part.")
        elif all(name in task.results for name in BASELINES):
            notes.append(
                f"{note}, the higher mean on the test part, for lack of a choice on the "
                "validation part. A baseline chosen in hindsight looks better than it is: this "
                "works against EqProp."
            )
        else:
            notes.append(f"{note}, the only one that ran; the other might be better.")
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(names)
