"""The cores that share a job (`engine.compiled.jobs`): the caller's, and threads that wait for it.

A thread that has done its part looks for the next job for about as long as a training step pauses
between two, without the interpreter; then it sleeps until it is called. So jobs in a row wake
nobody, and an idle program burns nothing.
"""

import atexit
import os
import time
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.compiled.compiler import PLAIN
from engine.compiled.meeting import (
    FAILED,
    JOB,
    LINE,
    SHARES,
    call_together,
    do_alone,
    help_out,
    take_part,
)

LOOKS, FEW_LOOKS, NAP = 20_000, 1_000, 5e-5
"""How often a core looks for the others or for a job; how often again after naps of so many
seconds, if it was in vain: others are at a long share then, or have no processor."""
MOST_STAGES, MOST_CORES = 8, 64
"""Of a job; more go one after the other."""


def run_job(job: npt.NDArray[Any], stages: int, cores: int) -> None:
    """Do all shares of a job: of each stage one for every core, a stage after the other.

    Only one caller at a time has the cores, any other does its job alone.
    """
    crew = _crew()
    together = not PLAIN and 1 < cores <= MOST_CORES and stages <= MOST_STAGES
    if together and crew.lock.acquire(blocking=False):
        try:
            failed = crew.run(job, stages, cores)
        finally:
            crew.lock.release()
    else:
        failed = do_alone(job, stages, cores)
    if failed:  # by an error of the program alone
        raise RuntimeError(f"{failed} shares of a job failed.")


class _Crew:
    """Threads that help the caller of `run`; they start when first needed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._board = np.zeros((SHARES + MOST_STAGES * MOST_CORES, LINE), np.int64)
        self._jobs = 0
        self._bells: list[SimpleQueue[None]] = []
        self._sleeps: list[bool] = []
        self._threads: list[Thread] = []
        self._ends = False

    def run(self, job: npt.NDArray[Any], stages: int, cores: int) -> int:
        """Do all shares of a job with others; return how many failed."""
        self._jobs += 1
        number = self._jobs << 16 | stages << 8 | cores
        call_together(self._board, job, number)
        try:
            self._call(cores - 1)
            self._do(number)
        finally:  # whatever interrupts the caller: the others write where the job says
            self._do(number)
        return int(self._board[FAILED, 0])

    def _do(self, number: int) -> None:
        """Take part in the job of the caller until it is over."""
        looks = LOOKS
        while not take_part(self._board, number, 0, looks):
            looks = FEW_LOOKS
            time.sleep(NAP)

    def _call(self, helpers: int) -> None:
        """Wake the helpers that sleep; start those that there are not yet."""
        for k in range(helpers):
            if k == len(self._bells):
                self._bells.append(SimpleQueue())
                self._sleeps.append(False)
                thread = Thread(target=self._help, args=(k,), name=f"core-{k + 1}", daemon=True)
                thread.start()
                self._threads.append(thread)
            if self._sleeps[k]:
                self._sleeps[k] = False
                self._bells[k].put(None)

    def _help(self, k: int) -> None:
        """Take part in all jobs, as the thread of this number."""
        last, looks = 0, LOOKS
        while not self._ends:
            found = help_out(self._board, last, k + 1, looks, LOOKS)
            if found < 0:
                looks = FEW_LOOKS
                time.sleep(NAP)
                continue
            last, looks = found, LOOKS
            self._sleeps[k] = True
            # Who puts a job on the board looks afterwards who sleeps: one of both sees the other.
            if self._board[JOB, 0] == last and not self._ends:
                self._bells[k].get()

    def end(self) -> None:
        """Let the threads end, which would be in the way of an interpreter that does."""
        self._ends = True
        for bell in self._bells:
            bell.put(None)
        for thread in self._threads:
            thread.join()


@cache
def _crew() -> _Crew:
    """Return the one crew of the process."""
    crew = _Crew()
    atexit.register(crew.end)
    return crew


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_crew.cache_clear)  # a forked process has no thread of it
