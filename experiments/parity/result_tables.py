"""The tables of the parity report that say how EqProp did: headline, goals, tests, controls."""

from experiments.parity.goals import REFERENCES
from experiments.parity.roster import BPTT, CONTROLS, EQPROP, LAYERED, LOOPED, TITLES
from experiments.parity.summary import ParitySummary, TaskSummary
from experiments.reporting.document import Badge, Cell, Table, Tone
from experiments.reporting.number_text import NONE, percent, points, points_between, probability
from experiments.statistics import Judgement, PairedComparison, Verdict

TONES: dict[Verdict, Tone] = {
    Verdict.EQUIVALENT: "good",
    Verdict.BETTER: "good",
    Verdict.WORSE: "bad",
    Verdict.UNDECIDED: "open",
    Verdict.AT_CHANCE: "bad",
}
SHORT = {
    "eqprop_looped": "looped",
    "eqprop_layered": "layered",
    "backprop_looped": "BPTT",
    "backprop_feedforward": "MLP",
}
"""Names where a column is narrow."""


def headline_table(summary: ParitySummary) -> Table:
    """Put what was published beside what was measured here, task by task."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        reference = REFERENCES.get(task.name)
        published = [reference.backprop, reference.eqprop] if reference else [None, None]
        judged = task.judgements.get(LOOPED)
        rows.append(
            (
                task.title,
                *(percent(*pair) if pair else NONE for pair in published),
                _best_baseline(task),
                accuracy_text(task, LOOPED),
                accuracy_text(task, LAYERED),
                gap_text(judged.comparison) if judged else NONE,
                verdict_badge(judged.verdict) if judged else Badge("not compared", "open"),
            )
        )
    return Table(
        "EqProp and backprop, published and here",
        (
            "Task",
            "Backprop,\npublished",
            "EqProp,\npublished",
            "Backprop here\n(best)",
            "EqProp here\n(looped)",
            "EqProp here\n(layered)",
            "Gap\n(95 % CI)",
            "Verdict",
        ),
        tuple(rows),
        caption="Percent of the test part, mean ± standard deviation over seeds. The gap is EqProp "
        "looped minus the best backprop baseline, in percentage points, paired by seed. BPTT is "
        "backprop on the same looped network, MLP a feed-forward network.",
    )


def goals_table(summary: ParitySummary) -> Table | None:
    """Say of each goal whether it was reached; `None` if no task has one."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        if task.name not in REFERENCES:
            continue
        reference = REFERENCES[task.name]
        judged = task.judgements.get(LOOPED)
        looped = task.results.get(LOOPED)
        rows.append(
            (
                task.title,
                f"at least {percent(reference.goal)}",
                percent(looped.mean) if looped else NONE,
                goal_badge(task.accuracy_goal),
                f"within ±{percent(reference.margin)}",
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
            "EqProp\nlooped",
            "Reached?",
            "Goal for\nthe gap",
            "Gap",
            "Met?",
        ),
        tuple(rows),
        caption="A goal is about the mean over seeds, the verdict about what the seeds can show. "
        "A task where a contestant is at chance misses its gap goal.",
    )


def statistics_table(summary: ParitySummary) -> Table:
    """List every test: both EqProp networks, p-values before and after Holm's correction."""
    rows: list[tuple[Cell, ...]] = []
    for task in summary.tasks:
        rows += [
            _test_row(task.title, name, task.baseline or NONE, task.judgements[name])
            for name in EQPROP
            if name in task.judgements
        ]
        if task.same_network is not None and task.baseline != BPTT:
            rows.append(_test_row(task.title, LOOPED, BPTT, task.same_network))
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
        caption="p-values before and, in brackets, after Holm's correction over the tasks, for "
        "each pair of contestants apart; looped against BPTT is the same network with another "
        "gradient. Equivalence: two one-sided paired t-tests against the margin. "
        "Difference: two-sided paired t-test. Chance: exact binomial test against the majority "
        "class, worst run of both contestants.",
        text_columns=3,
    )


def controls_table(summary: ParitySummary) -> Table:
    """Put EqProp beside the same network with a part of the learning taken away."""
    rows = tuple(
        (
            task.title,
            accuracy_text(task, LOOPED),
            *(_control_text(task, name) for name in CONTROLS),
            percent(task.majority_rate),
        )
        for task in summary.tasks
    )
    return Table(
        "EqProp with a part of its learning taken away",
        ("Task", TITLES[LOOPED], *(TITLES[name] for name in CONTROLS), "Majority class"),
        rows,
        caption="Percent, mean ± standard deviation; in brackets the difference to EqProp looped "
        "in percentage points, over the seeds that both have. A control that scores like EqProp "
        "shows that the task does not need what it lacks.",
    )


def accuracy_text(task: TaskSummary, name: str) -> str:
    """Return mean and deviation of a contestant, or that it did not run."""
    result = task.results.get(name)
    return percent(result.mean, result.std) if result else "not run"


def gap_text(case: PairedComparison) -> str:
    """Return a gap with its interval, which a single seed does not have."""
    if case.seeds == 1:
        return f"{points(case.difference)}\n(1 seed)"
    return points_between(case.difference, case.interval)


def verdict_badge(verdict: Verdict) -> Badge:
    """Return a verdict, with its remark on a line of its own."""
    return Badge(verdict.replace(" (", "\n("), TONES[verdict])


def goal_badge(reached: bool | None) -> Badge:
    """Return how a goal ended."""
    if reached is None:
        return Badge("not measured", "open")
    return Badge("reached", "good") if reached else Badge("missed", "bad")


def _test_row(title: str, name: str, baseline: str, judged: Judgement) -> tuple[Cell, ...]:
    case = judged.comparison
    return (
        title,
        SHORT[name],
        SHORT.get(baseline, baseline),
        str(case.seeds),
        gap_text(case),
        f"±{percent(case.margin)}",
        _before_after(case.p_equivalence, judged.p_equivalence),
        _before_after(case.p_difference, judged.p_difference),
        _before_after(case.p_chance, judged.p_chance),
        verdict_badge(judged.verdict),
    )


def _best_baseline(task: TaskSummary) -> str:
    if task.baseline is None:
        return "not run"
    return f"{accuracy_text(task, task.baseline)}\n({SHORT.get(task.baseline, task.baseline)})"


def _control_text(task: TaskSummary, name: str) -> str:
    text = accuracy_text(task, name)
    if name in task.results and LOOPED in task.results:
        control, eqprop = task.results[name].accuracies, task.results[LOOPED].accuracies
        shared = [control[seed] - eqprop[seed] for seed in control if seed in eqprop]
        if shared:
            text += f"\n({points(sum(shared) / len(shared))})"
    return text


def _before_after(before: float, after: float) -> str:
    return f"{probability(before)}\n({probability(after)})"
