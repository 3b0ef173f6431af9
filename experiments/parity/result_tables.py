"""The tables that only the parity report has: headline, controls, returns of the policies."""

from experiments.contest.metrics import ACCURACY, METRICS, R2
from experiments.contest.result_tables import accuracy_text, gap_text, verdict_badge
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.parity.goals import REFERENCES
from experiments.parity.roster import CONTESTANTS, CONTROLS, LAYERED, LOOPED, SHORT, TITLES
from experiments.reporting.document import Badge, Cell, Table
from experiments.reporting.number_text import NONE, number, percent


def headline_table(summary: ContestSummary) -> Table:
    """Put what was published beside what was measured here, task by task."""
    rows: list[tuple[Cell, ...]] = []
    has_published = any(task.name in REFERENCES for task in summary.tasks)
    for task in summary.tasks:
        judged = task.judgements.get(LOOPED)
        rows.append(
            (
                task.title,
                *(_published(task.name) if has_published else ()),
                _best_baseline(task),
                accuracy_text(task, LOOPED),
                accuracy_text(task, LAYERED),
                gap_text(judged.comparison, METRICS[task.metric]) if judged else NONE,
                verdict_badge(judged.verdict) if judged else Badge("not compared", "open"),
            )
        )
    published = ("Backprop,\npublished", "EqProp,\npublished") if has_published else ()
    here = " here" if has_published else ""
    return Table(
        "EqProp and backprop, published and here" if has_published else "EqProp and backprop",
        (
            "Task",
            *published,
            f"Backprop{here}\n(best)",
            f"EqProp{here}\n(looped)",
            f"EqProp{here}\n(layered)",
            "Gap\n(95 % CI)",
            "Verdict",
        ),
        tuple(rows),
        caption=f"{_units(summary)}, mean ± standard deviation over seeds. The gap is EqProp "
        f"looped minus the best backprop baseline, {_gap_units(summary)}paired by seed. BPTT is "
        "backprop on the same looped network, MLP a feed-forward network.",
    )


def controls_table(summary: ContestSummary) -> Table | None:
    """Put EqProp beside the same network with a part of the learning taken away.

    `None` if no control ran.
    """
    if not any(name in task.results for task in summary.tasks for name in CONTROLS):
        return None
    rows = tuple(
        (
            task.title,
            accuracy_text(task, LOOPED),
            *(_control_text(task, name) for name in CONTROLS),
            METRICS[task.metric].text(task.majority_rate),
        )
        for task in summary.tasks
    )
    scored = {METRICS[task.metric] for task in summary.tasks}
    return Table(
        "EqProp with a part of its learning taken away",
        (
            "Task",
            TITLES[LOOPED],
            *(TITLES[name] for name in CONTROLS),
            scored.pop().constant if len(scored) == 1 else "Best constant",
        ),
        rows,
        caption=f"{_units(summary)}, mean ± standard deviation; in brackets the difference to "
        f"EqProp looped{', in percentage points' if _counts(summary) else ''}, over the seeds "
        "that both have. A control that scores like EqProp "
        "shows that the task does not need what it lacks.",
    )


def returns_table(summary: ContestSummary) -> Table | None:
    """List what the cloned policies earn, beside expert and random; `None` without any."""
    owners = {name: f"Clone of {TITLES[name]}" for name in CONTESTANTS}
    owners |= {"expert": "Expert", "random": "Random actions"}
    rows = tuple(
        (
            task.title,
            title,
            number(task.returns[owner].mean),
            number(task.returns[owner].median),
            number(task.returns[owner].std),
            str(task.returns[owner].episodes),
        )
        for task in summary.tasks
        for owner, title in owners.items()
        if owner in task.returns
    )
    if not rows:
        return None
    return Table(
        "Return of the cloned policies",
        ("Task", "Policy", "Mean", "Median", "Std", "Episodes"),
        rows,
        caption="Sum of rewards of an episode, over the episodes of all seeds; every policy starts "
        "from the same states, none of which is in the data.",
        text_columns=2,
    )


def _published(task: str) -> tuple[str, str]:
    reference = REFERENCES.get(task)
    return (percent(*reference.backprop), percent(*reference.eqprop)) if reference else (NONE, NONE)


def _counts(summary: ContestSummary) -> bool:
    """Tell whether there are classes, so that scores are percent."""
    return any(task.metric == ACCURACY.name for task in summary.tasks)


def _units(summary: ContestSummary) -> str:
    """Say what the scores are."""
    numbers = [task.title for task in summary.tasks if task.metric == R2.name]
    if not numbers:
        return "Percent of the test part"
    if _counts(summary):
        return f"Percent of the test part, on {', '.join(numbers)} R²"
    return "R² on the test part (1 is perfect, 0 is what the mean has)"


def _gap_units(summary: ContestSummary) -> str:
    return "in percentage points, " if _counts(summary) else ""


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
            text += f"\n({METRICS[task.metric].difference(sum(shared) / len(shared))})"
    return text
