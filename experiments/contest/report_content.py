"""What the reports of contests say in the same words."""

from experiments.contest.metrics import ACCURACY, R2
from experiments.contest.result_tables import statistics_table
from experiments.contest.roster import Roster
from experiments.contest.seeds_needed import seed_sentences
from experiments.contest.summary import ContestSummary
from experiments.reporting.document import Block, Bullets, Section, Table
from experiments.reporting.number_text import points
from experiments.statistics import Verdict


def lead_sentences(roster: Roster, summary: ContestSummary) -> list[str]:
    """Say what came out: the verdicts, the goals, and what the seeds were."""
    if not summary.tasks:
        return ["No run has finished: there is nothing to report yet."]
    verdicts: dict[str, list[str]] = {}
    for task in summary.tasks:
        if roster.main in task.judgements:
            verdicts.setdefault(task.judgements[roster.main].verdict, []).append(task.title)
    ordered = [(verdict, verdicts[verdict]) for verdict in Verdict if verdict in verdicts]
    said = "; ".join(f"{verdict} on {', '.join(titles)}" for verdict, titles in ordered)
    sentences = [f"{roster.claim}: {said or 'not compared'}."]
    counted = [task for task in summary.tasks if task.metric == ACCURACY.name]
    twins = [(task.title, task.same_network) for task in counted]
    gaps = [f"{points(j.comparison.difference)} on {title}" for title, j in twins if j is not None]
    if gaps:
        sentences.append(
            f"Against backprop on the same network, in percentage points: {', '.join(gaps)}."
        )
    sentences += [
        f"R² against backprop on the same network: "
        f"{R2.difference(task.same_network.comparison.difference)} on {task.title}."
        for task in summary.tasks
        if task.metric == R2.name and task.same_network is not None
    ]
    goals = [(f"accuracy on {task.title}", task.accuracy_goal) for task in summary.tasks]
    goals += [(f"gap on {task.title}", task.gap_goal) for task in summary.tasks]
    measured = [(name, reached) for name, reached in goals if reached is not None]
    if measured:
        missed = [name for name, reached in measured if not reached]
        tail = f" Missed: {', '.join(missed)}." if missed else ""
        count = len(measured) - len(missed)
        sentences.append(f"Goals reached: {count} of {len(measured)}.{tail}")
    notes = [str(task.data.get("note", "")) for task in summary.tasks]
    return [*sentences, *seed_sentences(roster, summary), *filter(None, notes)]


def section(title: str, *blocks: Block | None) -> Section:
    """Leave out what was not drawn and tables without rows."""
    empty = [block for block in blocks if isinstance(block, Table) and not block.rows]
    return Section(title, tuple(b for b in blocks if b is not None and b not in empty))


def missing_runs(summary: ContestSummary) -> list[Block]:
    """Say what was not run, or that all was."""
    if not summary.missing:
        return ["Nothing: every contestant ran on every task with every seed."]
    return [Bullets(summary.missing)]


def statistics(roster: Roster, summary: ContestSummary) -> list[Block]:
    """List the tests and explain the verdicts."""
    table = statistics_table(roster, summary)
    if not table.rows:
        return ["Nothing was compared."]
    text = (
        "Equivalent: the gap is within the margin. Better or worse: it differs from zero and is "
        "not shown to be within the margin. Undecided: the interval is too wide for either. At "
        "chance: a run does not beat the majority class (of R²: the mean), so there is nothing to "
        "compare. All at 5 % after correction."
    )
    return [text, table]
