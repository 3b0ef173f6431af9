"""The tables of a report that say how EqProp did: its goals and every test, with their cells."""

from experiments.contest.metrics import ACCURACY, METRICS, R2, Metric
from experiments.contest.roster import Roster
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.reporting.document import Badge, Cell, Table, Tone
from experiments.reporting.number_text import NONE, percent, points, probability
from experiments.statistics import Judgement, PairedComparison, Verdict

TONES: dict[Verdict, Tone] = {
    Verdict.EQUIVALENT: "good",
    Verdict.BETTER: "good",
    Verdict.WORSE: "bad",
    Verdict.UNDECIDED: "open",
    Verdict.AT_CHANCE: "bad",
}


def goals_table(roster: Roster, summary: ContestSummary) -> Table | None:
    """Say of each goal whether it was reached; `None` if no task has one."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        goal = roster.goals.get(task.name)
        if goal is None:
            continue
        judged = task.judgements.get(roster.main)
        eqprop = task.results.get(roster.main)
        rows.append(
            (
                task.title,
                NONE if goal.accuracy is None else f"at least {percent(goal.accuracy)}",
                percent(eqprop.mean) if eqprop else NONE,
                goal_badge(task.accuracy_goal),
                f"within ±{percent(goal.margin)}",
                points(judged.comparison.difference) if judged else NONE,
                goal_badge(task.gap_goal),
            )
        )
    if not rows:
        return None
    return Table(
        "Goals",
        (
            "Task",
            "Goal for\nEqProp",
            roster.titles[roster.main].replace(" ", "\n", 1),
            "Reached?",
            "Goal for\nthe gap",
            "Gap",
            "Met?",
        ),
        tuple(rows),
        caption="A goal is about the mean over seeds, the verdict about what the seeds can show. "
        "A task where a contestant is at chance misses its gap goal.",
    )


def statistics_table(roster: Roster, summary: ContestSummary) -> Table:
    """List every test: each EqProp network, p-values before and after Holm's correction."""
    rows: list[tuple[Cell, ...]] = []
    twin, short = roster.same_network, roster.short
    for task in summary.tasks:
        against = short.get(task.baseline or "", task.baseline or NONE)
        rows += [
            _test_row(task, short[name], against, task.judgements[name])
            for name in roster.eqprop
            if name in task.judgements
        ]
        if task.same_network is not None and task.baseline != twin:
            rows.append(_test_row(task, short[roster.main], short[twin], task.same_network))
    return Table(
        "Tests",
        (
            "Task",
            "EqProp",
            "Baseline",
            "Pairs",
            "Gap\n(95 % CI)",
            "Margin",
            "p equivalence\n(corrected)",
            "p difference\n(corrected)",
            "p chance\n(corrected)",
            "Verdict",
        ),
        tuple(rows),
        caption="p-values before and, in brackets, after Holm's correction over the tasks"
        f"{_of_looks(summary)}, for each pair of contestants apart; {short[roster.main]} against "
        f"{short[twin]} is the same network with another gradient. Equivalence: two one-sided "
        "paired t-tests against the margin. Difference: two-sided paired t-test. Chance: exact "
        f"binomial test against the majority class{_of_r2(summary)}, worst run of both "
        "contestants.",
        text_columns=3,
    )


def accuracy_text(task: TaskSummary, name: str) -> str:
    """Return mean and deviation of a contestant, or that it did not run."""
    result = task.results.get(name)
    return METRICS[task.metric].text(result.mean, result.std) if result else "not run"


def gap_text(case: PairedComparison, metric: Metric = ACCURACY) -> str:
    """Return a gap with its interval, which a single seed does not have."""
    if case.seeds == 1:
        return f"{metric.difference(case.difference)}\n(1 seed)"
    return metric.between(case.difference, case.interval)


def verdict_badge(verdict: Verdict) -> Badge:
    """Return a verdict, with its remark on lines of its own."""
    text = verdict.replace(" (", "\n(").replace("seeds ", "seeds\n")
    return Badge(text, TONES[verdict])


def goal_badge(reached: bool | None) -> Badge:
    """Return how a goal ended."""
    if reached is None:
        return Badge("not measured", "open")
    return Badge("reached", "good") if reached else Badge("missed", "bad")


def _test_row(task: TaskSummary, name: str, baseline: str, judged: Judgement) -> tuple[Cell, ...]:
    case, metric = judged.comparison, METRICS[task.metric]
    return (
        task.title,
        name,
        baseline,
        str(case.seeds),
        gap_text(case, metric),
        f"±{metric.text(case.margin)}",
        _before_after(case.p_equivalence, judged.p_equivalence),
        _before_after(case.p_difference, judged.p_difference),
        _before_after(case.p_chance, judged.p_chance),
        verdict_badge(judged.verdict),
    )


def _before_after(before: float, after: float) -> str:
    return f"{probability(before)}\n({probability(after)})"


def _of_looks(summary: ContestSummary) -> str:
    return f" and Bonferroni's over {summary.looks} looks" if summary.looks > 1 else ""


def _of_r2(summary: ContestSummary) -> str:
    has_r2 = any(task.metric == R2.name for task in summary.tasks)
    return ", of R² a t-test of the squared errors against those of the mean" if has_r2 else ""
