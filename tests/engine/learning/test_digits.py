"""Learning on real data, and the controls that show what it comes from."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.learning.predict import evaluate
from engine.learning.spectral import SpectralCap, recurrent_norm
from engine.learning.training import Training, fit
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params

SEEDS = (42, 43, 44)
LOOPED = looped_mlp(64, 128, 10)
Split = tuple[FloatArray, FloatArray, IntArray, IntArray]


def _split(seed: int) -> Split:
    """80 % for training; both parts standardised by the mean and deviation of the training part."""
    x, y = load_digits(return_X_y=True)
    train, test, *labels = train_test_split(x, y, test_size=0.2, stratify=y, random_state=seed)
    mean, deviation = train.mean(), train.std()
    return (train - mean) / deviation, (test - mean) / deviation, *labels


def _train(kind: type[NumbaBackend], network: Network, seed: int, epochs: int) -> Backend:
    train, _, labels, _ = _split(seed)
    backend = kind(network, initial_params(network, np.random.default_rng(seed)))
    training = Training(
        epochs=epochs,
        batch_size=32,
        beta=0.02,
        free=Relaxation(30),
        nudged=Relaxation(15),
        cap=SpectralCap(0.95, every=5),
        seed=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        costs = [epoch.cost for epoch in fit(backend, train, labels, training)]
    assert len(costs) == epochs
    return backend


def _accuracy(backend: Backend, seed: int) -> float:
    _, test, _, labels = _split(seed)
    return evaluate(backend, test, labels, Relaxation(30)).accuracy


@pytest.fixture(scope="module")
def trained() -> dict[int, Backend]:
    return {seed: _train(NumbaBackend, LOOPED, seed, epochs=30) for seed in SEEDS}


def test_centered_equilibrium_propagation_learns_digits(trained: dict[int, Backend]) -> None:
    accuracies = [_accuracy(backend, seed) for seed, backend in trained.items()]
    assert np.mean(accuracies) >= 0.97
    assert min(accuracies) >= 0.965


def test_trained_networks_still_contract_and_settle(trained: dict[int, Backend]) -> None:
    for seed, backend in trained.items():
        _, test, _, labels = _split(seed)
        assert recurrent_norm(backend.params) < 0.97
        result = evaluate(backend, test, labels, Relaxation(60))
        assert result.unsettled == 0.0
        np.testing.assert_array_equal(backend.params["W_rec"], backend.params["W_rec"].T)


class Flipped(NumbaBackend):
    """An execution whose synapses inside the energy learn with the wrong sign."""

    sign = -1.0

    def accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        *,
        energy: float = 0.0,
        cost: float = 0.0,
    ) -> FloatArray | None:
        energy = self.sign * energy
        return super().accumulate(clamped, equilibrium, gradient, energy=energy, cost=cost)


class ReadoutOnly(Flipped):
    """An execution whose synapses inside the energy do not learn."""

    sign = 0.0


def test_the_sign_of_the_hidden_update_decides() -> None:
    right, none, wrong = (
        _accuracy(_train(kind, LOOPED, 42, epochs=3), 42)
        for kind in (NumbaBackend, ReadoutOnly, Flipped)
    )
    assert right >= 0.93
    assert none <= right - 0.03
    assert wrong <= 0.4


def test_two_hidden_layers_learn_too_and_by_their_hidden_update() -> None:
    deep = layered((64, 64, 32, 10))
    right, wrong = (
        _accuracy(_train(kind, deep, 42, epochs=5), 42) for kind in (NumbaBackend, Flipped)
    )
    assert right >= 0.93
    assert wrong <= 0.5
