"""Torch has one thread while a network trains or settles on the CPU, and then those it had."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from adapters import torch_phase
from adapters.torch_backend import TorchBackend
from adapters.torch_threads import fitting_torch_threads
from engine.compiled.threads import LARGE
from engine.learning.predict import evaluate, predict
from engine.learning.training import Training, fit
from engine.model.builders import looped_mlp
from engine.model.params import initial_params

NETWORK = looped_mlp(4, 8, 3)
X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
Y = np.random.default_rng(1).integers(3, size=12)
THREADS = 3


@pytest.fixture(autouse=True)
def _several_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of threads at every evaluation of `T`."""
    seen: list[int] = []
    image: Callable[..., torch.Tensor] = torch_phase.Phase.image

    def watched(phase: torch_phase.Phase, state: torch.Tensor, *more: Any) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return image(phase, state, *more)

    monkeypatch.setattr(torch_phase.Phase, "image", watched)
    return seen


def _backend() -> TorchBackend:
    return TorchBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(0)), "cpu")


def test_whatever_settles_has_one_thread(counted: list[int]) -> None:
    backend = _backend()
    for work in (
        lambda: backend.settle(backend.clamp(X)),
        lambda: predict(backend, X),
        lambda: evaluate(backend, X, Y),
        lambda: fit(backend, X, Y, Training(epochs=1)),
    ):
        counted.clear()
        work()
        assert set(counted) == {1}
        assert torch.get_num_threads() == THREADS


def test_a_whole_training_step_has_one_thread() -> None:
    seen: list[int] = []

    def progress(done: int, total: int, note: str) -> None:
        seen.append(torch.get_num_threads())  # between the steps, where batches are gathered

    fit(_backend(), X, Y, Training(epochs=1, batch_size=4), progress=progress)
    assert seen == [1, 1, 1]
    assert torch.get_num_threads() == THREADS


def test_threads_come_back_after_a_failure() -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(_backend(), X, Y, Training(epochs=1), on_epoch=fail)
    assert torch.get_num_threads() == THREADS


def test_large_products_keep_their_threads() -> None:
    largest = max(block.size for block in NETWORK.blocks.values())
    with fitting_torch_threads(NETWORK, -(-LARGE // largest)):
        assert torch.get_num_threads() == THREADS
    with fitting_torch_threads(NETWORK, LARGE // largest - 1):
        assert torch.get_num_threads() == 1
