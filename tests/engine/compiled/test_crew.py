"""Cores share a job: each share is done once, stage after stage, whoever is late."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import typeof, types

from engine.arrays import FloatArray
from engine.compiled import crew
from engine.compiled.addresses import address_of
from engine.compiled.compiler import PLAIN, inner
from engine.compiled.crew import MOST_CORES, run_job
from engine.compiled.jobs import lay_down, new_places

ROOT = Path(__file__).parents[3]
STAGES = 4


@inner
def _note(stage, share, done, rounds):  # type: ignore[no-untyped-def]
    """Do some work, then note how many shares of the stage before were done when it began."""
    before = 0
    for core in range(done.shape[1] if stage > 0 else 0):
        before += done[stage - 1, core] > 0
    total = 0.0
    for k in range(rounds * (share + 1)):
        total += np.sqrt(k)
    done[stage, share] += 1 + before + (total < 0)


@inner
def _refuse(stage, share, done, rounds):  # type: ignore[no-untyped-def]
    if stage == 1 and share == 1:
        raise ValueError("on fire")
    done[stage, share] += 1


def _job(cores: int, kernel: Any = _note, rounds: int = 500) -> tuple[Any, FloatArray]:
    done = np.zeros((STAGES, cores))
    kinds = (types.intp, types.intp, typeof(done), types.intp)
    job = new_places(1)
    lay_down(job, address_of(kernel, kinds), (done, rounds))
    return job, done


def _expected(cores: int) -> FloatArray:
    """Return what `_note` writes if each share is done once, after all of the stage before."""
    expected = np.full((STAGES, cores), 1.0 + cores)
    expected[0] = 1.0
    return expected


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
@pytest.mark.parametrize("pause", [0.0, 3e-4, 3e-3])
def test_each_share_is_done_once_after_the_stage_before(cores: int, pause: float) -> None:
    for _ in range(100):
        job, done = _job(cores)
        run_job(job, STAGES, cores)
        np.testing.assert_array_equal(done, _expected(cores))
        time.sleep(pause)


def test_more_cores_than_a_board_has_room_for_go_one_after_the_other() -> None:
    job, done = _job(MOST_CORES + 1)
    run_job(job, STAGES, MOST_CORES + 1)
    np.testing.assert_array_equal(done, _expected(MOST_CORES + 1))


def test_callers_at_the_same_time_do_not_wait_for_each_other() -> None:
    def call(_: int) -> FloatArray:
        job, done = _job(2, rounds=5000)
        run_job(job, STAGES, 2)
        return done

    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(call, range(100)):
            np.testing.assert_array_equal(done, _expected(2))


@pytest.mark.skipif(PLAIN, reason="without the compiler the error itself is raised")
@pytest.mark.parametrize("cores", [2, MOST_CORES + 1])
def test_a_share_that_fails_is_heard_and_the_next_job_finds_the_cores_free(cores: int) -> None:
    for _ in range(3):
        job, done = _job(cores, _refuse)
        with pytest.raises(RuntimeError, match="1 shares of a job failed"):
            run_job(job, STAGES, cores)
        assert done.sum() == STAGES * cores - 1
    job, done = _job(2)
    run_job(job, STAGES, 2)
    np.testing.assert_array_equal(done, _expected(2))


@pytest.mark.skipif(PLAIN, reason="without the compiler nobody else writes, and the job stops")
def test_an_interrupt_is_raised_when_nobody_writes_any_more() -> None:
    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, refuse)
    try:
        job, done = _job(2, rounds=10_000_000)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            run_job(job, STAGES, 2)
        at_once = done.copy()
    finally:
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(at_once, _expected(2))
    job, done = _job(2)
    run_job(job, STAGES, 2)
    np.testing.assert_array_equal(done, _expected(2))


def test_threads_sleep_where_no_job_comes() -> None:
    job, _ = _job(2)
    run_job(job, STAGES, 2)
    until = time.monotonic() + 30
    while not all(crew._crew()._sleeps) and time.monotonic() < until:
        time.sleep(0.01)
    assert all(crew._crew()._sleeps)
    began = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - began < 0.1


TRAINING = """
import os
import numpy as np
from threadpoolctl import threadpool_limits
from engine import NumbaBackend, Training, fit, initial_params, looped_mlp

def train(threads):
    network = looped_mlp(64, 128, 4)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    x = np.random.default_rng(1).normal(size=(1024, 64))
    with threadpool_limits(threads, user_api="blas"):
        fit(backend, x, np.arange(1024) % 4, Training(epochs=2, batch_size=256))
    return backend.params.theta
"""


def _say(code: str) -> str:
    command = [sys.executable, "-c", TRAINING + code]
    told = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    return told.stdout


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system holds no process")
def test_a_process_that_is_held_to_one_core_learns_the_same() -> None:
    code = """
alone = train(1)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(np.array_equal(train(2), alone))
"""
    assert _say(code) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    code = """
before = train(2)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(train(2), before) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), np.array_equal(train(2), before))
"""
    assert _say(code) == "0 True\n"
