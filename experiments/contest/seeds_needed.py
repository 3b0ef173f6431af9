"""What a report says of seeds: which there were, and how many would decide what they did not."""

from collections.abc import Iterable

from experiments.contest.metrics import METRICS
from experiments.contest.roster import Roster
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.planning import MOST_SEEDS, POWER, plan_seeds
from experiments.statistics import SIGNIFICANCE, PairedComparison, Verdict


def seed_sentences(roster: Roster, summary: ContestSummary) -> list[str]:
    """Say which seeds ran, and of each undecided task how many would decide it."""
    sentences = [_seeds_sentence(summary)]
    if summary.looks > 1:
        sentences.append(
            f"Seeds were added while a verdict was open, with at most {summary.looks} looks: every "
            f"p-value is multiplied by {summary.looks}, and intervals are as wide as that asks for."
        )
    compared = [task for task in summary.tasks if roster.main in task.judgements]
    level = SIGNIFICANCE / summary.looks / max(1, len(compared))
    undecided = [t for t in compared if t.judgements[roster.main].verdict is Verdict.UNDECIDED]
    sentences += [_needed(t, t.judgements[roster.main].comparison, level) for t in undecided]
    if any(task.judgements[roster.main].comparison.seeds > 1 for task in undecided):
        corrected = " after correction" if level < SIGNIFICANCE else ""
        sentences.append(
            f"Seeds are counted in all, for a probability of {POWER:.0%} and tests at "
            f"{SIGNIFICANCE:.0%}{corrected}, if gap and spread stay as measured; few seeds "
            "measure the spread badly."
        )
    return sentences


def _needed(task: TaskSummary, case: PairedComparison, level: float) -> str:
    plan, metric = plan_seeds(case, level), METRICS[task.metric]
    if plan is None:
        return f"{task.title}: a second seed is needed to know a spread."
    spread = metric.text(case.spread)
    measured = f"a gap of {metric.difference(case.difference)} with a spread of {spread}"
    margin = f"±{metric.text(case.margin)}"
    if plan.equivalence is not None:
        within = f"within {margin} by {plan.equivalence:,} seeds"
    elif abs(case.difference) < case.margin:
        within = f"within {margin} by more than {MOST_SEEDS:,} seeds"
    else:
        within = f"within {margin} by no number of seeds"
    apart = f"more than {MOST_SEEDS:,}" if plan.difference is None else f"{plan.difference:,}"
    return (
        f"{task.title} would be decided: {measured} is shown to be {within}, to differ from zero "
        f"by {apart}."
    )


def _seeds_sentence(summary: ContestSummary) -> str:
    by_task = {task.title: _seeds_of(task) for task in summary.tasks}
    spans = {title: span_text(seeds) for title, seeds in by_task.items()}
    if len(set(spans.values())) <= 1:
        return f"Seeds: {span_text(summary.seeds)}."
    return f"Seeds: {'; '.join(f'{span} on {title}' for title, span in spans.items())}."


def _seeds_of(task: TaskSummary) -> list[int]:
    return sorted({seed for result in task.results.values() for seed in result.accuracies})


def span_text(seeds: Iterable[int]) -> str:
    """Return seeds as `42 to 51`, or one by one where some are left out or they are few."""
    listed = sorted(seeds)
    if len(listed) > 3 and listed[-1] - listed[0] == len(listed) - 1:
        return f"{listed[0]} to {listed[-1]}"
    return ", ".join(map(str, listed))
