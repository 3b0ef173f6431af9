"""Who takes part in the parity experiment, their runs in the order of the report, and the gaps."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from experiments.parity.goals import REFERENCES
from experiments.records import Record
from experiments.tasks import TASKS

LOOPED, LAYERED = "eqprop_looped", "eqprop_layered"
EQPROP = (LOOPED, LAYERED)
BPTT = "backprop_looped"
BASELINES = (BPTT, "backprop_feedforward")
CONTESTANTS = EQPROP + BASELINES
CONTROLS = ("no_recurrence", "frozen_recurrence", "readout_only", "flipped_sign")
TITLES = {
    "eqprop_looped": "EqProp looped",
    "eqprop_layered": "EqProp layered",
    "backprop_looped": "Backprop looped (BPTT)",
    "backprop_feedforward": "Backprop feed-forward",
    "no_recurrence": "W_rec = 0",
    "frozen_recurrence": "W_rec frozen",
    "readout_only": "Read-out only",
    "flipped_sign": "Sign flipped",
}

TaskRuns: TypeAlias = dict[str, dict[int, Record]]
"""Records of one task by contestant and seed."""

Runs: TypeAlias = dict[str, TaskRuns]
"""Records by task, contestant and seed, in the order of the report."""


def arrange_runs(records: Iterable[Record]) -> Runs:
    """Sort records by task, contestant and seed, whatever order they finished in."""
    found = {(record.task, record.contestant, record.seed): record for record in records}
    tasks, names = list(TASKS), list(TITLES)

    def rank(key: tuple[str, str, int]) -> tuple[int, str, int, str, int]:
        task, name, seed = key
        first = tasks.index(task) if task in tasks else len(tasks)
        return first, task, names.index(name) if name in names else len(names), name, seed

    runs: Runs = {}
    for task, name, seed in sorted(found, key=rank):
        runs.setdefault(task, {}).setdefault(name, {})[seed] = found[task, name, seed]
    return runs


def list_seeds(runs: Runs) -> tuple[int, ...]:
    """Return every seed that some run used, in order."""
    return tuple(sorted({seed for task in runs.values() for by in task.values() for seed in by}))


def task_title(contestants: TaskRuns) -> str:
    """Return the title that the records of a task carry."""
    return next(record.title for by_seed in contestants.values() for record in by_seed.values())


def name_missing(runs: Runs, baselines: Mapping[str, str | None]) -> tuple[str, ...]:
    """Say in sentences which tasks, contestants, seeds and comparisons are not there."""
    if not runs:
        return ("No run has finished.",)
    absent = [task for task in REFERENCES if task not in runs]
    sentences = []
    if absent:
        titles = ", ".join(TASKS[task].title for task in absent)
        sentences.append(f"Tasks that were not run: {titles}.")
    nowhere = [name for name in TITLES if not any(name in task for task in runs.values())]
    if nowhere:
        sentences.append(f"Contestants that were not run: {_titles(nowhere)}.")
    for task, contestants in runs.items():
        sentences += _missing_runs(contestants, nowhere, list_seeds(runs))
        sentences += _missing_comparisons(contestants, baselines[task])
    return tuple(sentences)


def _missing_runs(
    contestants: TaskRuns, nowhere: list[str], seeds: tuple[int, ...]
) -> Iterator[str]:
    title = task_title(contestants)
    absent = [name for name in TITLES if name not in contestants and name not in nowhere]
    if absent:
        yield f"{title}: no run of {_titles(absent)}."
    lacking: dict[tuple[int, ...], list[str]] = {}
    for name, by_seed in contestants.items():
        lacking.setdefault(tuple(s for s in seeds if s not in by_seed), []).append(name)
    for gaps, names in lacking.items():
        if gaps:
            word = "seed" if len(gaps) == 1 else "seeds"
            yield f"{title}: {word} {', '.join(map(str, gaps))} of {_titles(names)}."


def _missing_comparisons(contestants: TaskRuns, baseline: str | None) -> Iterator[str]:
    title = task_title(contestants)
    if baseline is None:
        yield f"{title}: no backprop baseline ran, so nothing is compared."
        return
    for name in EQPROP:
        if name in contestants and not contestants[name].keys() & contestants[baseline].keys():
            yield f"{title}: {TITLES[name]} is not compared, for lack of a seed in common."


def _titles(names: Iterable[str]) -> str:
    return ", ".join(TITLES.get(name, name) for name in names)
