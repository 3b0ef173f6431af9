"""Many jobs at once: on the cores of this machine, or on a Dask cluster, through joblib."""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Thread
from typing import TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

Job = TypeVar("Job")
Result = TypeVar("Result")

WATCH_SECONDS = 0.5
"""How often a worker looks whether its parent is still there."""


class PoolError(RuntimeError):
    """Workers that cannot be used, as one sentence."""


class WorkerLostError(PoolError):
    """A worker that died in the middle of the work, as one sentence."""


def as_finished(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    scheduler: str | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yield the number of each job with its result as soon as there is one, in any order.

    Every worker has one thread, and ends when this process does, be it by SIGKILL. One worker is
    this process itself. With `scheduler`, the address of a Dask cluster, its workers do the jobs.
    """
    parent = os.getpid() if scheduler is None else None
    calls = (delayed(_do)(number, work, job, parent) for number, job in enumerate(jobs))
    with _workers(workers, scheduler) as parallel:
        results = parallel(calls)
        try:
            yield from results
        except TerminatedWorkerError as error:
            raise WorkerLostError(
                f"a worker process died ({_exit_of(error)}), often for want of memory: "
                "try fewer --workers."
            ) from None
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # jobs that are given up on purpose
                results.close()


def _do(
    number: int, work: Callable[[Job], Result], job: Job, parent: int | None
) -> tuple[int, Result]:
    if parent is not None and parent != os.getpid():
        watch_parent(parent)
    return number, work(job)


@cache
def watch_parent(parent: int) -> None:
    """End this process soon after its parent, whose number is `parent`, is gone.

    A parent that is killed cannot tell its children; on POSIX they then get another one.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os._exit(1)  # from a thread, and in the middle of whatever the others do

    Thread(target=watch, daemon=True).start()


@contextmanager
def _workers(count: int, scheduler: str | None) -> Iterator[Parallel]:
    if scheduler is None:
        with parallel_config("loky", n_jobs=count, inner_max_num_threads=1):
            parallel = _parallel()
        yield parallel
        return
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise PoolError('a scheduler needs Dask: pip install "settle[cluster]".') from None
    try:
        client = Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise PoolError(f"no Dask scheduler answers at {scheduler} ({error}).") from None
    with client:
        with parallel_config("dask", n_jobs=-1):
            parallel = _parallel()
        try:
            yield parallel
        except KilledWorker:
            raise WorkerLostError(f"workers of {scheduler} died of the same run.") from None


def _parallel() -> Parallel:
    return Parallel(return_as="generator_unordered", batch_size=1)


def _exit_of(error: TerminatedWorkerError) -> str:
    """Return how the worker ended, such as SIGKILL, from the text that has it."""
    codes = re.search(r"\{(\w+)", str(error))
    return codes[1] if codes else "it gave no reason"
