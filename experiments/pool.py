"""Many jobs at once: on the cores of this machine, or on a Dask cluster."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from functools import cache
from itertools import islice
from threading import Thread
from typing import TypeVar

from joblib.externals.loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

Job = TypeVar("Job")
Result = TypeVar("Result")

WATCH_SECONDS = 0.5
"""How often a worker looks whether its parent is still there."""

ONE_THREAD = {
    f"{library}_THREADS": "1"
    for library in ("BLIS_NUM", "MKL_NUM", "NUMBA_NUM", "OMP_NUM", "OPENBLAS_NUM", "VECLIB_MAXIMUM")
}
"""Environment of a worker: there are as many workers as there is room for threads."""


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

    One worker is this process. More are others, each with one thread; they end when the iterator
    does, and when this process does, be it by SIGKILL. With `scheduler`, the address of a Dask
    cluster, the workers of that do the jobs.
    """
    if scheduler is not None:
        with _cluster(scheduler) as executor:
            yield from _finished(executor, work, jobs, len(jobs))
    elif workers > 1:
        with _cores(workers) as executor:
            # One job for each worker and one that it can begin at once: loky stumbles over a
            # longer queue when it is told to stop.
            yield from _finished(executor, work, jobs, 2 * workers)
    else:
        for number, job in enumerate(jobs):
            yield number, work(job)


def _finished(
    executor: Executor, work: Callable[[Job], Result], jobs: Sequence[Job], most: int
) -> Iterator[tuple[int, Result]]:
    """Yield results as they come, those before a failure first; at most `most` are submitted."""
    waiting = iter(enumerate(jobs))
    running: dict[Future[Result], int] = {}
    while True:
        for number, job in islice(waiting, most - len(running)):
            running[executor.submit(work, job)] = number
        if not running:
            return
        done = wait(running, return_when=FIRST_COMPLETED).done
        for future in sorted(done, key=lambda future: future.exception() is not None):
            yield running.pop(future), future.result()


@contextmanager
def _cores(workers: int) -> Iterator[Executor]:
    executor = ProcessPoolExecutor(
        workers, env=ONE_THREAD, initializer=watch_parent, initargs=(os.getpid(),)
    )
    try:
        yield executor
    except TerminatedWorkerError as error:
        raise WorkerLostError(
            f"a worker process died ({_exit_of(error)}), often for want of memory: "
            "try fewer --workers."
        ) from None
    finally:
        executor.shutdown(kill_workers=True)


def _exit_of(error: TerminatedWorkerError) -> str:
    """Return how the worker ended, such as SIGKILL, from the text that has it."""
    codes = re.search(r"\{(\w+)", str(error))
    return codes[1] if codes else "it gave no reason"


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
def _cluster(scheduler: str) -> Iterator[Executor]:
    """Be a client of the scheduler at an address."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise PoolError('a scheduler needs Dask: pip install "settle[cluster]".') from None
    try:
        client = Client(scheduler, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise PoolError(f"no Dask scheduler answers at {scheduler} ({error}).") from None
    with client:
        try:
            yield client.get_executor()  # type: ignore[no-untyped-call]
        except KilledWorker:
            raise WorkerLostError(
                f"the same job ended several workers of {scheduler}, often for want of memory."
            ) from None
