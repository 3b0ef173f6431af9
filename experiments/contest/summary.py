"""What the runs of a contest show, task by task: scores, comparisons, goals and returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from experiments.contest.data_facts import DATA
from experiments.contest.metrics import R2
from experiments.contest.roster import Roster, TaskGoal
from experiments.contest.runs import (
    Runs,
    TaskRuns,
    arrange_runs,
    list_seeds,
    name_missing,
    task_metric,
)
from experiments.records import Record
from experiments.statistics import (
    CONFIDENCE,
    ROUNDING,
    Judgement,
    PairedComparison,
    Verdict,
    compare,
    compare_r2,
    judge,
)


@dataclass(frozen=True)
class Result:
    """One contestant on one task: scores by seed, as fractions, and how they came about.

    `std` is NaN and `interval` (95 %, Student's t) is missing for a single seed. `settings` has
    all values that occurred for each name, so one value unless runs of different settings mix.
    """

    accuracies: dict[int, float]
    mean: float
    std: float
    interval: tuple[float, float] | None
    parameters: tuple[int, ...]
    settings: dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Returns:
    """Sums of rewards of a policy over all episodes of all seeds."""

    mean: float
    median: float
    std: float
    episodes: int


@dataclass(frozen=True)
class TaskSummary:
    """One task. `judgements` compares each EqProp network with `baseline`, where both ran.

    `same_network` compares EqProp with backprop on the very same network: only the gradient
    differs. `chosen_on` says which part of the data chose the baseline, where there was a choice.
    A goal is `None` if it does not exist or was not measured. `returns` has the clones by
    contestant, `expert` and `random`.
    """

    name: str
    title: str
    metric: str
    n_test: tuple[int, ...]
    majority_rate: float
    results: dict[str, Result]
    baseline: str | None
    chosen_on: str | None
    judgements: dict[str, Judgement]
    same_network: Judgement | None
    accuracy_goal: bool | None
    gap_goal: bool | None
    returns: dict[str, Returns]
    data: dict[str, Any] = field(default_factory=dict)
    """What the runs say of their data (`experiments.contest.data_facts`)."""


@dataclass(frozen=True)
class ContestSummary:
    """All tasks in the order of the registry, then a user's own, and what was not run."""

    tasks: tuple[TaskSummary, ...]
    seeds: tuple[int, ...]
    missing: tuple[str, ...]
    looks: int = 1
    """How often the results could have been looked at, for which every test is corrected."""


def summarise(
    roster: Roster, records: Iterable[Record], best_baseline: Mapping[str, str], looks: int = 1
) -> ContestSummary:
    """Summarise finished runs; `best_baseline` names the one that validation chose for a task.

    `looks` says how often the results could have been looked at before seeds were added.

    Where it names none that ran, and the contest has no rival of its own, the baseline with the
    higher mean on the test part stands in: a choice in hindsight, which can only flatter it.
    """
    runs = arrange_runs(roster, records)
    baselines = {task: _pick_baseline(roster, best_baseline.get(task), runs[task]) for task in runs}
    judgements = {
        name: _judge_network(roster, name, runs, baselines, looks) for name in roster.eqprop
    }
    twin = roster.same_network
    with_twin = {task: twin for task in runs if twin in runs[task]}
    twins = _judge_network(roster, roster.main, runs, with_twin, looks)
    tasks = tuple(
        _summarise_task(
            roster,
            task,
            runs[task],
            baselines[task],
            _part_that_chose(roster, baselines[task], best_baseline.get(task)),
            {name: judged[task] for name, judged in judgements.items() if task in judged},
            twins.get(task),
        )
        for task in runs
    )
    missing = name_missing(roster, runs, baselines, looks)
    return ContestSummary(tasks, list_seeds(runs), missing, looks)


def _pick_baseline(roster: Roster, chosen: str | None, task: TaskRuns) -> str | None:
    if roster.rival is not None:
        return roster.rival if roster.rival in task else None
    if chosen in task:
        return chosen
    there = [name for name in roster.baselines if name in task]
    return max(
        there,
        key=lambda name: float(np.mean([run.accuracy for run in task[name].values()])),
        default=None,
    )


def _part_that_chose(roster: Roster, baseline: str | None, chosen: str | None) -> str | None:
    if baseline is None or roster.rival is not None:
        return None
    return "validation" if baseline == chosen else "test"


def _judge_network(
    roster: Roster, name: str, runs: Runs, baselines: Mapping[str, str | None], looks: int
) -> dict[str, Judgement]:
    comparisons = {}
    for task, contestants in runs.items():
        baseline = baselines.get(task)
        if baseline is not None and name in contestants:
            margin = roster.margin_of(task, task_metric(contestants))
            comparison = _compare(contestants[name], contestants[baseline], margin, looks)
            if comparison is not None:
                comparisons[task] = comparison
    return judge(comparisons, looks=looks)


def _compare(
    eqprop: dict[int, Record], baseline: dict[int, Record], margin: float, looks: int
) -> PairedComparison | None:
    seeds = [seed for seed in eqprop if seed in baseline]
    if not seeds:
        return None
    both = [eqprop[seed] for seed in seeds], [baseline[seed] for seed in seeds]
    first, second = ([record.accuracy for record in records] for records in both)
    n_test = [record.n_test for record in both[0]]
    if both[0][0].metric == R2.name:
        chances = [[record.p_chance or 0.0 for record in records] for records in both]
        p_chance = chances[0], chances[1]
        return compare_r2(
            first, second, n_test=n_test, p_chance=p_chance, margin=margin, looks=looks
        )
    rates = [record.majority_rate for record in both[0]]
    return compare(first, second, n_test=n_test, majority_rate=rates, margin=margin, looks=looks)


def _summarise_task(
    roster: Roster,
    task: str,
    contestants: TaskRuns,
    baseline: str | None,
    chosen_on: str | None,
    judgements: dict[str, Judgement],
    same_network: Judgement | None,
) -> TaskSummary:
    records = [record for by_seed in contestants.values() for record in by_seed.values()]
    results = {name: _summarise_runs(list(by.values())) for name, by in contestants.items()}
    accuracy_goal, gap_goal = _goals_reached(
        roster.goals.get(task), results.get(roster.main), judgements.get(roster.main)
    )
    return TaskSummary(
        name=task,
        title=records[0].title,
        metric=task_metric(contestants).name,
        n_test=tuple(sorted({record.n_test for record in records})),
        majority_rate=float(np.mean([record.majority_rate for record in records])),
        results=results,
        baseline=baseline,
        chosen_on=chosen_on,
        judgements=judgements,
        same_network=same_network,
        accuracy_goal=accuracy_goal,
        gap_goal=gap_goal,
        returns=_summarise_returns(roster, contestants),
        data=records[0].measures.get(DATA, {}),
    )


def _goals_reached(
    goal: TaskGoal | None, result: Result | None, judged: Judgement | None
) -> tuple[bool | None, bool | None]:
    """Say whether accuracy and gap are what they should be; `None` where nobody can."""
    accuracy = gap = None
    if goal is not None and goal.accuracy is not None and result is not None:
        accuracy = result.mean >= goal.accuracy - ROUNDING
    if goal is not None and judged is not None:
        # Two networks at chance have no gap either: that is not what the goal means.
        close = abs(judged.comparison.difference) <= goal.margin + ROUNDING
        gap = close and judged.verdict is not Verdict.AT_CHANCE
    return accuracy, gap


def _summarise_runs(records: Sequence[Record]) -> Result:
    values = np.array([record.accuracy for record in records])
    mean, std, interval = float(values.mean()), float("nan"), None
    if len(values) > 1:
        std = float(values.std(ddof=1))
        reach = std / len(values) ** 0.5 * float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
        interval = (mean - reach, mean + reach)
    names = dict.fromkeys(name for record in records for name in record.settings)
    return Result(
        accuracies={record.seed: record.accuracy for record in records},
        mean=mean,
        std=std,
        interval=interval,
        parameters=tuple(sorted({record.parameters for record in records})),
        settings={
            # Compared as text, since a setting may be a list.
            name: tuple({str(r.settings.get(name)): r.settings.get(name) for r in records}.values())
            for name in names
        },
    )


def _summarise_returns(roster: Roster, contestants: TaskRuns) -> dict[str, Returns]:
    played: dict[str, dict[int, list[float]]] = {}
    for name in roster.contestants:
        for seed, record in contestants.get(name, {}).items():
            for policy, totals in (record.returns or {}).items():
                # Expert and random play from the same states for every contestant: count once.
                owner = name if policy == "clone" else policy
                if totals:
                    played.setdefault(owner, {}).setdefault(seed, totals)
    return {owner: _pool(by_seed) for owner, by_seed in played.items()}


def _pool(by_seed: Mapping[int, Sequence[float]]) -> Returns:
    totals = np.concatenate([np.asarray(played, dtype=np.float64) for played in by_seed.values()])
    std = float(totals.std(ddof=1)) if len(totals) > 1 else float("nan")
    return Returns(float(totals.mean()), float(np.median(totals)), std, len(totals))
