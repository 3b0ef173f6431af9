"""How many seeds: so many, or more while a verdict is open, up to a limit."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console

from experiments.contest.choices import SeedCount
from experiments.contest.jobs import AnyJob
from experiments.contest.seeds_needed import span_text
from experiments.contest.summary import ContestSummary
from experiments.options import FIRST_SEED
from experiments.records import Record
from experiments.statistics import Verdict, planned_looks

Look = Mapping[str, int]
"""How many seeds each task has had by then."""


def looks_at(options: argparse.Namespace, usual: Mapping[str, int]) -> list[Look]:
    """Return when results are looked at: once, or each time that `--seeds auto` may add some.

    `usual` is how many seeds each task has if nothing is said.
    """
    asked: SeedCount | None = options.seeds
    if asked is None:
        return [usual]
    if not asked.until_decided:
        return [dict.fromkeys(usual, asked.most)]
    return [dict.fromkeys(usual, count) for count in planned_looks(asked.most)]


def run_looks(
    looks: Sequence[Look],
    jobs_of: Callable[[str, range, bool], list[AnyJob]],
    finish: Callable[[list[AnyJob]], list[Record]],
    summarise: Callable[[list[Record]], ContestSummary],
    main: str,
    console: Console,
) -> list[Record]:
    """Return the records of every run that is done until all verdicts on `main` are there.

    `jobs_of` takes a task, seeds, and whether they are the first of it. Tasks that are decided get
    no more seeds, but are judged again with the others.
    """
    records: list[Record] = []
    ran, open_tasks = dict.fromkeys(looks[0], 0), list(looks[0])
    for number, counts in enumerate(looks, start=1):
        jobs: list[AnyJob] = []
        for task in open_tasks:
            seeds = range(FIRST_SEED + ran[task], FIRST_SEED + counts[task])
            jobs += jobs_of(task, seeds, ran[task] == 0)
            ran[task] = counts[task]
        records += finish(sorted(jobs, key=lambda job: job.seed))
        if number == len(looks):
            break
        summary = summarise(records)
        open_tasks = _open(summary, main)
        if not open_tasks:
            break
        _tell(summary, open_tasks, looks, number, console)
    return records


def _open(summary: ContestSummary, main: str) -> list[str]:
    """Return the tasks on which the verdict is open."""
    return [
        task.name
        for task in summary.tasks
        if main in task.judgements and task.judgements[main].verdict is Verdict.UNDECIDED
    ]


def _tell(
    summary: ContestSummary,
    open_tasks: Sequence[str],
    looks: Sequence[Look],
    number: int,
    console: Console,
) -> None:
    titles = {task.name: task.title for task in summary.tasks}
    first = FIRST_SEED + looks[number - 1][open_tasks[0]]
    added = span_text(range(first, FIRST_SEED + looks[number][open_tasks[0]]))
    console.print(
        f"Look {number} of at most {len(looks)}: undecided on "
        f"{', '.join(titles[name] for name in open_tasks)}; seeds {added} are added.",
        soft_wrap=True,
    )
