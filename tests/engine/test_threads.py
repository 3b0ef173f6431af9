"""Small products keep BLAS to one thread, and only while they last."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from engine import threads
from engine.compiled import NumbaBackend
from engine.network import looped_mlp
from engine.params import initial_params
from engine.threads import LARGE, fitting_threads
from engine.train import Training, fit, train_step

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
        with fitting_threads(NETWORK, LARGE // largest):
            assert blas_threads() == before


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
