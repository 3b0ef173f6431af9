"""What theory says of several phases: those relaxed together, and an estimate made of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.learning.estimator import Report, estimate, named_estimator
from experiments.fuzz.strategies import Case, cases, quadratic_networks, wild_cases
from experiments.fuzz.theory import theory

NAMES = ("one_sided", "centered", "four_point")
BETA = 0.05
TIGHT = Relaxation(3000, 1e-13)


def around(beta: float, free: Relaxation, nudged: Relaxation) -> Plan:
    """Return the plan of a free phase, and of two opposite nudges from where it ends."""
    return (((0.0,), free), ((beta, -beta), nudged))


@theory(
    "A phase is the same beside others as alone, whatever solved the one before it.",
    wild_cases(high=1.5) | wild_cases(high=1.5, dtype=np.float32),
)
def phases_are_apart(case: Case) -> None:
    """Bit for bit, from any start, where the free phase settled and where it ran out of steps."""
    for before, after in product(case.solvers, repeat=2):
        for steps in (2, 30):
            free, nudged = Relaxation(steps, 1e-3, before), Relaxation(3, 1e-4, after)
            together = case.backend.relax(case.clamped, around(BETA, free, nudged), case.start)
            alone = case.backend.settle(case.clamped, 0.0, free, case.start)
            assert_same(together[0], alone)
            for beta, phase in zip((BETA, -BETA), together[1:], strict=True):
                assert_same(phase, case.backend.settle(case.clamped, beta, nudged, alone.state))
    for solver in case.solvers:
        way = Relaxation(3, 1e-4, solver)
        pair = case.backend.relax(case.clamped, (((BETA, -BETA), way),), case.start)
        for beta, phase in zip((BETA, -BETA), pair, strict=True):
            assert_same(phase, case.backend.settle(case.clamped, beta, way, case.start))


@theory(
    "What starts at its own equilibrium stays there, and needs one step to know it.",
    wild_cases(high=0.9),
)
def equilibria_stay(case: Case) -> None:
    """Of a phase beside others, and of the free phase of every estimate."""
    for solver in case.solvers:
        way = Relaxation(3000, 1e-9, solver)
        settled = case.backend.settle(case.clamped, 0.0, way)
        again = case.backend.relax(case.clamped, around(BETA, way, way), settled.state)[0]
        assert (again.steps == 1).all(), again.summary()
        np.testing.assert_array_equal(again.state, settled.state)
    for name in NAMES:
        assert _estimated(case, name, Relaxation(40, 1e-3), start=settled.state)[1].free_steps == 1


@theory(
    "Anderson mixing takes a mixture back that raised the residual.",
    cases(quadratic_networks(), low=0.5, high=3.0),
)
def mixtures_are_taken_back(case: Case) -> None:
    """The next state is then the plain step from the one before it, and so is the one after."""
    states, residuals = [case.start], []
    for count in range(1, 16):
        way = Relaxation(count, 0.0, "anderson")
        found = case.backend.settle(case.clamped, 0.0, way, case.start)
        states.append(found.state)
        residuals.append(found.residual)
    once = Relaxation(1, 0.0)
    images = [case.backend.settle(case.clamped, 0.0, once, state).state for state in states]
    for sample in range(len(case.x)):
        for k, due in enumerate(plain_steps([float(r[sample]) for r in residuals])):
            if due is not None:
                expected = images[due][sample]
                np.testing.assert_allclose(states[k + 1][sample], expected, rtol=0, atol=1e-12)


def plain_steps(residuals: Sequence[float]) -> list[int | None]:
    """Tell for each step of Anderson mixing from which state it is plain; None where it mixes.

    A history begins with a plain step. A mixture with a larger residual than the state before it
    ends the history, and the step is the plain one from that state.
    """
    steps: list[int | None] = []
    kept, last = 0, 0
    for k, residual in enumerate(residuals):
        if kept > 1 and residual > residuals[last]:
            kept = 0
            steps.append(last)
        else:
            kept, last = kept + 1, k
            steps.append(k if kept == 1 else None)
    return steps


@theory(
    "A report says what its phases did.",
    cases(high=1.5),
)
def reports_are_true(case: Case) -> None:
    """Recomputed from the phases one by one, of which some samples do not settle."""
    rounding = 8 * float(np.finfo(case.params.theta.dtype).eps)
    free, nudged = Relaxation(4, 1e-2), Relaxation(2, 1e-1, displaced=False)
    for name in NAMES:
        _, report = _estimated(case, name, free, nudged, case.start)
        betas = [beta for beta, _ in named_estimator(name, BETA) if beta != 0.0]
        first = free.nudged(min(betas), rounding) if name == "one_sided" else free
        settled = case.backend.settle(case.clamped, 0.0, first, case.start)
        phases = [
            case.backend.settle(case.clamped, beta, nudged.nudged(beta, rounding), settled.state)
            for beta in betas
        ]
        unsettled = [1.0 - phase.converged.mean() for phase in (settled, *phases)]
        steps = [phase.steps.mean() for phase in phases]
        expected = (settled.steps.mean(), np.mean(steps), np.mean(unsettled))
        found = (report.free_steps, report.nudged_steps, report.unsettled)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@theory(
    "The gradient of a batch is the mean of those of its samples.",
    cases(high=1.5),
)
def gradients_are_means(case: Case) -> None:
    """Of every estimator; beyond the cap too, where a sample may not settle."""
    way = Relaxation(12, 1e-3)
    for name in NAMES:
        whole, _ = _estimated(case, name, way, start=case.start)
        alone = [
            _estimated(case, name, way, start=case.start[[k]], rows=slice(k, k + 1))[0]
            for k in range(len(case.x))
        ]
        error = 1e-10 * (1.0 + np.abs(case.x).max()) / BETA
        np.testing.assert_allclose(whole, np.mean(alone, axis=0), rtol=1e-9, atol=error)


@theory(
    "A small beta costs no accuracy: every phase settles in proportion to it.",
    cases(quadratic_networks(), low=0.3, high=0.8),
)
def tolerance_follows_beta(case: Case) -> None:
    """The error is at most `sum_k |c_k| L |s_k - s*_k| + L |s_0 - s*_0|`, L of the local rules."""
    units = case.network.units
    curvature = case.network.readout.curvature(case.params)
    beta, tolerance = 1e-4 / (1.0 + curvature), 1e-4
    apart = tolerance * units**0.5 / (1.0 - case.norm - beta * curvature)
    ends = np.linalg.norm(case.x, axis=1).max() + 1.0 + 2.0 * units**0.5
    reading = curvature**0.5 * (1.0 + units**0.5) + 2.0
    for name in NAMES:
        exact, _ = _estimated(case, name, TIGHT, beta=beta)
        found, _ = _estimated(case, name, replace(TIGHT, tolerance=tolerance), beta=beta)
        phases = sum(abs(c) * beta for _, c in named_estimator(name, beta))
        error = float(np.linalg.norm(found - exact))
        assert error <= apart * (phases * ends + reading), (name, error)


def assert_same(
    found: Equilibrium, expected: Equilibrium, rows: IntArray | slice = slice(None)
) -> None:
    """Fail where a bit of an equilibrium differs from that of some rows of another."""
    for field in ("state", "steps", "residual", "converged"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field)[rows], field)
    assert found.beta == expected.beta


def _estimated(
    case: Case,
    name: str,
    free: Relaxation,
    nudged: Relaxation | None = None,
    start: FloatArray | None = None,
    rows: slice = slice(None),
    beta: float = BETA,
) -> tuple[FloatArray, Report]:
    clamped: Clamped = case.backend.clamp(case.x[rows], case.y[rows])
    gradient = np.empty(case.network.size, case.params.theta.dtype)
    phases = named_estimator(name, beta)
    report = estimate(case.backend, clamped, phases, gradient, free, nudged, start)
    return gradient, report
