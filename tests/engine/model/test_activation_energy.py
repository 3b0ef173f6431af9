"""Activations and the convex terms they come from: one is the other's slope, turned round."""

import math

import numpy as np
import pytest

from engine.compiled.program import HARD_SIGMOID, LINEAR, MIRRORED_RELU, RELU, TANH
from engine.model.activation import ACTIVATIONS

CODES = {"tanh": TANH, "hard_sigmoid": HARD_SIGMOID, "relu": RELU}
CODES |= {"mirrored_relu": MIRRORED_RELU, "linear": LINEAR}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_sigma_undoes_the_slope_of_the_convex_term(name: str) -> None:
    rule, step = ACTIVATIONS[name], 1e-6
    s = np.linspace(max(rule.low, -3.0) + 0.01, min(rule.high, 3.0) - 0.01, 101)
    slope = (rule.convex(s + step) - rule.convex(s - step)) / (2 * step)
    np.testing.assert_allclose(rule.sigma(slope), s, rtol=0, atol=1e-8)


def test_the_convex_term_of_tanh_is_the_formula_and_finite_at_its_ends() -> None:
    s = np.linspace(-0.999, 0.999, 201)
    exact = s * np.arctanh(s) + np.log(1 - s**2) / 2
    convex = ACTIVATIONS["tanh"].convex
    np.testing.assert_allclose(convex(s), exact, rtol=0, atol=1e-13)
    np.testing.assert_allclose(convex(np.array([-1.0, 1.0])), math.log(2), rtol=1e-12)
    inside = np.array([1 - 1e-12, -1 + 1e-12])
    np.testing.assert_allclose(convex(inside), math.log(2), rtol=1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_sigma_maps_into_its_range_and_reaches_its_ends(name: str) -> None:
    rule = ACTIVATIONS[name]
    found = rule.sigma(np.linspace(-50, 50, 1001))
    assert (np.diff(found) >= 0).all()
    assert (np.diff(found) <= 0.1 + 1e-12).all()  # Lipschitz constant one
    assert found[0] == max(rule.low, -50.0)
    assert found[-1] == min(rule.high, 50.0)
    assert rule.code == CODES[name]


def test_the_range_of_each_activation() -> None:
    ranges = {name: (rule.low, rule.high) for name, rule in ACTIVATIONS.items()}
    assert ranges == {
        "tanh": (-1, 1),
        "hard_sigmoid": (0, 1),
        "relu": (0, math.inf),
        "mirrored_relu": (-math.inf, 0),
        "linear": (-math.inf, math.inf),
    }
