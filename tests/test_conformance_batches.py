"""Batches and phases: no sample sees another, and no phase is changed by the one beside it.

Every backend runs this, on samples that settle at different times and have different targets.
"""

from itertools import product

import numpy as np
import pytest

from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import TokenReadout
from engine.equilibrium import Equilibrium, Relaxation
from engine.model.params import Params
from tests.conformance import (
    RUNNABLE,
    SAMPLES,
    Trial,
    around,
    assert_close,
    stepped,
)

BETA = 0.2
BATCHES = (
    np.arange(SAMPLES)[::-1],
    np.array([5, 0, 0, 3, 5, 1, 4, 2, 2, 2, 1, 5, 0, 4, 3]),
    np.arange(1, SAMPLES),
    np.arange(SAMPLES - 1),
    np.array([2]),
)
"""Rows in another order, repeated, without the first or the last of them, and one alone."""


@pytest.fixture(params=RUNNABLE.values(), ids=RUNNABLE)
def trial(request: pytest.FixtureRequest) -> Trial:
    return Trial(*request.param)


def assert_same(found: Equilibrium, expected: Equilibrium, error: float) -> None:
    """Of every sample the steps exactly, the rest to `error`; zero is bit for bit."""
    np.testing.assert_array_equal(found.steps, expected.steps)
    np.testing.assert_array_equal(found.converged, expected.converged)
    assert found.beta == expected.beta
    assert_close(found.state, expected.state, error)
    assert_close(found.residual, expected.residual, error)


def test_a_sample_settles_in_every_batch_as_it_would_alone(trial: Trial) -> None:
    parts = [trial.backend.clamp(trial.x[rows], trial.y[rows]) for rows in BATCHES]
    for solver, beta in product(trial.solvers, (0.0, BETA)):
        way = Relaxation(4000 if solver == "ode" else 40, 1e-4, solver)
        whole = trial.backend.settle(trial.clamped, beta, way, trial.uneven)
        assert len(set(whole.steps)) > 1 or not trial.network.recurrent
        for rows, part in zip(BATCHES, parts, strict=True):
            found = trial.backend.settle(part, beta, way, trial.uneven[rows])
            assert_same(found, whole.rows(rows), trial.between_batches)


def test_phases_that_are_relaxed_together_keep_samples_apart(trial: Trial) -> None:
    parts = [trial.backend.clamp(trial.x[rows], trial.y[rows]) for rows in BATCHES]
    for solver in trial.solvers:
        ways = Relaxation(40, 1e-3, solver), Relaxation(40, 1e-4, solver)
        whole = trial.backend.relax(trial.clamped, around(BETA, *ways), trial.uneven)
        for rows, part in zip(BATCHES, parts, strict=True):
            found = trial.backend.relax(part, around(BETA, *ways), trial.uneven[rows])
            for one, other in zip(found, whole, strict=True):
                assert_same(one, other.rows(rows), trial.between_batches)


@pytest.mark.parametrize("max_steps", [1, 3, 40])
def test_a_phase_is_the_same_beside_others_whatever_solved_the_one_before(
    trial: Trial, max_steps: int
) -> None:
    """Some free phases end unsettled: what is known of a state there must be of that state."""
    backend, clamped = trial.backend, trial.clamped
    for before, after in product(trial.solvers, repeat=2):
        free, nudged = Relaxation(max_steps, 1e-4, before), Relaxation(3, 1e-4, after)
        for start in (None, trial.uneven):
            settled, *phases = backend.relax(clamped, around(BETA, free, nudged), start)
            alone = backend.settle(clamped, 0.0, free, start)
            assert_same(settled, alone, trial.between_batches)
            phases += backend.relax(clamped, (((BETA, -BETA), nudged),), alone.state)
            for beta, phase in zip(2 * (BETA, -BETA), phases, strict=True):
                expected = backend.settle(clamped, beta, nudged, alone.state)
                assert_same(phase, expected, trial.between_batches)


def test_a_phase_that_starts_at_its_own_equilibrium_ends_there_in_one_step(trial: Trial) -> None:
    backend, clamped = trial.backend, trial.clamped
    for solver in trial.solvers:
        way = trial.candidate.settling(solver)
        loose = Relaxation(way.max_steps, 2 * way.tolerance, solver)
        free = backend.settle(clamped, 0.0, way)
        again, *_ = backend.relax(clamped, around(BETA, loose, way), free.state)
        assert (again.steps == 1).all()
        np.testing.assert_array_equal(again.state, free.state)
        for sign in (0, 1):
            ended = backend.relax(clamped, (((BETA, -BETA), way),), free.state)[sign]
            again = backend.relax(clamped, (((BETA, -BETA), loose),), ended.state)[sign]
            assert (again.steps == 1).all()
            np.testing.assert_array_equal(again.state, ended.state)


def test_the_residual_of_a_sample_that_ran_out_is_that_before_its_last_step(trial: Trial) -> None:
    for solver in trial.solvers:
        state = trial.uneven
        for steps in range(1, 6):
            found = trial.backend.settle(
                trial.clamped, BETA, Relaxation(steps, 0.0, solver), trial.uneven
            )
            expected = np.abs(stepped(trial, state, BETA, solver) - state).max(-1)
            assert_close(found.residual, expected, trial.candidate.error)
            state = found.state


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_softmax_does_not_see_what_all_its_logits_share(trial: Trial, sign: float) -> None:
    """By more than the exponential can hold, where a bias can be that large."""
    if not isinstance(trial.network.readout, SoftmaxReadout | TokenReadout):
        pytest.skip("the read-out is no softmax")
    shift = 128.0 if trial.candidate.dtype == np.float32 else 1024.0
    if "large logits" in trial.candidate.unsupported:
        shift = 1.0
    params = trial.params.copy()
    params["b_out"][...] += sign * shift
    other = trial.candidate.build(trial.network, params)
    seen = []
    for backend in (trial.backend, other):
        clamped = backend.clamp(trial.x, trial.y)
        nudged = backend.settle(clamped, BETA, trial.candidate.settling())
        total = np.zeros(trial.network.size, trial.candidate.dtype)
        backend.accumulate(clamped, nudged, total, cost=1.0)
        seen.append((nudged.state, backend.predict(nudged), backend.cost(clamped, nudged), total))
    for found, expected in zip(*seen, strict=True):
        assert_close(found, expected, 20 * trial.candidate.error)


def test_a_softmax_that_is_sure_is_finite_and_linear(trial: Trial) -> None:
    """Logits thousands apart: `p` is one class, and the cost how far the others are below it."""
    readout, dtype = trial.network.readout, trial.candidate.dtype
    if not isinstance(readout, SoftmaxReadout | TokenReadout):
        pytest.skip("the read-out is no softmax")
    if "large logits" in trial.candidate.unsupported:
        pytest.skip(trial.candidate.unsupported["large logits"])
    tokens = trial.network.outputs // readout.outputs
    gaps = 4096.0 * np.arange(readout.outputs)
    params = trial.params.copy()
    params["W_out"][...] = 0.0
    params["b_out"][...] = -gaps
    backend = trial.candidate.build(trial.network, params)
    clamped = backend.clamp(trial.x, trial.y)
    ended = backend.settle(clamped, BETA, trial.candidate.settling())
    total = Params(trial.network, np.zeros(trial.network.size, dtype))
    backend.accumulate(clamped, ended, total.theta, cost=1.0)
    sure = np.eye(readout.outputs)[0]
    targets = np.float64(trial.y).reshape(SAMPLES, tokens, -1)
    np.testing.assert_array_equal(backend.predict(ended), np.tile(sure, (SAMPLES, tokens)))
    np.testing.assert_array_equal(backend.cost(clamped, ended), (targets @ gaps).sum(1))
    np.testing.assert_array_equal(total["b_out"], (sure - targets).sum((0, 1)))
