"""Estimates on every backend: what the phases of a batch add up to, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from engine.arrays import FloatArray
from engine.equilibrium import Relaxation, Solver
from engine.errors import NudgeWarning
from engine.learning.estimator import Report, estimate, named_estimator
from tests.conformance import RUNNABLE, SAMPLES, Trial, assert_close

NAMES = ("one_sided", "centered", "four_point")
BETA = 0.1


@pytest.fixture(params=RUNNABLE.values(), ids=RUNNABLE)
def trial(request: pytest.FixtureRequest) -> Trial:
    return Trial(*request.param)


def estimated(
    trial: Trial,
    name: str,
    ways: tuple[Relaxation, Relaxation],
    beta: float = BETA,
    rows: slice = slice(None),
    start: FloatArray | None = None,
) -> tuple[FloatArray, Report]:
    """Return the gradient of some of the samples, and the report."""
    gradient = np.empty(trial.network.size, trial.candidate.dtype)
    clamped = trial.backend.clamp(trial.x[rows], trial.y[rows])
    phases = named_estimator(name, beta)
    report = estimate(trial.backend, clamped, phases, gradient, *ways, start)
    return gradient, report


def test_the_gradient_and_cost_of_a_batch_are_the_means_of_its_samples(trial: Trial) -> None:
    ways = Relaxation(40, 1e-3), Relaxation(40, 1e-3)
    for name in NAMES:
        whole, report = estimated(trial, name, ways, start=trial.uneven)
        rows = [slice(k, k + 1) for k in range(SAMPLES)]
        alone = [estimated(trial, name, ways, rows=row, start=trial.uneven[row]) for row in rows]
        mean = np.mean([np.float64(gradient) for gradient, _ in alone], axis=0)
        assert_close(whole, mean, trial.candidate.error / BETA)
        for field in ("cost", "free_steps", "nudged_steps", "unsettled"):
            expected = np.mean([getattr(single, field) for _, single in alone])
            assert getattr(report, field) == pytest.approx(expected, abs=trial.candidate.error)


def test_a_report_says_what_every_phase_did(trial: Trial) -> None:
    """Recomputed from the phases themselves, of which some samples settle and some do not."""
    free, nudged = Relaxation(2, 1e-2), Relaxation(2, 1e-1, displaced=False)
    rounding = 8 * float(np.finfo(trial.candidate.dtype).eps)
    for name in NAMES:
        _, report = estimated(trial, name, (free, nudged), start=trial.uneven)
        betas = [beta for beta, _ in named_estimator(name, BETA) if beta != 0.0]
        first = free.nudged(min(betas), rounding) if name == "one_sided" else free
        settled = trial.backend.settle(trial.clamped, 0.0, first, trial.uneven)
        phases = [
            trial.backend.settle(trial.clamped, beta, nudged.nudged(beta, rounding), settled.state)
            for beta in betas
        ]
        unsettled = [1.0 - phase.converged.mean() for phase in (settled, *phases)]
        assert 0.0 < unsettled[0] < 1.0 or not trial.network.recurrent
        assert report.unsettled == pytest.approx(np.mean(unsettled))
        assert report.free_steps == settled.steps.mean()
        assert report.nudged_steps == pytest.approx(np.mean([p.steps.mean() for p in phases]))
        costs = trial.backend.cost(trial.clamped, settled)
        assert report.cost == pytest.approx(costs.mean(), abs=trial.candidate.error)


def test_an_estimate_that_starts_at_the_free_equilibrium_needs_one_free_step(trial: Trial) -> None:
    ways = Relaxation(40, 1e-2), Relaxation(40, 1e-2)
    start = trial.relax().state
    for name in NAMES:
        _, cold = estimated(trial, name, ways)
        _, warm = estimated(trial, name, ways, start=start)
        assert warm.free_steps == 1.0
        assert cold.free_steps > 1.0 or not trial.network.recurrent


@pytest.mark.parametrize("name", NAMES)
def test_a_small_beta_costs_no_accuracy(trial: Trial, name: str) -> None:
    """The error of an estimate is O(tolerance): each of its phases settles in proportion to beta.

    A phase that does not, be it the free one, leaves an error of O(tolerance / beta).
    """
    if "small nudges" in trial.candidate.unsupported:
        pytest.skip(trial.candidate.unsupported["small nudges"])
    way = Relaxation(400, 3e-4)
    blocks = trial.params.astype(np.float64)
    exact = implicit_gradient(trial.network, blocks, np.float64(trial.x), np.float64(trial.y))
    found, _ = estimated(trial, name, (way, way), beta=0.003)
    cosine = exact @ found / (np.linalg.norm(exact) * np.linalg.norm(np.float64(found)))
    assert cosine > 0.999


@pytest.mark.parametrize("solver", ["fixed_point", "sweeps", "anderson"])
@pytest.mark.parametrize("name", NAMES)
def test_a_displacement_carries_the_smallest_nudge(trial: Trial, name: str, solver: Solver) -> None:
    """Of states in single precision a nudge of one millionth leaves nothing but rounding."""
    if not trial.backend.displaces or solver not in trial.solvers:
        pytest.skip("not in the backend, or a coupling is not linear")
    way = Relaxation(400, 1e-7 if trial.candidate.dtype is np.float64 else 1e-6, solver)
    blocks = trial.params.astype(np.float64)
    exact = implicit_gradient(trial.network, blocks, np.float64(trial.x), np.float64(trial.y))
    found, _ = estimated(trial, name, (way, way), beta=1e-6)
    error = np.linalg.norm(np.float64(found) - exact) / np.linalg.norm(exact)
    assert error < 3e-5
    if trial.candidate.dtype is np.float32:
        states = replace(way, displaced=False)
        with pytest.warns(NudgeWarning, match="the least that states"):
            lost, _ = estimated(trial, name, (way, states), beta=1e-6)
        assert np.linalg.norm(np.float64(lost) - exact) > 0.1 * np.linalg.norm(exact)


def test_phases_of_one_free_state_are_displaced_from_it(trial: Trial) -> None:
    """Alone, from where the free phase ended, a displacement is what it is in the plan."""
    if not trial.backend.displaces:
        pytest.skip("not in the backend, or a coupling is not linear")
    backend, clamped, way = trial.backend, trial.clamped, trial.candidate.settling()
    nudged = replace(way, displaced=True)
    free, plus, minus = backend.relax(clamped, (((0.0,), way), ((BETA, -BETA), nudged)))
    alone = backend.settle(clamped, BETA, nudged, free.state)
    assert plus.origin is minus.origin is free.state
    assert_close(alone.displacement, plus.displacement, 10 * trial.candidate.tolerance)
    assert_close(plus.against(minus).gap, plus.displacement - minus.displacement, 0.0)
    assert_close(plus.against(free).gap, plus.displacement, 0.0)
    assert_close(free.against(plus).gap, -plus.displacement, 0.0)
    elsewhere = backend.settle(clamped, -BETA, nudged, free.state.copy())
    assert plus.against(elsewhere).gap is None  # nobody knows that the copy is the same state
    gradients = np.zeros((2, trial.network.size), trial.candidate.dtype)
    for gradient, other in zip(gradients, (minus, elsewhere), strict=True):
        backend.accumulate(clamped, plus.against(other), gradient, energy=1 / (2 * BETA))
    assert_close(*gradients, SAMPLES * trial.candidate.error / BETA)
