"""One suite that every backend runs; `conformance.py` lists the backends and what they lack."""

from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest

from engine.equilibrium import Relaxation, Solver
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import centered, estimate
from engine.model.builders import looped_mlp
from engine.model.params import Params
from tests.conformance import (
    CANDIDATES,
    NETWORKS,
    SAMPLES,
    Candidate,
    Trial,
    assert_close,
    equilibrium,
    mean_cost,
    only_links,
    slopes,
    stepped,
    walk,
)


@pytest.fixture(params=CANDIDATES, ids=lambda candidate: candidate.name)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return request.param


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def trial(request: pytest.FixtureRequest, candidate: Candidate) -> Trial:
    trial = Trial(candidate, request.param)
    if "no link" in candidate.unsupported and not only_links(trial.network):
        with pytest.raises(EngineError, match="has no model"):
            candidate.build(trial.network, trial.params)
        pytest.skip(candidate.unsupported["no link"])
    return trial


@pytest.fixture
def looped(candidate: Candidate) -> Trial:
    """For what does not depend on the network."""
    return Trial(candidate, NETWORKS["looped"])


def test_unsupported_solvers_are_those_declared(looped: Trial) -> None:
    missing = set(get_args(Solver)) - looped.backend.solvers
    assert missing == set(looped.candidate.unsupported) & set(get_args(Solver))
    for solver in missing:
        with pytest.raises(EngineError, match=f"has no solver '{solver}'"):
            looped.backend.settle(looped.clamped, relaxation=Relaxation(solver=solver))


@pytest.mark.parametrize("beta", [0.0, 0.1, -0.1])
def test_relax_finds_the_fixed_point_of_the_formulas(trial: Trial, beta: float) -> None:
    expected = equilibrium(trial, beta)
    ways = [trial.candidate.settling(solver) for solver in trial.solvers]
    if "damping" not in trial.candidate.unsupported:
        ways.append(trial.candidate.settling(damping=0.6))
    for way in ways:
        found = trial.backend.settle(trial.clamped, beta, way)
        assert found.converged.all(), (way, found.summary())
        assert_close(found.state, expected, trial.candidate.error)


@pytest.mark.parametrize("beta", [0.0, 0.1, -0.1])
def test_residual_holds_at_the_returned_state(trial: Trial, beta: float) -> None:
    rounding = trial.candidate.rounding or 20 * np.finfo(trial.candidate.dtype).eps
    for solver in trial.solvers:
        found = trial.backend.settle(trial.clamped, beta, trial.candidate.settling(solver))
        residual = np.abs(stepped(trial, found.state, beta, solver) - found.state).max(-1)
        assert (residual <= trial.candidate.tolerance + rounding).all(), solver
        assert_close(found.residual, residual, rounding)


def test_relaxing_an_equilibrium_changes_nothing(trial: Trial) -> None:
    for solver in trial.solvers:
        found = trial.backend.settle(trial.clamped, 0.0, trial.candidate.settling(solver))
        again = trial.backend.settle(trial.clamped, 0.0, trial.candidate.settling(), found.state)
        settled = again.steps == 1  # rounding may lift a residual over the tolerance once more
        np.testing.assert_array_equal(again.state[settled], found.state[settled])
        assert_close(again.state, found.state, 2 * trial.candidate.tolerance)
        assert settled.mean() >= 0.5


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize(
    ("solver", "damping"),
    [("fixed_point", 1.0), ("fixed_point", 0.7), ("alternating", 1.0), ("sweeps", 1.0)],
)
def test_every_step_is_the_one_of_the_definition(
    trial: Trial, solver: Solver, damping: float, beta: float
) -> None:
    if solver not in trial.solvers:
        pytest.skip("not in the backend, or the network has no halves")
    if damping != 1.0 and "damping" in trial.candidate.unsupported:
        with pytest.raises(EngineError, match="has no damping"):
            trial.backend.settle(trial.clamped, beta, Relaxation(1, 1e-3, solver, damping))
        return
    for max_steps in (1, 2, 3, 40):
        relaxation = Relaxation(max_steps, 1e-3, solver, damping)
        found = trial.backend.settle(trial.clamped, beta, relaxation)
        expected = walk(trial, relaxation, beta)
        np.testing.assert_array_equal(found.steps, expected.steps)
        np.testing.assert_array_equal(found.converged, expected.converged)
        assert_close(found.state, expected.state, trial.candidate.error)
        assert_close(found.residual, expected.residual, trial.candidate.error)
        assert found.beta == beta


@pytest.mark.parametrize("solver", ["fixed_point", "sweeps"])
def test_every_step_of_a_displacement_is_the_one_of_the_definition(
    trial: Trial, solver: Solver
) -> None:
    """From states that are no equilibria, so that samples stop at different times."""
    relaxation = Relaxation(3, 1e-3, solver, displaced=True)
    if solver not in trial.solvers or not trial.backend.displaces:
        with pytest.raises(EngineError, match=r"cannot displace|has no solver"):
            trial.backend.settle(trial.clamped, 0.1, relaxation, trial.uneven)
        return
    for beta, max_steps in product((0.1, -0.1, 0.0), (1, 2, 40)):
        way = replace(relaxation, max_steps=max_steps)
        found = trial.backend.settle(trial.clamped, beta, way, trial.uneven)
        expected = walk(trial, way, beta, trial.uneven)
        assert found.displacement is not None
        np.testing.assert_array_equal(found.steps, expected.steps)
        np.testing.assert_array_equal(found.converged, expected.converged)
        assert_close(found.displacement, expected.state, trial.candidate.error)
        assert_close(found.state, trial.uneven + expected.state, trial.candidate.error)
        assert found.origin is trial.uneven


def test_networks_are_displaced_where_only_activations_are_not_linear(trial: Trial) -> None:
    no_drive = "displaced" in trial.candidate.unsupported
    assert trial.backend.displaces == (trial.network.linear and not no_drive)
    with pytest.raises(EngineError, match=r"give a start|cannot displace"):
        trial.backend.settle(trial.clamped, 0.1, Relaxation(displaced=True))


def test_one_step_honours_the_start_and_leaves_it_alone(trial: Trial) -> None:
    start = np.full((SAMPLES, trial.network.units), 0.25, trial.candidate.dtype)
    for solver in trial.solvers:
        residual = np.abs(stepped(trial, start, 0.0, solver) - 0.25).max(-1)
        found = trial.backend.settle(trial.clamped, 0.0, Relaxation(1, 0.0, solver), start)
        assert not found.converged.any()
        assert (found.steps == 1).all()
        assert_close(found.residual, residual, trial.candidate.error)
        assert (start == 0.25).all()


def test_a_plan_that_cannot_be_run_is_refused_before_it_begins(looped: Trial) -> None:
    backend, clamped = looped.backend, looped.clamped
    start, both = np.zeros((SAMPLES, looped.network.units)), (((0.2, -0.2), Relaxation()),)
    with pytest.raises(EngineError, match="start has 1 samples"):
        backend.relax(clamped, both, start[:1])
    with pytest.raises(EngineError, match="needs targets"):
        backend.relax(backend.clamp(clamped.x), both, start)
    for betas in ((), (0.0, 0.2), (0.2, 0.0)):
        with pytest.raises(EngineError, match="expected 0 alone, or only others"):
            backend.relax(clamped, ((betas, Relaxation()),))
    with pytest.raises(EngineError, match="plan has no stage"):
        backend.relax(clamped, ())


def test_nudging_moves_the_cost_the_right_way(trial: Trial) -> None:
    free = trial.relax()
    towards, away = (mean_cost(trial, trial.relax(b, free.state).state) for b in (0.1, -0.1))
    assert towards < mean_cost(trial, free.state) < away


def test_the_cost_is_that_of_the_definition(trial: Trial) -> None:
    settled = trial.relax()
    costs = trial.backend.cost(trial.clamped, settled)
    assert costs.shape == (SAMPLES,)
    assert float(costs.mean()) == pytest.approx(
        mean_cost(trial, settled.state), rel=trial.candidate.error, abs=trial.candidate.error
    )
    with pytest.raises(EngineError, match="needs targets y"):
        trial.backend.cost(trial.backend.clamp(trial.x), settled)


def test_accumulate_is_the_local_rule(trial: Trial) -> None:
    settled = trial.relax()
    energy, cost = slopes(trial, settled.state)
    gradient = np.ones(trial.network.size, trial.candidate.dtype)
    trial.backend.accumulate(trial.clamped, settled, gradient, energy=0.5, cost=-2.0)
    assert_close(gradient, 1.0 + 0.5 * energy - 2.0 * cost, 10 * trial.candidate.error)


def test_accumulate_adds_phase_by_phase(trial: Trial) -> None:
    settled, size, dtype = trial.relax(), trial.network.size, trial.candidate.dtype
    once, twice = np.zeros(size, dtype), np.zeros(size, dtype)
    trial.backend.accumulate(trial.clamped, settled, once, energy=0.5, cost=-2.0)
    trial.backend.accumulate(trial.clamped, settled, twice, energy=0.5)
    trial.backend.accumulate(trial.clamped, settled, twice, cost=-2.0)
    assert_close(twice, once, 10 * trial.candidate.error)
    trial.backend.accumulate(trial.clamped, settled, twice)
    assert_close(twice, once, 10 * trial.candidate.error)


def test_a_pair_of_phases_adds_the_difference_of_the_two(trial: Trial) -> None:
    free = trial.relax()
    plus, minus = trial.relax(0.1, free.state), trial.relax(-0.1, free.state)
    (first, cost), (second, _) = slopes(trial, plus.state), slopes(trial, minus.state)
    gradient = np.ones(trial.network.size, trial.candidate.dtype)
    pair = plus.against(minus)
    trial.backend.accumulate(trial.clamped, pair, gradient, energy=0.5, cost=-2.0)
    expected = 1.0 + 0.5 * (first - second) - 2.0 * cost
    assert_close(gradient, expected, 10 * trial.candidate.error)
    assert plus.opposite is None


def test_estimate_agrees_with_the_formulas(trial: Trial) -> None:
    beta, settling = 0.1, trial.candidate.settling()
    gradient = np.full(trial.network.size, np.nan, trial.candidate.dtype)
    estimate(trial.backend, trial.clamped, centered(beta), gradient, settling)
    _, expected = slopes(trial, equilibrium(trial))
    for b, coefficient in centered(beta):
        expected = expected + coefficient * slopes(trial, equilibrium(trial, b))[0]
    assert_close(gradient, expected / SAMPLES, trial.candidate.error / beta)


def test_apply_adds_to_parameters_of_its_own(looped: Trial) -> None:
    update = np.zeros(looped.network.size, looped.candidate.dtype)
    Params(looped.network, update)["W_in"][...] = 0.125
    expected = looped.backend.params.theta + update
    looped.backend.apply(update)
    looped.params.theta[:] = 0.0
    assert_close(looped.backend.params.theta, expected, looped.candidate.error)
    with pytest.raises(EngineError, match="update has shape"):
        looped.backend.apply(update[1:])
    with pytest.raises(DivergenceError, match="update holds inf"):
        looped.backend.apply(np.full_like(update, np.inf))


def test_clamp_refuses_what_it_cannot_hold(looped: Trial) -> None:
    bad = looped.x.copy()
    bad[2, 1] = np.nan
    for x, y, message in (
        (looped.x[:, 1:], None, "x has shape"),
        (looped.x[0], None, "x has shape"),
        (looped.x, looped.y[:, 1:], "y has shape"),
        (looped.x, looped.y[1:], "y has 5 samples, x has 6"),
        (bad, None, "x holds nan at sample 2, column 1"),
        (looped.x[:0], None, "x holds no samples"),
        (looped.x, np.full_like(looped.y, np.inf), "y holds inf"),
    ):
        with pytest.raises(EngineError, match=message):
            looped.backend.clamp(x, y)


def test_relax_refuses_what_makes_no_sense(looped: Trial) -> None:
    backend, batch = looped.backend, looped.backend.clamp(looped.x)
    with pytest.raises(EngineError, match="needs targets"):
        backend.settle(batch, 0.1)
    with pytest.raises(EngineError, match="beta is nan"):
        backend.settle(batch, np.nan)
    with pytest.raises(EngineError, match="start has 1 samples"):
        backend.settle(batch, start=np.zeros((1, looped.network.units)))
    has_solver = "alternating" in backend.solvers
    with pytest.raises(EngineError, match="lies inside one" if has_solver else "has no solver"):
        backend.settle(batch, relaxation=Relaxation(solver="alternating"))


def test_a_stale_clamp_is_refused(looped: Trial) -> None:
    settled = looped.relax()
    gradient = np.zeros(looped.network.size, looped.candidate.dtype)
    looped.backend.apply(gradient)
    with pytest.raises(EngineError, match="clamp it again"):
        looped.backend.settle(looped.clamped)
    with pytest.raises(EngineError, match="clamp it again"):
        looped.backend.accumulate(looped.clamped, settled, gradient, energy=1.0)


def test_load_refuses_bad_parameters_and_keeps_the_old(looped: Trial) -> None:
    kept = looped.backend.params.theta.copy()
    for block, index, value, message in (
        ("b", 1, np.nan, "'b' holds a value that is not finite"),
        ("W_rec", (0, 1), 9.0, "'W_rec' is not symmetric"),
    ):
        bad = looped.params.copy()
        bad[block][index] = value
        with pytest.raises(EngineError, match=message):
            looped.backend.load(bad)
    other = looped_mlp(4, 7, 3)
    with pytest.raises(EngineError, match="another network"):
        looped.backend.load(Params(other, np.zeros(other.size)))
    np.testing.assert_array_equal(looped.backend.params.theta, kept)


def test_a_sample_of_weight_two_counts_as_two_samples(trial: Trial) -> None:
    weights = np.array([2, 0, 1, 1, 3, 0])
    rows = np.repeat(np.arange(SAMPLES), weights)
    settling, backend = trial.candidate.settling(), trial.backend
    gradients, costs = np.zeros((2, trial.network.size), trial.candidate.dtype), []
    for gradient, batch in zip(
        gradients,
        (backend.clamp(trial.x, trial.y, weights), backend.clamp(trial.x[rows], trial.y[rows])),
        strict=True,
    ):
        costs.append(estimate(backend, batch, centered(0.1), gradient, settling).cost)
    assert costs[0] == pytest.approx(costs[1], abs=trial.candidate.error)
    assert_close(gradients[0], gradients[1], 20 * trial.candidate.error)  # divided by 2 beta


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 5, r"weights have shape \(5,\), expected \(6,\)"),
        ([1.0] * 5 + [-1.0], "weights go from -1.0 to 1.0, expected none below zero"),
        ([0.0] * 6, "weights go from 0.0 to 0.0, expected none below zero and some above"),
        ([1.0] * 5 + [np.nan], "weights holds nan at place 5"),
    ],
)
def test_wrong_weights_are_refused(looped: Trial, weights: list[float], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        looped.backend.clamp(looped.x, looped.y, weights)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("solver", get_args(Solver))
def test_a_nan_on_the_way_is_a_divergence(candidate: Candidate, solver: Solver) -> None:
    """Finite parameters whose drives overflow to opposite infinities."""
    name = "layered-2" if solver == "alternating" else "looped"
    trial, largest = Trial(candidate, NETWORKS[name]), float(np.finfo(candidate.dtype).max)
    for lacking in (solver, "overflow", f"overflow of {solver}"):
        if lacking in candidate.unsupported:
            pytest.skip(candidate.unsupported[lacking])
    for block in trial.params:
        recurrent = block in ("W_rec", "W_2")
        trial.params[block][...] = -largest / 2 if recurrent else -(largest**0.6)
    if solver == "alternating":
        trial.params["W_2"][1::2] *= -1  # so that the half that starts has a drive of no sign
    batch = trial.backend.clamp(np.full_like(trial.x, largest**0.6))
    with pytest.raises(DivergenceError, match=r"sample \d stopped being finite at step \d"):
        trial.backend.settle(batch, relaxation=Relaxation(solver=solver))


def test_predict_reads_the_state(trial: Trial) -> None:
    settled = trial.relax()
    read = trial.network.of(trial.network.readout.layer, np.float64(settled.state))
    expected = trial.network.readout.predict(trial.params.astype(np.float64), read)
    assert_close(trial.backend.predict(settled), expected, trial.candidate.error)
