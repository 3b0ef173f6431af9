"""What theory says of a relaxation."""

from dataclasses import replace

import numpy as np

from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError
from engine.model import dynamics
from engine.model.params import Params
from experiments.fuzz.strategies import (
    Case,
    cases,
    quadratic_networks,
    transformers,
    wild_cases,
)
from experiments.fuzz.theory import theory
from golden.reference import ReferenceBackend

TIGHT = Relaxation(3000, 1e-12)
ROUNDING = 1e-13


@theory(
    "Below a cap there is one equilibrium, and every start and every solver lead to it.",
    wild_cases(low=0.3, high=0.95),
)
def one_equilibrium(case: Case) -> None:
    """Distances to the fixed point are at most the residual over `1 - norm`."""
    expected = case.backend.settle(case.clamped, relaxation=TIGHT).state
    error = 2 * TIGHT.tolerance * np.sqrt(case.network.units) / (1 - case.norm)
    for solver in case.solvers:
        for start in (case.start, np.zeros_like(case.start), np.ones_like(case.start)):
            way = replace(TIGHT, solver=solver)
            found = case.backend.settle(case.clamped, 0.0, way, start)
            assert found.converged.all(), found.summary()
            np.testing.assert_allclose(found.state, expected, rtol=0, atol=error)


@theory(
    "Two trajectories approach each other by at least the norm of the coupling in each step.",
    wild_cases(high=0.99, betas=(0.0,)),
)
def capped_rate(case: Case) -> None:
    """`|T(s) - T(t)| <= norm |s - t|`."""
    near, far = case.start, dynamics.activate(case.network, -3.0 * case.start)
    for _ in range(10):
        gap = np.linalg.norm(near - far, axis=1)
        near, far = _one_step(case, near), _one_step(case, far)
        assert (np.linalg.norm(near - far, axis=1) <= case.norm * gap + ROUNDING).all()


@theory(
    "A sample that is said to have converged has a residual within the tolerance; one that has not "
    "has used all its steps.",
    wild_cases(high=1.5),
)
def converged_is_true(case: Case) -> None:
    """The residual is measured by the formulas, not by the kernel that reported it."""
    drive = dynamics.clamped_drive(case.network, case.params, case.x)
    for solver in case.solvers:
        for steps, tolerance in ((2, 1e-3), (200, 1e-3), (200, 1e-8)):
            found = case.backend.settle(
                case.clamped, case.beta, Relaxation(steps, tolerance, solver)
            )
            image = dynamics.step(
                case.network, case.params, case.x, case.y, found.state, case.beta, drive
            )
            residual = np.abs(image - found.state).max(1)
            assert (residual[found.converged] <= tolerance + ROUNDING).all()
            np.testing.assert_array_equal(found.converged, found.residual <= tolerance)
            assert (found.steps[~found.converged] == steps).all()


@theory(
    "Damped steps never raise the total energy, however strong the coupling is.",
    cases(high=3.0, betas=(0.0, 0.5, -0.5)),
)
def energy_descends(case: Case) -> None:
    """`F` falls by at least `eta (2 - eta (1 + L)) |T(s) - s|^2 / 2`; `L` bounds the curvature."""
    curvature = case.norm + abs(case.beta) * case.network.readout.curvature(case.params)
    eta = case.rng.uniform(0.05, 1.0) * min(1.0, 2.0 / (1.0 + curvature))

    def total(state: FloatArray) -> FloatArray:
        energy = dynamics.energy(case.network, case.params, case.x, state)
        cost = dynamics.cost(case.network, case.params, state, case.y)
        both: FloatArray = energy + case.beta * cost
        return both

    state, before = case.start, total(case.start)
    for _ in range(8):
        gap = _one_step(case, state) - state
        state = _one_step(case, state, eta)
        fall = eta * (2 - eta * (1 + curvature)) * (gap**2).sum(1) / 2
        after = total(state)
        assert (after <= before - fall + 1e-12 * (1 + np.abs(before))).all()
        before = after


@theory(
    "Every backend finds the same equilibrium with the same number of steps.",
    wild_cases(high=0.9) | wild_cases(high=0.9, dtype=np.float32) | cases(transformers(), high=0.9),
)
def backends_agree(case: Case) -> None:
    """The compiled kernels against torch and against the scalar reference."""
    single = case.params.theta.dtype == np.float32
    error = 1e-4 if single else 1e-10
    others = (
        TorchBackend(case.network, case.params, "cpu"),
        ReferenceBackend(case.network, case.params),
    )
    for solver in set(case.solvers) - {"anderson"}:  # whose mixtures magnify the rounding
        way = Relaxation(25, 1e-4, solver)
        expected = case.backend.settle(case.clamped, case.beta, way)
        for other in others:
            found = other.settle(other.clamp(case.x, case.y), case.beta, way)
            np.testing.assert_allclose(found.state, expected.state, rtol=0, atol=error)
            if not single:  # rounding may take a residual across the tolerance
                close = np.abs(expected.residual - way.tolerance) < ROUNDING
                assert (close | (found.steps == expected.steps)).all()


@theory(
    "What a batch does leaves no trace: the next batch settles as in a new backend.",
    wild_cases(high=0.95),
)
def batches_leave_no_trace(case: Case) -> None:
    """In few steps, so that an equilibrium cannot hide where a relaxation began."""
    used, new = case.backend, type(case.backend)(case.network, case.params)
    other = used.clamp(-case.x[::-1], case.y[::-1])
    for solver in case.solvers:
        way = Relaxation(3, 0.0, solver)
        used.settle(other, 0.5, way, case.start)
        used.settle(other, relaxation=way)
        found = used.settle(used.clamp(case.x, case.y), case.beta, way)
        expected = new.settle(new.clamp(case.x, case.y), case.beta, way)
        np.testing.assert_array_equal(found.state, expected.state)
        np.testing.assert_array_equal(found.residual, expected.residual)


@theory(
    "No state that is not a number is ever returned, whatever the parameters: it is an error.",
    cases(quadratic_networks(), high=3.0) | cases(quadratic_networks(), high=3.0, dtype=np.float32),
)
def no_silent_nan(case: Case) -> None:
    """Parameters and inputs near the largest number there is."""
    largest = float(np.finfo(case.params.theta.dtype).max)
    power = case.rng.uniform(0.3, 0.99)
    theta = np.sign(case.params.theta) * largest**power
    backend = type(case.backend)(case.network, Params(case.network, theta.astype(theta.dtype)))
    with np.errstate(all="ignore"):
        clamped = backend.clamp(np.sign(case.x) * largest ** (1 - power), case.y)
        for solver in case.solvers:
            try:
                found = backend.settle(clamped, case.beta, Relaxation(20, 1e-6, solver))
            except DivergenceError:
                continue
            assert np.isfinite(found.state).all()
            assert np.isfinite(found.residual).all()


def _one_step(case: Case, state: FloatArray, damping: float = 1.0) -> FloatArray:
    way = Relaxation(1, 0.0, damping=damping)
    return case.backend.settle(case.clamped, case.beta, way, state).state
