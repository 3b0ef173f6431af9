"""Estimators as data, the nudged tolerance, and the guard on beta."""

import warnings
from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.arrays import by_sample
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError, NudgeWarning
from engine.learning.estimator import (
    LARGEST_BETA,
    SAFE_NUDGE,
    TINY_BETA,
    Estimator,
    centered,
    estimate,
    four_point,
    named_estimator,
    one_sided,
    safe_beta,
    symmetric,
    warn_unsafe,
)
from engine.learning.run import Run
from engine.learning.training import Training, fit, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import Case, cases

BETAS = st.floats(1e-4, 1.0)
NAMED = {"one_sided": one_sided, "centered": centered, "four_point": four_point}


@given(BETAS, st.sampled_from([one_sided, centered, four_point]))
def test_coefficients_sum_to_zero_and_to_one_with_beta(beta: float, make: object) -> None:
    betas, coefficients = np.array(make(beta)).T
    assert abs(coefficients.sum()) <= 1e-12 * np.abs(coefficients).max()
    assert abs((coefficients * betas).sum() - 1.0) <= 1e-12
    assert np.abs(betas).max() == beta


@given(BETAS, st.sampled_from([2, 4, 6, 8]))
def test_symmetric_points_differentiate_polynomials_up_to_their_order(
    beta: float, points: int
) -> None:
    betas, coefficients = np.array(symmetric(beta, points)).T
    assert len(betas) == points
    np.testing.assert_array_equal(betas, -betas[::-1])
    np.testing.assert_array_equal(coefficients, -coefficients[::-1])
    moments = [(coefficients * beta * (betas / beta) ** power).sum() for power in range(points + 2)]
    expected = np.eye(points + 2)[1]
    np.testing.assert_allclose(moments[: points + 1], expected[: points + 1], rtol=0, atol=1e-9)
    assert abs(moments[points + 1]) > 1e-3


def test_the_textbook_estimators() -> None:
    assert one_sided(0.5) == ((0.0, -2.0), (0.5, 2.0))
    np.testing.assert_allclose(centered(0.5), ((-0.5, -1.0), (0.5, 1.0)))
    weights = np.array([1 / 6, -4 / 3, 4 / 3, -1 / 6]) / 0.5
    np.testing.assert_allclose(np.array(four_point(0.5))[:, 1], weights)
    assert all(named_estimator(name, 0.3) == make(0.3) for name, make in NAMED.items())


@pytest.mark.parametrize("beta", [0.0, -0.1, np.nan, np.inf, -np.inf])
def test_a_beta_that_is_not_positive_is_refused(beta: float) -> None:
    for make in NAMED.values():
        with pytest.raises(EngineError, match=f"beta is {beta}, expected a positive number"):
            make(beta)
    with pytest.raises(EngineError, match=f"beta is {beta}"):
        Training(beta=beta)


@pytest.mark.parametrize("points", [-2, 0, 1, 3])
def test_an_odd_number_of_points_is_refused(points: int) -> None:
    with pytest.raises(EngineError, match=f"even number of points, .* not {points}"):
        symmetric(0.1, points)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(EngineError, match="unknown estimator 'spsa'; known: one_sided, centered"):
        Training(estimator="spsa")
    with pytest.raises(EngineError, match="beta is 'small', expected a positive number or 'auto'"):
        Training(beta="small")


@pytest.mark.parametrize(
    "estimator",
    [
        (),
        ((0.1, 1.0),),
        ((0.0, -1.0), (0.1, 1.0)),
        ((-0.1, 5.0), (0.1, -5.0)),
        ((0.0, -9.0), (0.1, 10.0)),
        ((0.0, np.nan), (0.1, 10.0)),
    ],
    ids=repr,
)
def test_pairs_that_estimate_no_derivative_are_refused(estimator: Estimator) -> None:
    backend = _backend()
    gradient = np.zeros(backend.network.size, np.float32)
    clamped = backend.clamp(np.ones((3, 4)), np.eye(3))
    with pytest.raises(EngineError, match="expected 0 and 1"):
        estimate(backend, clamped, estimator, gradient)
    assert not gradient.any()


@given(st.floats(-3.0, 3.0), st.floats(0.0, 1e-2), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_a_nudged_tolerance_is_in_proportion_to_beta_down_to_rounding(
    beta: float, tolerance: float, rounding: float
) -> None:
    way = Relaxation(7, tolerance, "anderson", memory=3)
    scaled = way.nudged(beta, rounding)
    exact = tolerance * min(1.0, abs(beta))
    assert scaled.tolerance == (exact if exact >= rounding else min(tolerance, rounding))
    assert (scaled.max_steps, scaled.solver, scaled.memory) == (7, "anderson", 3)


def test_every_nudged_phase_relaxes_from_the_free_state_to_its_own_tolerance() -> None:
    backend = _backend(seed=1)
    asked = []

    class Recorded(NumbaBackend):
        def _relax_one(self, clamped, beta, relaxation, start):  # type: ignore[no-untyped-def]
            asked.append((beta, relaxation.tolerance, start))
            return super()._relax_one(clamped, beta, relaxation, start)

        _relax = Backend._relax  # one after the other, each by the above

    backend = Recorded(backend.network, backend.params)
    clamped = backend.clamp(np.ones((3, 4)), np.eye(3))
    gradient = np.empty(backend.network.size, np.float32)
    report = estimate(
        backend, clamped, four_point(0.2), gradient, Relaxation(40, 1e-3), Relaxation(20, 1e-4)
    )
    assert asked[0][:2] == (0.0, 1e-3)
    assert len(asked) == 5
    for (beta, tolerance, _), (wanted, _) in zip(
        sorted(asked[1:], key=itemgetter(0)), four_point(0.2), strict=True
    ):
        assert beta == pytest.approx(wanted)
        assert tolerance == pytest.approx(1e-4 * abs(wanted))
    free = backend.settle(clamped, relaxation=Relaxation(40, 1e-3))
    for _, _, start in asked[1:5]:
        np.testing.assert_array_equal(start, free.state)
    assert report.unsettled == 0.0
    assert 1.0 < report.nudged_steps <= 20.0


def test_a_free_phase_in_the_estimate_settles_for_the_smallest_nudge() -> None:
    asked = []

    class Recorded(NumbaBackend):
        _relax = Backend._relax  # one phase after the other

        def _relax_one(self, clamped, beta, relaxation, start):  # type: ignore[no-untyped-def]
            asked.append((beta, relaxation.tolerance))
            return super()._relax_one(clamped, beta, relaxation, start)

    plain = _backend(seed=1)
    backend, beta = Recorded(plain.network, plain.params), 0.1
    one_sided_twice = ((0.0, -1.5 / beta), (beta, 2 / beta), (2 * beta, -0.5 / beta))
    gradient = np.empty(backend.network.size, np.float32)
    clamped = backend.clamp(np.ones((3, 4)), np.eye(3))
    for displaced, free in ((False, 1e-4), (True, 1e-3)):  # of which a displacement sees nothing
        asked.clear()
        ways = Relaxation(40, 1e-3), Relaxation(40, 1e-3, displaced=displaced)
        estimate(backend, clamped, one_sided_twice, gradient, *ways)
        assert dict(asked) == pytest.approx({0.0: free, 0.1: 1e-4, 0.2: 2e-4})


def test_a_gradient_needs_targets() -> None:
    backend = _backend()
    with pytest.raises(EngineError, match="needs targets y"):
        estimate(backend, backend.clamp(np.ones((2, 4))), centered(0.1), np.empty(1))


def _backend(norm: float = 1.0, seed: int = 0, dtype: type = np.float32) -> NumbaBackend:
    """A looped network whose read-out has the spectral norm `norm`."""
    network = looped_mlp(4, 6, 3)
    params = initial_params(network, np.random.default_rng(seed), dtype)
    params["W_out"][...] *= norm / np.linalg.norm(params["W_out"].astype(np.float64), 2)
    return NumbaBackend(network, params)


@given(st.floats(1e-3, 10.0), st.floats(0.02, 30.0))
def test_the_guard_warns_exactly_outside_the_safe_range(beta: float, norm: float) -> None:
    backend = _backend(norm, dtype=np.float64)
    nudge = beta * np.linalg.norm(backend.params["W_out"], 2) ** 2
    if abs(nudge / SAFE_NUDGE - 1) < 1e-9:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unsafe = warn_unsafe(backend, beta)
    assert unsafe == (nudge > 0.1)
    assert len(caught) == unsafe
    if unsafe:
        assert f"beta {beta:g} times the curvature" in str(caught[0].message)


@given(st.floats(0.0, 1e3))
def test_a_safe_beta_is_the_largest_inside_the_safe_range(norm: float) -> None:
    backend = _backend(norm, dtype=np.float64)
    beta = safe_beta(backend)
    assert 0.0 < beta <= LARGEST_BETA
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not warn_unsafe(backend, beta)
    if beta < LARGEST_BETA:
        assert beta * np.linalg.norm(backend.params["W_out"], 2) ** 2 > 0.999 * SAFE_NUDGE


def test_a_squared_error_has_the_curvature_one() -> None:
    network = layered((4, 3, 2), readout="squared_error")
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    assert abs(safe_beta(backend) - LARGEST_BETA) < 1e-6
    with pytest.warns(NudgeWarning, match="over the safe 0.1"):
        assert warn_unsafe(backend, 0.11)


@given(cases())
def test_no_cost_curves_more_than_its_bound(case: Case) -> None:
    readout, rng = case.network.readout, np.random.default_rng(0)
    s = case.network.of(readout.layer, case.start)
    push = 1e-3 * rng.standard_normal(s.shape)
    turn = readout.nudge(case.params, s + push, case.y) - readout.nudge(case.params, s, case.y)
    bound = readout.curvature(case.params) * np.linalg.norm(by_sample(push), axis=1)
    assert (np.linalg.norm(by_sample(turn), axis=1) <= bound * (1 + 1e-9) + 1e-15).all()


def _data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.standard_normal((24, 4)), rng.integers(3, size=24)


def test_fit_warns_once_of_an_unsafe_beta_and_never_of_an_automatic_one() -> None:
    x, y = _data()
    with pytest.warns(NudgeWarning, match="over the safe 0.1") as caught:
        fit(_backend(norm=3.0), x, y, Training(epochs=3, beta=0.05))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(_backend(norm=3.0), x, y, Training(epochs=3, beta="auto"))
        fit(_backend(norm=1.0), x, y, Training(epochs=1, beta=0.05))


def test_one_tiny_nudge_is_the_default_of_displacements() -> None:
    backend = _backend()
    assert Training().phases(backend) == one_sided(TINY_BETA)
    assert Training(estimator="centered").phases(backend) == centered(TINY_BETA)
    assert Training(beta=0.05).phases(backend) == centered(0.05)
    states = Training(nudged=Relaxation(displaced=False))
    assert states.phases(backend) == centered(safe_beta(backend))


def test_an_automatic_beta_of_states_is_the_safe_one_at_every_step() -> None:
    x, y = _data()
    targets = np.eye(3, dtype=np.float32)[y]
    auto, fixed = _backend(norm=2.0), _backend(norm=2.0)
    runs = [Run.start(auto.network, 2, np.float32, seed=0) for _ in range(2)]
    used, states = [], Relaxation(displaced=False)
    for _ in range(5):
        used.append(safe_beta(fixed))
        train_step(auto, x, targets, Training(beta="auto", nudged=states), runs[0], 10)
        train_step(fixed, x, targets, Training(beta=used[-1], nudged=states), runs[1], 10)
        np.testing.assert_array_equal(auto.params.theta, fixed.params.theta)
    assert len(set(used)) == 5


def test_a_readout_of_zeros_still_trains() -> None:
    network = looped_mlp(4, 6, 3)
    params = initial_params(network, np.random.default_rng(0))
    Params(network, params.theta)["W_out"][...] = 0.0
    backend = NumbaBackend(network, params)
    fit(backend, *_data(), Training(epochs=1, beta="auto"))
    assert backend.params["W_out"].any()


def _lost(network: Network, beta: float, displaced: bool = False) -> tuple[float, bool]:
    """Share of the hidden gradient that single precision loses at `beta`, and whether it warns."""
    rng = np.random.default_rng(0)
    params = initial_params(network, rng, np.float64)
    x = rng.normal(size=(16, network.inputs))
    y = np.eye(network.outputs)[rng.integers(0, network.outputs, 16)]
    hidden = slice(0, network.blocks["W_out"].start)
    gradients, warned = [], False
    for dtype in (np.float64, np.float32):
        backend = NumbaBackend(network, params.astype(dtype))
        settling = Relaxation(300, 8 * float(np.finfo(dtype).eps))
        gradient = np.zeros(network.size, dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            way = replace(settling, displaced=displaced)
            estimate(backend, backend.clamp(x, y), centered(beta), gradient, settling, way)
        gradients.append(gradient[hidden].astype(np.float64))
        warned = any(isinstance(w.message, NudgeWarning) for w in caught)
    exact, rounded = gradients
    return float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact)), warned


@pytest.mark.parametrize("network", [looped_mlp(5, 20, 3), layered((5, 20, 20, 3))])
def test_a_nudge_that_the_precision_cannot_carry_is_warned_of(network: Network) -> None:
    losses = {beta: _lost(network, beta) for beta in (1e-2, 1e-3, 2e-4, 1e-5, 1e-6, 1e-12)}
    assert all(loss < 0.05 for loss, warned in losses.values() if not warned)
    assert [beta for beta, (_, warned) in losses.items() if warned] == [1e-5, 1e-6, 1e-12]
    assert losses[1e-12][0] > 0.5  # nothing of it is left
    # Rounding does not depend on beta, and is divided by it.
    assert 3 < losses[1e-5][0] / losses[2e-4][0] < 200
    for beta in losses:  # a displacement carries them all
        loss, warned = _lost(network, beta, displaced=True)
        assert loss < 2e-5
        assert not warned


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize(
    ("beta", "displaced", "lost"),
    [
        (1.0, False, False),
        (1e-2, False, False),
        (1e-6, False, True),
        (1e-6, True, False),
        (1e-34, True, True),
    ],
)
def test_the_smallest_nudge_decides_and_the_free_phase_is_none(
    make: object, beta: float, displaced: bool, lost: bool
) -> None:
    network = looped_mlp(5, 20, 3)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    clamped, gradient = backend.clamp(np.ones((2, 5)), np.eye(3)[:2]), np.zeros(network.size, "f4")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nudged = Relaxation(displaced=displaced)
        estimate(backend, clamped, make(beta), gradient, nudged=nudged)
    assert any("float32 carry" in str(warning.message) for warning in caught) == lost
    # Where the user called, not inside the engine.
    assert all(warning.filename == __file__ for warning in caught)
