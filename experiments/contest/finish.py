"""Do what is not done yet: runs of earlier calls are kept, the others are run and saved."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from joblib import cpu_count
from rich.console import Console

from experiments.contest.jobs import AnyJob, run_jobs
from experiments.contest.live_table import LiveTable
from experiments.contest.weights import are_saved
from experiments.output import prepare_output
from experiments.records import Record, load_record, save_record

NETWORKS = "networks"
"""The folder of the networks that are kept, inside that of the output."""
KEPT = "Finished runs are kept; the same command goes on from here."
"""What an untimely end leaves behind."""


@dataclass(frozen=True)
class Crew:
    """How jobs are done; `prepare` is called once before several processes want the same."""

    out: Path
    workers: int
    fresh: bool
    console: Console
    prepare: Callable[[], None]
    scheduler: str | None = None


def keeping(job: AnyJob, options: argparse.Namespace) -> AnyJob:
    """Return a job that keeps its network in the folder of the output, if that is asked for."""
    if not options.save_weights:
        return job
    path = (options.out / NETWORKS / f"{job.key}.npz").absolute()  # for workers elsewhere
    return replace(job, weights=path)  # type: ignore[type-var]


def say_networks(options: argparse.Namespace, console: Console) -> None:
    """Say where the networks are, if they were kept."""
    if options.save_weights:
        console.print(f"The networks: {options.out / NETWORKS}", soft_wrap=True)


def workers_for(options: argparse.Namespace) -> int:
    """Return how many runs go at once: one on a device that all would share."""
    shared = options.device in ("cuda", "mps")
    return options.workers or (1 if shared else cpu_count())


def finish(jobs: Sequence[AnyJob], folder: Path, crew: Crew) -> list[Record]:
    """Return the record of every job, from an earlier call or from a run now."""
    kept: dict[str, Record] = {}
    for job in jobs:
        record = None if crew.fresh else load_record(folder / f"{job.key}.json")
        same = record is not None and record.settings == job.settings.as_dict()
        if record is not None and same and are_saved(job):
            kept[job.key] = record
    if kept:
        crew.console.print(
            f"{len(kept)} of {len(jobs)} runs were done before; --fresh repeats them."
        )
    todo = [job for job in jobs if job.key not in kept]
    networks = {job.weights.parent for job in jobs if job.weights is not None}
    _check_places(jobs, folder, crew.out / "live", *networks)
    for job, record in _run(todo, len(jobs), crew):
        save_record(folder / f"{job.key}.json", record)
        kept[job.key] = record
    return [kept[job.key] for job in jobs]


def _check_places(jobs: Sequence[AnyJob], *folders: Path) -> None:
    """Refuse folders that cannot hold the files of the jobs; a task may have a long name."""
    longest = max((job.key for job in jobs), key=lambda key: len(key.encode()), default="run")
    for folder in folders:
        prepare_output(folder, f"{longest}.json")


def _run(todo: Sequence[AnyJob], total: int, crew: Crew) -> Iterator[tuple[AnyJob, Record]]:
    if not todo:
        return
    said = Console(stderr=True, markup=False, highlight=False)
    for job in {job.task.name: job for job in todo}.values():
        job.task.load(job.seed)  # a download, or a complaint, happens once and here
        if job.task.note:
            said.print(job.task.note, soft_wrap=True)
    crew.prepare()
    live = crew.out / "live"
    _clear(live)
    table = LiveTable(crew.console, live, total, total - len(todo))
    try:
        with (
            table.shown() as count,
            closing(run_jobs(todo, live, crew.workers, crew.scheduler)) as pairs,
        ):
            for job, record in pairs:
                count(job)
                yield job, record
    finally:
        _clear(live)


def _clear(live: Path) -> None:
    """Remove the notes of runs that are not under way, and their folder."""
    for note in live.glob("*.json"):
        note.unlink(missing_ok=True)
    with suppress(OSError):  # it is not there, or holds what is none of ours
        live.rmdir()
