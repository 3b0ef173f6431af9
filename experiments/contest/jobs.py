"""Trainings as jobs: what all of them can say of themselves, and how many run at once."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from experiments.contest.metrics import R2
from experiments.pool import as_finished
from experiments.records import EpochPoint, Record, write_text
from experiments.tasks import Task

Watch: TypeAlias = Callable[[EpochPoint], None]
"""Is told of every epoch of a run."""


class JobSettings(Protocol):
    """Everything that a run depends on, apart from task, contestant and seed."""

    @property
    def epochs(self) -> int:
        """How often a run passes over its data."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, as JSON gives them back."""


class TrainingJob(Protocol):
    """One training to do: it runs in any process that it is pickled to."""

    @property
    def task(self) -> Task:
        """What is to be learned."""

    @property
    def contestant(self) -> str:
        """Who learns it."""

    @property
    def seed(self) -> int:
        """Of the split, the initial weights and the order of the batches."""

    @property
    def settings(self) -> JobSettings:
        """How it is learned."""

    @property
    def label(self) -> str:
        """What tells the points of a grid apart."""

    @property
    def weights(self) -> Path | None:
        """Where its network is to be kept, if it is."""

    @property
    def key(self) -> str:
        """Name of the run, unique within an experiment."""

    def check(self) -> None:
        """Refuse settings that no network or training can have."""

    def run(self, watch: Watch | None = None) -> Record:
        """Train, measure, and return what was found."""


AnyJob = TypeVar("AnyJob", bound=TrainingJob)


def run_jobs(
    jobs: Sequence[AnyJob], live: Path, workers: int, scheduler: str | None = None
) -> Generator[tuple[AnyJob, Record], None, None]:
    """Yield each job with its record as soon as it is done, in any order.

    Each run is single threaded and seeded, so the records do not depend on the workers. Workers
    that share the file system with this process note their progress in the folder `live`.
    """
    for number, record in as_finished(partial(_run, live), jobs, workers, scheduler):
        yield jobs[number], record


def _run(live: Path, job: TrainingJob) -> Record:
    note = live / f"{job.key}.json"

    def watch(point: EpochPoint) -> None:
        state: dict[str, Any] = {
            "epoch": point.epoch,
            "accuracy": point.accuracy,
            "of": job.settings.epochs,
        }
        if job.task.continuous:
            state["metric"] = R2.name
        with suppress(OSError):  # a worker elsewhere may have no such folder
            write_text(note, json.dumps(state))

    record = job.run(watch)
    with suppress(OSError):
        note.unlink()
    return record
