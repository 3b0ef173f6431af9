"""Anderson mixing on every backend that has it: what it promises, and what it takes back."""

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.learning.spectral import recurrent_matrix
from engine.model.builders import layered
from engine.model.params import Params
from experiments.fuzz.phases import plain_steps
from experiments.fuzz.strategies import scale_recurrent
from tests.conformance import CANDIDATES, NETWORKS, SAMPLES, Candidate, Trial, assert_close, image

MIXING = [c for c in CANDIDATES if "anderson" not in c.unsupported]


@pytest.fixture(params=MIXING, ids=lambda candidate: candidate.name)
def candidate(request: pytest.FixtureRequest) -> Candidate:
    return request.param


@pytest.mark.parametrize("network", ["looped", "layered-2", "layered-3"])
def test_a_mixture_that_raised_the_residual_is_taken_back(
    candidate: Candidate, network: str
) -> None:
    """The state after a rise is the plain step from the state before it; so is the one after."""
    trial = Trial(candidate, NETWORKS[network], gain=6.0)
    near = 0.1 * np.random.default_rng(3).standard_normal((SAMPLES, trial.network.units))
    states, residuals = [near.astype(candidate.dtype)], []
    for steps in range(1, 25):
        way = Relaxation(steps, 0.0, "anderson")
        found = trial.backend.settle(trial.clamped, 0.0, way, states[0])
        states.append(found.state)
        residuals.append(found.residual)
    images, undone = [image(trial, state) for state in states], 0
    for sample in range(SAMPLES):
        for k, due in enumerate(plain_steps([float(r[sample]) for r in residuals])):
            if due is not None:
                assert_close(states[k + 1][sample], images[due][sample], candidate.error)
                undone += due < k
    assert undone > 0
    assert np.abs(states).max() <= 1.0  # no mixture leaves the range of tanh


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_map_is_solved_in_as_many_steps_as_it_has_units(
    candidate: Candidate, seed: int
) -> None:
    """As a Krylov method does: inside their range hard sigmoids are linear."""
    network, rng = layered((1, 2, 1), "hard_sigmoid", "squared_error"), np.random.default_rng(seed)
    params = Params(network, rng.standard_normal(network.size))
    scale_recurrent(params, 0.9)
    goal = rng.uniform(0.4, 0.6, network.units)
    bias = goal - recurrent_matrix(params) @ goal
    for coupling in network.couplings:
        if coupling.clamped and params[coupling.name].ndim == 1:
            params[coupling.name][...] = bias[network.columns[coupling.layers[0]]]
    backend = candidate.build(network, params.astype(candidate.dtype))
    start, clamped = goal + rng.uniform(-0.1, 0.1, (SAMPLES, network.units)), np.zeros((SAMPLES, 1))
    tolerance = float(np.finfo(candidate.dtype).eps) ** 0.5
    found, plain = (
        backend.settle(backend.clamp(clamped), 0.0, Relaxation(400, tolerance, solver), start)
        for solver in ("anderson", "fixed_point")
    )
    assert found.converged.all()
    assert found.steps.max() <= network.units + 3  # the first, the last, and one for the ridge
    assert plain.steps.min() > 3 * found.steps.max()
    assert_close(found.state, np.tile(goal, (SAMPLES, 1)), tolerance / (1 - 0.9))
