"""Skips: the identity with one strength, and residual networks made of them."""

from typing import Any

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import Convolution
from engine.couplings.skip import Skip
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.learning.spectral import recurrent_norm
from engine.learning.training import Training, fit
from engine.model.builders import residual_net
from engine.model.params import Params, initial_params
from golden.couplings import check_network

SHAPES = {"a": (2, 3, 2), "b": (2, 3, 2)}


def test_a_skip_is_the_identity_times_its_strength() -> None:
    coupling, rng = Skip("S", "a", "b"), np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 2, 3, 2))
    w = np.array([[0.7]])
    np.testing.assert_allclose(coupling.potential(w, a, a, b), 0.7 * (a * b).sum((1, 2, 3)))
    np.testing.assert_allclose(coupling.link(SHAPES).matrix(w), 0.7 * np.eye(12))
    np.testing.assert_allclose(coupling.correlate(w, a, a, b), [[(a * b).sum()]])
    assert coupling.shape(SHAPES) == (1, 1)
    assert coupling.link(SHAPES).spread == 1.0


def test_layers_of_other_shapes_are_refused() -> None:
    with pytest.raises(EngineError, match=r"'a' has \(2, 3, 2\) and 'b' has \(2, 3, 1\)"):
        Skip("S", "a", "b").shape({"a": (2, 3, 2), "b": (2, 3, 1)})


def _skips(*arguments: Any, **settings: Any) -> list[Any]:
    network = residual_net(*arguments, 3, activation="tanh", **settings)
    assert all(metric.passed for metric in check_network(network, np.random.default_rng(1)))
    return [c for c in network.recurrent if c.name.startswith("S")]


def test_a_residual_network_joins_every_layer_to_the_one_after_the_next() -> None:
    assert _skips((4, 5, 1), (2, 3, 2, 1)) == [
        Skip("S_1", "layer1", "layer3", 0.25),
        Convolution("S_2", "layer2", "layer4", 1, 1, 0, gain=0.25),
    ]
    strided = _skips((12, 11, 1), (2, 2, 2), stride=2)
    assert [(c.kernel, c.stride) for c in strided] == [(1, 4)]
    pooled = _skips((13, 14, 1), (2, 2, 2), pooling="mean", kernel=1)
    assert [(c.kernel, c.stride) for c in pooled] == [(1, 7)]


def test_what_cannot_be_skipped_is_refused() -> None:
    with pytest.raises(EngineError, match=r"channels \(2, 2\) leave no layer to skip"):
        residual_net((8, 8, 1), (2, 2), 3)
    with pytest.raises(EngineError, match="no stride joins the 7 x 14 pixels of 'layer1' to the"):
        residual_net((14, 28, 1), (2, 2, 2), 3, pooling="mean")


def test_a_residual_network_contracts_as_drawn_and_has_the_right_gradient() -> None:
    network = residual_net((4, 5, 1), (2, 3, 2, 1), 3, activation="tanh")
    rng = np.random.default_rng(2)
    params = initial_params(network, rng, np.float64)
    assert recurrent_norm(params) < 1.0
    x, y = rng.standard_normal((4, 20)), np.eye(3)[[0, 1, 2, 0]]
    backend, way = NumbaBackend(network, params), Relaxation(2000, 1e-14)
    gradient = np.zeros(network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-4), gradient, way, way)
    exact = implicit_gradient(network, params, x, y, way)
    for name in ("S_1", "S_2"):
        assert np.abs(Params(network, exact)[name]).max() > 1e-6
    np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_a_residual_network_learns_its_strengths_under_the_cap() -> None:
    network = residual_net((4, 4, 1), (2, 2, 2), 2)
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=40)
    x = rng.standard_normal((40, 16)) + 2.0 * y[:, None] * (np.arange(16) < 8)
    backend = NumbaBackend(network, initial_params(network, rng))
    before = backend.params["S_1"].item()
    history = fit(backend, x, y, Training(epochs=8, batch_size=8))
    assert history[-1].cost < 0.8 * history[0].cost
    assert backend.params["S_1"].item() != before
    assert recurrent_norm(backend.params) <= 0.95 * (1 + 1e-5)
