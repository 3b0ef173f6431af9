"""Gradients: three independent references, and the order of the bias that theory gives."""

import numpy as np
import pytest

from adapters.torch_autograd import bptt_gradient, implicit_gradient
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError
from engine.learning.estimator import Estimator, centered, one_sided
from engine.model.builders import layered, looped_mlp
from engine.model.params import Params, initial_params
from golden import bias, fidelity
from golden.bias import ORDERS, BiasOrder, measure_bias_order
from golden.cases import CAP, Case, deep_networks, initial_case, smooth_networks, trained_case
from golden.directions import random_directions, symmetric_basis
from golden.draws import stream
from golden.fidelity import (
    BETA,
    BIAS,
    Fidelity,
    compare_gradients,
    difference_gradient,
    directional_derivatives,
    eqprop_gradient,
    fitting_beta,
    mean_cost,
    measure_fidelity,
)

STATES = ("initial", "trained")


def make_case(name: str, state: str = "initial", seed: int = 0) -> Case:
    case = initial_case(name, smooth_networks()[name], np.random.default_rng(seed))
    return trained_case(case, CAP, name) if state == "trained" else case


def differences(network: object, params: Params, x: FloatArray, y: FloatArray) -> FloatArray:
    return difference_gradient(NumbaBackend(params.network, params), x, y)


REFERENCES = {
    "BPTT": lambda n, p, x, y: bptt_gradient(n, p, x, y, steps=400),
    "implicit": implicit_gradient,
    "finite differences": differences,
}


@pytest.mark.parametrize(
    ("name", "state"),
    [
        (n, s)
        for n in smooth_networks()
        for s in STATES
        if s == "initial" or n not in deep_networks()
    ],
)
def test_estimate_has_the_gradient_of_every_reference(name: str, state: str) -> None:
    case = make_case(name, state)
    references = dict(REFERENCES)
    if name in deep_networks():
        del references["BPTT"]  # of many layers it takes as long as all the rest
    found = measure_fidelity(case.build(NumbaBackend), case.x, case.y, references)
    assert [one.reference for one in found] == list(references)
    for one in found:
        assert one.passed, one


@pytest.mark.parametrize("constant", [0.5, 26.0, 19000.0, 1e8])
def test_the_nudge_that_fits_is_the_largest_that_biases_little(
    constant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, bent = np.array([3.0, 4.0]), 5.0 * np.array([0.6, -0.8])
    tried = []

    def estimated(backend: object, x: object, y: object, pairs: Estimator) -> FloatArray:
        tried.append(pairs[-1][0])
        return exact + constant * tried[-1] ** 2 * bent

    monkeypatch.setattr(fidelity, "eqprop_gradient", estimated)
    beta = fitting_beta(None, np.ones(1), np.ones(1))
    assert beta == BETA or constant * beta**2 > 0.5 * BIAS
    assert constant * beta**2 <= 1.001 * BIAS
    assert tried[::2] == pytest.approx([2 * half for half in tried[1::2]])


@pytest.mark.parametrize(("displaces", "tolerance"), [(True, 1e-13), (False, 1e-13 / 0.002)])
def test_states_are_asked_for_no_more_than_rounding_leaves(
    displaces: bool, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an estimate scales with beta is then as it is in the free phase."""
    asked = []
    kept = fidelity.estimate
    monkeypatch.setattr(
        fidelity, "estimate", lambda *given: asked.extend(given[4:]) or kept(*given)
    )
    monkeypatch.setattr(NumbaBackend, "displaces", displaces)
    case = make_case("looped")
    pairs = ((-0.004, -1 / 0.006), (0.002, 1 / 0.006))
    eqprop_gradient(case.build(NumbaBackend), case.x, case.y, pairs)
    free, nudged = asked
    assert (free.tolerance, nudged.tolerance) == (1e-13, pytest.approx(tolerance))
    asked.clear()
    eqprop_gradient(case.build(NumbaBackend), case.x, case.y, one_sided(0.002))
    assert [phase.tolerance for phase in asked] == pytest.approx(
        [1e-13 if displaces else tolerance, tolerance]
    )


def test_an_estimate_that_only_rounds_has_no_fitting_nudge(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(fidelity, "eqprop_gradient", lambda *_: rng.standard_normal(4))
    with pytest.raises(EngineError, match=r"no nudge down to 1\.0e-08 biases the estimate"):
        fitting_beta(None, np.ones(1), np.ones(1))


@pytest.mark.parametrize(
    ("name", "state", "seed", "least"),
    [("convolution, depth 6", "initial", 6, 1e-2), ("transformer", "trained", 2, 2e-3)],
)
def test_a_case_that_a_usual_nudge_biases_is_nudged_less(
    name: str, state: str, seed: int, least: float
) -> None:
    rng = stream(seed, f"{name}, trained")
    case = initial_case(name, smooth_networks()[name], rng)
    if state == "trained":
        case = trained_case(case, CAP, name, drop=0.3)
    backend, references = case.build(NumbaBackend), {"implicit": implicit_gradient}
    (usual,) = measure_fidelity(backend, case.x, case.y, references, centered(BETA))
    (found,) = measure_fidelity(backend, case.x, case.y, references)
    assert usual.relative_error > least
    assert usual.beta is None
    assert found.beta is not None
    assert found.beta < BETA
    # what was left to the references is not used by this one
    assert found.relative_error <= 1.1 * BIAS


@pytest.mark.parametrize("name", ["looped", "layered, depth 2"])
def test_references_agree_far_below_the_bias(name: str) -> None:
    case = make_case(name)
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    for reference in ("BPTT", "finite differences"):
        other = REFERENCES[reference](case.network, case.params, case.x, case.y)
        assert compare_gradients(reference, other, exact).relative_error < 1e-7


def test_difference_gradient_of_a_lateral_block_is_symmetric() -> None:
    case = make_case("looped")
    gradient = Params(case.network, differences(case.network, case.params, case.x, case.y))
    assert np.abs(gradient["W_rec"]).max() > 1e-4
    np.testing.assert_array_equal(gradient["W_rec"], gradient["W_rec"].T)


def test_derivatives_along_random_directions_of_a_larger_network() -> None:
    rng = np.random.default_rng(3)
    case = initial_case("large", looped_mlp(20, 40, 5), rng)
    backend = case.build(NumbaBackend)
    directions = random_directions(case.network, rng, 8)
    derivatives = directional_derivatives(backend, case.x, case.y, directions, step=1e-5)
    estimated = directions @ eqprop_gradient(backend, case.x, case.y, centered(0.01))
    assert compare_gradients("directions", estimated, derivatives).passed


def test_differences_give_the_parameters_back() -> None:
    case = make_case("looped")
    backend = case.build(NumbaBackend)
    basis = symmetric_basis(case.network)[:3]
    directional_derivatives(backend, case.x, case.y, basis)
    np.testing.assert_array_equal(backend.params.theta, case.params.theta)
    with pytest.raises(EngineError, match="not finite"):
        directional_derivatives(backend, case.x, case.y, np.full_like(basis, np.inf))
    np.testing.assert_array_equal(backend.params.theta, case.params.theta)


def test_directions_keep_lateral_blocks_symmetric() -> None:
    network = looped_mlp(2, 4, 2)
    basis = symmetric_basis(network)
    assert len(basis) == network.size - 4 * 3 // 2
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-15)
    for direction in [*basis, *random_directions(network, np.random.default_rng(0), 3)]:
        block = Params(network, direction)["W_rec"]
        np.testing.assert_array_equal(block, block.T)


def test_layered_networks_may_move_in_every_direction() -> None:
    network = layered((2, 3, 2))
    np.testing.assert_array_equal(symmetric_basis(network), np.eye(network.size))


def test_coarse_nudge_and_wrong_gradient_do_not_pass() -> None:
    case = make_case("layered, depth 2", "trained")
    backend = case.build(NumbaBackend)
    (coarse,) = measure_fidelity(
        backend, case.x, case.y, {"implicit": implicit_gradient}, one_sided(0.5)
    )
    assert not coarse.passed
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    reversed_hidden = Params(case.network, exact.copy())
    reversed_hidden["W_1"][...] *= -1
    assert not compare_gradients("flipped", reversed_hidden.theta, exact).passed
    assert not compare_gradients("too long", 1.002 * exact, exact).passed


def test_cosine_and_error_by_hand() -> None:
    found = compare_gradients("hand", np.array([3.0, 4.0]), np.array([3.0, 0.0]))
    assert found == Fidelity("hand", cosine=pytest.approx(0.6), relative_error=pytest.approx(4 / 3))
    with pytest.raises(EngineError, match=r"'zero' has a gradient of norm 0\.0"):
        compare_gradients("zero", np.ones(2), np.zeros(2))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("estimator", ORDERS)
@pytest.mark.parametrize("name", ["looped", "layered, depth 3", "squared error, tanh"])
def test_bias_has_the_order_of_theory(name: str, estimator: str, state: str) -> None:
    case = make_case(name, state, seed=4)
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    found = measure_bias_order(case.build(NumbaBackend), case.x, case.y, estimator, exact)
    assert found.passed, found
    assert found.order == {"one_sided": 1, "centered": 2, "four_point": 4}[estimator]
    assert list(found.errors) == sorted(found.errors)
    assert len(found.errors) == len(found.betas)


def test_wrong_estimator_has_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def lopsided(name: str, beta: float) -> Estimator:
        return ((-0.5 * beta, -1 / (1.5 * beta)), (beta, 1 / (1.5 * beta)))

    monkeypatch.setattr(bias, "named_estimator", lopsided)
    case = make_case("looped")
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    found = measure_bias_order(case.build(NumbaBackend), case.x, case.y, "centered", exact)
    assert not found.passed
    assert found.slope == pytest.approx(1.0, abs=0.1)


def test_order_outside_its_margin_does_not_pass() -> None:
    found = BiasOrder("centered", (0.1, 0.2), (1e-4, 4e-4), slope=2.11, order=2, margin=0.1)
    assert not found.passed
    with pytest.raises(EngineError, match="no order is known for estimator 'lucky'"):
        measure_bias_order(None, np.ones(1), np.ones(1), "lucky", np.ones(1))


def test_network_that_does_not_settle_has_no_gradient() -> None:
    params = initial_params(looped_mlp(3, 4, 2), np.random.default_rng(0), np.float64)
    params["W_rec"][...] = -3.0 * np.eye(4)  # overshoots for ever
    backend = NumbaBackend(params.network, params)
    x, y = 0.1 * np.ones((2, 3)), np.eye(2)
    with pytest.raises(EngineError, match="did not settle within 5000 steps"):
        eqprop_gradient(backend, x, y, centered(0.01))
    with pytest.raises(EngineError, match="no gradient away from equilibrium: 0 of 2 samples"):
        mean_cost(backend, x, y)
