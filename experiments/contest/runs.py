"""The runs of a contest in the order of its report, and which of them are missing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from experiments.contest.metrics import METRICS, Metric
from experiments.contest.roster import Roster
from experiments.records import Record

TaskRuns: TypeAlias = dict[str, dict[int, Record]]
"""Records of one task by contestant and seed."""

Runs: TypeAlias = dict[str, TaskRuns]
"""Records by task, contestant and seed, in the order of the report."""


def arrange_runs(roster: Roster, records: Iterable[Record]) -> Runs:
    """Sort records by task, contestant and seed, whatever order they finished in."""
    found = {(record.task, record.contestant, record.seed): record for record in records}
    tasks, names = list(roster.tasks), list(roster.titles)

    def rank(key: tuple[str, str, int]) -> tuple[int, str, int, str, int]:
        task, name, seed = key
        first = tasks.index(task) if task in tasks else len(tasks)
        return first, task, names.index(name) if name in names else len(names), name, seed

    runs: Runs = {}
    for task, name, seed in sorted(found, key=rank):
        runs.setdefault(task, {}).setdefault(name, {})[seed] = found[task, name, seed]
    return runs


def list_records(runs: Runs) -> list[Record]:
    """Return all records in the order of the report."""
    return [record for task in runs.values() for by in task.values() for record in by.values()]


def list_seeds(runs: Runs) -> tuple[int, ...]:
    """Return every seed that some run used, in order."""
    return tuple(sorted({seed for task in runs.values() for by in task.values() for seed in by}))


def task_title(contestants: TaskRuns) -> str:
    """Return the title that the records of a task carry."""
    return next(record.title for by_seed in contestants.values() for record in by_seed.values())


def task_metric(contestants: TaskRuns) -> Metric:
    """Return what the runs of a task are scored by."""
    return METRICS[next(r.metric for by_seed in contestants.values() for r in by_seed.values())]


def name_missing(
    roster: Roster, runs: Runs, baselines: Mapping[str, str | None], looks: int = 1
) -> tuple[str, ...]:
    """Say in sentences which tasks, contestants, seeds and comparisons are not there.

    Of several looks, seeds are added for contestants alone: controls have those of the first.
    """
    if not runs:
        return ("No run has finished.",)
    absent = [task for task in roster.goals if task not in runs]
    sentences = []
    if absent and len(absent) < len(roster.goals):  # a user's own data is the whole report
        titles = ", ".join(roster.tasks[task] for task in absent)
        sentences.append(f"Tasks that were not run: {titles}.")
    nowhere = [name for name in roster.titles if not any(name in task for task in runs.values())]
    expected = [name for name in nowhere if name not in roster.optional]
    if expected:
        sentences.append(f"Contestants that were not run: {_titles(roster, expected)}.")
    for task, contestants in runs.items():
        counted = contestants
        if looks > 1:
            counted = {n: seeds for n, seeds in contestants.items() if n in roster.contestants}
        sentences += _missing_runs(roster, contestants, counted, nowhere)
        sentences += _missing_comparisons(roster, contestants, baselines[task])
    return tuple(sentences)


def _missing_runs(
    roster: Roster, contestants: TaskRuns, counted: TaskRuns, nowhere: list[str]
) -> Iterator[str]:
    title, seeds = task_title(contestants), list_seeds({"": contestants})
    absent = [name for name in roster.titles if name not in contestants and name not in nowhere]
    if absent:
        yield f"{title}: no run of {_titles(roster, absent)}."
    lacking: dict[tuple[int, ...], list[str]] = {}
    for name, by_seed in counted.items():
        lacking.setdefault(tuple(s for s in seeds if s not in by_seed), []).append(name)
    for gaps, names in lacking.items():
        if gaps:
            word = "seed" if len(gaps) == 1 else "seeds"
            yield f"{title}: {word} {', '.join(map(str, gaps))} of {_titles(roster, names)}."


def _missing_comparisons(
    roster: Roster, contestants: TaskRuns, baseline: str | None
) -> Iterator[str]:
    title = task_title(contestants)
    if baseline is None:
        yield f"{title}: no backprop baseline ran, so nothing is compared."
        return
    for name in roster.eqprop:
        if name in contestants and not contestants[name].keys() & contestants[baseline].keys():
            yield f"{title}: {roster.titles[name]} is not compared, for lack of a seed in common."


def _titles(roster: Roster, names: Iterable[str]) -> str:
    return ", ".join(roster.titles.get(name, name) for name in names)
