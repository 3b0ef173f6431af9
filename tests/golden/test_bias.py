"""Where the order of a bias is measured, and what a gradient is compared with, on known cases."""

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.learning.estimator import SAFE_NUDGE
from engine.model.builders import layered, looped_mlp
from engine.model.params import Params, initial_params
from golden.bias import BETAS, ORDERS, RANGE, TOP_BIAS, BiasOrder, measure_bias_order, telling_betas
from golden.fidelity import (
    Fidelity,
    compare_gradients,
    difference_gradient,
    directional_derivatives,
    mean_cost,
)


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("constant", [0.01, 1.0, 50.0])
def test_the_bias_at_the_top_of_the_range_is_the_one_asked_for(order: int, constant: float) -> None:
    def bias(beta: float) -> float:
        return constant * beta**order

    betas = telling_betas(bias, order, curvature=2.0)
    assert len(betas) == BETAS
    np.testing.assert_allclose(betas[-1] / betas[0], RANGE, rtol=1e-12)
    np.testing.assert_allclose(np.diff(np.log(betas)), np.log(RANGE) / (BETAS - 1), rtol=1e-10)
    limit = 0.5 / 2.0
    if constant * limit**order > TOP_BIAS:
        np.testing.assert_allclose(bias(betas[-1]), TOP_BIAS, rtol=1e-12)
    else:
        np.testing.assert_allclose(betas[-1], limit, rtol=1e-12)


@pytest.mark.parametrize(("curvature", "pilot"), [(0.01, 1.0), (1.0, 1.0), (5.0, 0.2)])
def test_the_bias_is_first_tried_at_a_safe_nudge(curvature: float, pilot: float) -> None:
    tried = []

    def bias(beta: float) -> float:
        tried.append(beta)
        return 1e-30  # so small that only stability limits beta

    betas = telling_betas(bias, 2, curvature)
    np.testing.assert_allclose(tried, [SAFE_NUDGE * pilot])
    np.testing.assert_allclose(betas[-1], 0.5 / max(curvature, 0.1), rtol=1e-12)


def test_a_slope_may_lie_a_margin_from_its_order() -> None:
    for slope, passed in [(1.75, True), (2.25, True), (2.26, False), (1.74, False)]:
        assert BiasOrder("a", (), (), slope, 2, 0.25).passed is passed


def test_the_orders_are_those_of_the_theory() -> None:
    assert ORDERS == {"one_sided": (1, 0.1), "centered": (2, 0.1), "four_point": (4, 0.4)}
    with pytest.raises(EngineError, match="no order is known for estimator 'six_point'"):
        measure_bias_order(None, None, None, "six_point", None)


def test_gradients_are_compared_by_angle_and_length() -> None:
    trusted = np.array([3.0, 4.0])
    same = compare_gradients("a", trusted, trusted)
    assert same == Fidelity("a", 1.0, 0.0)
    turned = compare_gradients("a", np.array([-4.0, 3.0]), trusted)
    assert turned.cosine == 0.0
    np.testing.assert_allclose(turned.relative_error, np.sqrt(2.0))
    longer = compare_gradients("a", 3.0 * trusted, trusted)
    np.testing.assert_allclose((longer.cosine, longer.relative_error), (1.0, 2.0))
    for nothing in (0.0, np.nan):
        with pytest.raises(EngineError, match="nothing to compare"):
            compare_gradients("a", trusted, nothing * trusted)


def test_a_gradient_passes_by_both_and_at_the_limits() -> None:
    assert Fidelity("a", 0.9999, 1e-3).passed
    assert not Fidelity("a", np.nextafter(0.9999, 0), 1e-3).passed
    assert not Fidelity("a", 1.0, np.nextafter(1e-3, 1)).passed
    assert not Fidelity("a", np.nan, 0.0).passed


def _without_recurrence() -> tuple[NumbaBackend, np.ndarray, np.ndarray]:
    network = layered((2, 1, 2))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    return NumbaBackend(network, params), np.array([[0.3, -0.7], [1.0, 0.2]]), np.eye(2)


def _loss(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """The mean cost of one tanh unit read out by softmax, written out."""
    s = np.tanh(x @ theta[:2] + theta[2])
    logits = s[:, None] * theta[3:5] + theta[5:7]
    return float((np.log(np.exp(logits).sum(1)) - (y * logits).sum(1)).mean())


def test_differences_are_slopes_of_the_loss() -> None:
    backend, x, y = _without_recurrence()
    theta = backend.params.theta.copy()
    assert list(backend.network.blocks) == ["W_1", "b_1", "W_out", "b_out"]
    np.testing.assert_allclose(mean_cost(backend, x, y), _loss(theta, x, y), rtol=1e-12)
    exact = np.array(
        [(_loss(theta + d, x, y) - _loss(theta - d, x, y)) / 2e-5 for d in 1e-5 * np.eye(7)]
    )
    np.testing.assert_allclose(difference_gradient(backend, x, y), exact, rtol=0, atol=1e-7)
    directions = np.random.default_rng(1).standard_normal((3, 7))
    found = directional_derivatives(backend, x, y, directions, step=1e-3)
    np.testing.assert_allclose(found, directions @ exact, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(backend.params.theta, theta)


def test_parameters_come_back_when_a_loss_fails() -> None:
    network = looped_mlp(1, 2, 2)
    params = Params(network, np.full(network.size, 0.1))
    backend = NumbaBackend(network, params)
    backend.settle = None  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        directional_derivatives(backend, [[0.0]], np.eye(2)[:1], np.ones((1, network.size)))
    np.testing.assert_array_equal(backend.params.theta, params.theta)
