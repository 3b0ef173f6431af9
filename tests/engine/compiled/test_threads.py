"""Training holds BLAS to one thread; batches with enough to do go to all cores in blocks."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from engine.compiled import threads
from engine.compiled.backend import NumbaBackend
from engine.compiled.threads import (
    LARGE,
    ROWS,
    WORK,
    fitting_threads,
    one_blas_thread,
    portions,
    row_blocks,
    run_blocks,
)
from engine.equilibrium import Relaxation
from engine.learning.estimator import centered, estimate
from engine.learning.predict import evaluate, predict
from engine.learning.training import Training, fit, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.params import initial_params

ROOT = Path(__file__).parents[3]
NETWORK = looped_mlp(4, 8, 2)


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_small_batch_has_one_thread_and_a_large_one_what_there_was() -> None:
    largest = max(block.size for block in NETWORK.blocks.values())
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with fitting_threads(NETWORK, 32):
            assert blas_threads() == {1}
        assert blas_threads() == before
        with fitting_threads(NETWORK, LARGE // largest - 1):
            assert blas_threads() == {1}
        with fitting_threads(NETWORK, LARGE // largest):
            assert blas_threads() == before


def test_a_limit_holds_for_a_library_that_is_loaded_under_it() -> None:
    """numba's BLAS comes with scipy, which a process loads when it first asks for cores."""
    code = """
from threadpoolctl import threadpool_info, threadpool_limits
from engine.compiled.threads import usable_cores
with threadpool_limits(1, user_api="blas"):
    print(usable_cores(), *(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"))
"""
    many = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    told = subprocess.run(
        command, cwd=ROOT, env=many, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(told) == 3  # and numpy's and scipy's
    assert set(told) == {"1"}


def test_a_blas_with_more_threads_than_the_machine_has_cores_starves_nobody() -> None:
    code = f"""
import numpy as np
from threadpoolctl import threadpool_limits
from engine import NumbaBackend, Training, fit, initial_params, looped_mlp
from engine.compiled.threads import usable_cores
network = looped_mlp(784, 64, 2)
backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
x = np.random.default_rng(1).normal(size=(512, 784))
many = 4 * {os.cpu_count()}
with threadpool_limits(many, user_api="blas"):
    fit(backend, x, np.arange(512) % 2, Training(epochs=1, batch_size=512))
    print(usable_cores())
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    assert told == [str(os.cpu_count())]


def test_fit_holds_blas_to_one_thread_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(*arguments):  # type: ignore[no-untyped-def]
        seen.append(blas_threads())
        return train_step(*arguments)

    backend = NumbaBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(0)))
    x, y = np.ones((4, 4)), np.array([0, 1, 0, 1])
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        fit(backend, x, y, Training(epochs=1), step=watched)
        monkeypatch.setattr(threads, "LARGE", 1)
        fit(backend, x, y, Training(epochs=1), step=watched)
        assert blas_threads() == before
    assert seen == [{1}, before]


def test_prediction_holds_blas_to_one_thread_too() -> None:
    seen = []

    class Watched(NumbaBackend):
        def _drive(self, x):  # type: ignore[no-untyped-def]
            seen.append(blas_threads())
            return super()._drive(x)

    backend = Watched(NETWORK, initial_params(NETWORK, np.random.default_rng(0)))
    with threadpool_limits(2, user_api="blas"):
        predict(backend, np.ones((4, 4)))
        evaluate(backend, np.ones((4, 4)), np.array([0, 1, 0, 1]))
    assert seen == [{1}, {1}]


@pytest.mark.parametrize("samples", [1, ROWS, 2 * ROWS - 1, 2 * ROWS, 3 * ROWS + 1, 9 * ROWS])
@pytest.mark.parametrize("work", [0, WORK // (4 * ROWS), WORK])
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_blocks_share_a_batch_without_gap_among_the_cores_that_gain(
    samples: int, work: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    blocks = row_blocks(samples, work)
    rows = [row for block in blocks for row in range(samples)[block]]
    assert rows == list(range(samples))
    assert len(blocks) == max(1, min(cores, samples // ROWS, samples * work // WORK))


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_portions_share_the_tasks_out_evenly(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    work = [WORK, 5 * WORK, 2 * WORK, 0, 3 * WORK]
    shares = portions(work)
    assert sorted(task for share in shares for task in share) == [0, 1, 2, 3, 4]
    assert len(shares) == cores
    assert (
        max(sum(work[task] for task in share) for share in shares)
        == {1: 11, 2: 6, 3: 5}[cores] * WORK
    )
    assert portions([WORK - 1, 0]) == [[0, 1]]


def test_a_gradient_does_not_depend_on_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    network = layered((5, 9, 7, 3))
    backend = NumbaBackend(network, initial_params(network, rng))
    samples = 2 * ROWS
    x, y = rng.standard_normal((samples, 5)), np.eye(3)[np.arange(samples) % 3]
    monkeypatch.setattr(threads, "WORK", 1)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        clamped = backend.clamp(x, y)
        gradient = np.zeros(network.size, np.float32)
        estimate(backend, clamped, centered(0.1), gradient)
        found.append(gradient)
    assert np.abs(found[0]).max() > 1e-4
    np.testing.assert_array_equal(found[1], found[0])


def test_blocks_use_the_cores_that_blas_was_allowed() -> None:
    with threadpool_limits(2, user_api="blas"):
        allowed = max(blas_threads())  # one, where the machine has one core
        with one_blas_thread(), one_blas_thread():
            assert len(row_blocks(8 * ROWS, WORK)) == allowed
        with threadpool_limits(1, user_api="blas"):
            assert len(row_blocks(8 * ROWS, WORK)) == 1


@pytest.mark.parametrize("solver", ["fixed_point", "alternating", "anderson"])
def test_equilibria_do_not_depend_on_the_blocks(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    network = layered((5, 9, 7, 3)) if solver == "alternating" else looped_mlp(5, 9, 3)
    backend = NumbaBackend(network, initial_params(network, rng, np.float64))
    samples = 2 * ROWS + 3
    monkeypatch.setattr(threads, "WORK", 1)
    clamped = backend.clamp(rng.standard_normal((samples, 5)), np.eye(3)[np.arange(samples) % 3])
    relaxation = Relaxation(40, 1e-9, solver)  # type: ignore[arg-type]
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(threads, "usable_cores", lambda cores=cores: cores)
        assert len(row_blocks(samples, 1)) == cores
        free = backend.settle(clamped, 0.0, relaxation)
        found.append((free, *backend.relax(clamped, (((0.1, -0.1), relaxation),), free.state)))
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_array_equal(parts.state, whole.state)  # to the last bit
        np.testing.assert_array_equal(parts.steps, whole.steps)
        assert parts.beta == whole.beta


def test_an_error_in_a_block_reaches_the_caller() -> None:
    def work(rows: slice) -> None:
        if rows.start > 0:
            raise ArithmeticError(f"row {rows.start}")

    with pytest.raises(ArithmeticError, match="row 3"):
        run_blocks(work, [slice(0, 3), slice(3, 5)])
