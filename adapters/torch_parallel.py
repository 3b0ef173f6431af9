"""Data parallel training: several processes, each with its share of every batch.

All hold the same network, the same parameters and all data, and take the same steps:

    g = sum_k (n_k / n) g_k        process k with its n_k of the n samples of a batch

which is one all-reduce of one flat array a step; the measured cost of the batch comes with it. What
follows, optimizer and cap, is done by each on the same numbers, so parameters stay equal to the
bit. Any backend does: that of the engine sends its gradient as it lies in memory.
"""

import os
import pickle
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from engine.arrays import Array
from engine.backend import Backend
from engine.border import checked
from engine.errors import EngineError, check_count
from engine.learning.estimator import Report, estimate
from engine.learning.run import Run
from engine.learning.training import Training, descend

PROCESSES: Any = torch.multiprocessing  # whose types do not say what it exports
SECONDS = 300.0
"""How long a process waits for the others."""
NUMBERS = 4
"""Those of a report, which are sent with the gradient."""


class ParallelError(EngineError):
    """Processes that cannot go on together."""


class Team:
    """This process among `count`, the one with number `rank`; made by `joined`.

    `fit(..., step=team.step)`, called by all with the same arguments, trains in parallel. Only one
    of them should be given a `checkpoint`, unless it is another file for each.
    """

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.waited = 0.0
        """Seconds in all-reduces so far, those in which others were late included."""
        self._room: torch.Tensor | None = None
        self._alike: Backend | None = None

    def share(self, samples: int) -> slice:
        """Return the samples of a batch that are for this process; there may be none."""
        return slice(samples * self.rank // self.count, samples * (self.rank + 1) // self.count)

    def add(self, array: torch.Tensor) -> None:
        """Replace an array by its sum over all processes, the same bits in each."""
        self._reduce(array, torch.distributed.ReduceOp.SUM)

    def wait(self) -> None:
        """Wait until all others have come this far."""
        self.add(torch.zeros(1))

    def step(
        self, backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int
    ) -> Report:
        """Take one training step of the whole batch; this process relaxes its share of it."""
        if self._alike is not backend:
            self._check_alike(backend, training, len(x))
        mine, share = self.share(len(x)), 0.0
        report = Report(0.0, 0.0, 0.0, 0.0)
        if mine.start < mine.stop:
            clamped, phases = backend.clamp(x[mine], y[mine]), training.phases(backend)
            cost = run.history[-1].cost if run.history else 1.0
            ways = training.relaxations(backend, cost)
            report = estimate(backend, clamped, phases, run.gradient, *ways)
            share = (mine.stop - mine.start) / len(x)
        whole = self._joined(run.gradient, report, share)
        descend(backend, training, run, total)
        return whole

    def _joined(self, gradient: Array, report: Report, share: float) -> Report:
        """Replace the gradient of a share by that of the batch; return the report of the batch."""
        own = torch.from_numpy(gradient) if isinstance(gradient, np.ndarray) else gradient
        size = len(own)
        if self._room is None or self._room.shape != (size + NUMBERS,):
            self._room = torch.empty(size + NUMBERS, dtype=own.dtype, device=own.device)
        room = self._room
        room.zero_()
        if share > 0.0:
            torch.mul(own, share, out=room[:size])
            for k, value in enumerate(_numbers(report)):
                room[size + k] = value * share
        self.add(room)
        own.copy_(room[:size])
        if own is gradient:  # a remote backend: nothing is read
            return Report(*room[size:].clone().unbind())
        return Report(*room[size:].tolist())

    def _reduce(self, array: torch.Tensor, operation: Any) -> None:
        began = time.perf_counter()
        try:
            torch.distributed.all_reduce(array, operation)
        except RuntimeError:
            raise ParallelError(
                f"process {self.rank} of {self.count} lost the others: one of them has ended, or "
                f"said nothing for {SECONDS:.0f} s; start them all again."
            ) from None
        self.waited += time.perf_counter() - began

    def _check_alike(self, backend: Backend, training: Training, samples: int) -> None:
        """Refuse processes that would not take the same step: it would be seen nowhere."""
        what = {
            "parameters": zlib.crc32(backend.params.theta.tobytes()),
            "settings": zlib.crc32(repr(training).encode()),
            "batch": samples,
        }
        low = torch.tensor(list(what.values()))
        ends = torch.cat([low, -low])
        self._reduce(ends, torch.distributed.ReduceOp.MAX)
        for name, high, least in zip(what, *ends.chunk(2), strict=True):
            if high != -least:
                raise ParallelError(f"the {self.count} processes do not have the same {name}.")
        self._alike = backend


def _numbers(report: Report) -> tuple[Any, ...]:
    return report.cost, report.free_steps, report.nudged_steps, report.unsettled


@contextmanager
@checked
def joined(meeting: Path | str, rank: int, count: int, seconds: float = SECONDS) -> Iterator[Team]:
    """Join the processes that meet at a file, which must not exist before; leave at the end.

    One that does not come, or says nothing for so many seconds, ends the others with an error.
    """
    check_count("count", count)
    if not 0 <= rank < count:
        raise EngineError(f"rank is {rank}, expected from 0 to {count - 1}.")
    place, limit = f"file://{Path(meeting).absolute()}", timedelta(seconds=seconds)
    try:
        torch.distributed.init_process_group(
            "gloo", init_method=place, rank=rank, world_size=count, timeout=limit
        )
    except RuntimeError:
        raise ParallelError(
            f"process {rank} did not meet all {count} processes within {seconds:g} s."
        ) from None
    try:
        yield (team := Team(rank, count))
        team.wait()  # one that leaves while another still talks would end it
    finally:
        torch.distributed.destroy_process_group()


@checked
def run_together(
    work: Callable[..., Any], count: int, *arguments: Any, threads: int = 1
) -> list[Any]:
    """Call `work(team, *arguments)` in so many new processes; return what each of them returned.

    A function of a module that they can import. Each has so many threads. If one of them ends by
    itself, the others are ended, and one sentence says which it was.
    """
    check_count("count", count)
    check_count("threads", threads)
    with TemporaryDirectory() as folder:
        try:
            PROCESSES.spawn(
                _work_in_process, (folder, count, threads, work, arguments), nprocs=count
            )
        except PROCESSES.ProcessRaisedException as error:
            said = str(error).strip().splitlines()[-1].partition(": ")[2] or "it did not say why"
            raise ParallelError(f"process {error.error_index} of {count} failed: {said}") from None
        except PROCESSES.ProcessExitedException as error:
            how = error.signal_name or f"exit code {error.exit_code}"
            raise ParallelError(
                f"process {error.error_index} of {count} has ended ({how}), often for want of "
                "memory; the others were ended."
            ) from None
        return [pickle.loads((Path(folder) / str(rank)).read_bytes()) for rank in range(count)]


def _work_in_process(
    rank: int,
    folder: str,
    count: int,
    threads: int,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """Do the work of one process, leave what it returned in a file, and end."""
    if sys.platform == "linux":  # where the name of this machine may lead to no network at all
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(threads)
    with threadpool_limits(threads), joined(Path(folder) / "meeting", rank, count) as team:
        found = work(team, *arguments)
    (Path(folder) / str(rank)).write_bytes(pickle.dumps(found))
    # A thread of gloo or of torch that Python takes apart while it runs ends the process by an
    # abort, now and then; there is nothing left that has to be taken apart.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)
