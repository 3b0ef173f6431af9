"""What theory says of every relaxation, on networks of every kind."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Lateral
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.model import dynamics
from engine.model.network import Layer, Network
from engine.model.params import Params
from experiments.fuzz.strategies import Case, cases

TIGHT = Relaxation(3000, 1e-12)
ROUNDING = 1e-13
MANY = settings(max_examples=100)
BETAS = st.sampled_from([0.0, 0.02, -0.02])


def _one_step(case: Case, state: FloatArray, beta: float = 0.0, damping: float = 1.0) -> FloatArray:
    way = Relaxation(1, 0.0, damping=damping)
    return case.backend.settle(case.clamped, beta, way, state).state


def _curvature(case: Case) -> float:
    return case.network.readout.curvature(case.params)


@MANY
@given(cases(low=0.3, high=0.95))
def test_below_a_cap_every_start_and_every_solver_lead_to_one_equilibrium(case: Case) -> None:
    expected = case.backend.settle(case.clamped, relaxation=TIGHT).state
    error = 2 * TIGHT.tolerance * np.sqrt(case.network.units) / (1 - case.norm)
    for solver in case.solvers:
        for start in (case.start, np.zeros_like(case.start), np.ones_like(case.start)):
            way = replace(TIGHT, solver=solver)
            found = case.backend.settle(case.clamped, 0.0, way, start)
            assert found.converged.all()
            np.testing.assert_allclose(found.state, expected, rtol=0, atol=error)


@MANY
@given(cases(low=0.3, high=0.95))
def test_two_trajectories_approach_each_other_at_the_capped_rate(case: Case) -> None:
    near, far = case.start, dynamics.activate(case.network, -3.0 * case.start)
    for _ in range(20):
        gap = np.linalg.norm(near - far, axis=1)
        near, far = _one_step(case, near), _one_step(case, far)
        assert (np.linalg.norm(near - far, axis=1) <= case.norm * gap + ROUNDING).all()


@MANY
@given(cases(low=0.3, high=0.95))
def test_the_steps_of_one_trajectory_shrink_at_the_capped_rate(case: Case) -> None:
    states = [case.start]
    for _ in range(20):
        states.append(_one_step(case, states[-1]))
    jumps = np.linalg.norm(np.diff(states, axis=0), axis=2)
    assert (jumps[1:] <= case.norm * jumps[:-1] + ROUNDING).all()


@MANY
@given(cases(high=3.0), BETAS.map(lambda b: 25 * b), st.floats(0.05, 1.0))
def test_the_total_energy_never_rises_under_damped_steps(
    case: Case, beta: float, share: float
) -> None:
    """`F` falls by at least `eta (2 - eta (1 + L)) |T(s) - s|^2 / 2`; `L` bounds the curvature."""
    curvature = case.norm + abs(beta) * _curvature(case)
    eta = share * min(1.0, 2.0 / (1.0 + curvature))

    def total(state: FloatArray) -> FloatArray:
        energy = dynamics.energy(case.network, case.params, case.x, state)
        return energy + beta * dynamics.cost(case.network, case.params, state, case.y)

    state, before = case.start, total(case.start)
    for _ in range(12):
        gap = _one_step(case, state, beta) - state
        state = _one_step(case, state, beta, eta)
        fall = eta * (2 - eta * (1 + curvature)) * (gap**2).sum(1) / 2
        after = total(state)
        assert (after <= before - fall + 1e-12 * (1 + np.abs(before))).all()
        before = after


@MANY
@given(cases(), BETAS, st.sampled_from([1e-3, 1e-8]))
def test_relaxing_an_equilibrium_changes_nothing_bit_for_bit(
    case: Case, beta: float, tolerance: float
) -> None:
    for solver in case.solvers:
        way = Relaxation(3000, tolerance, solver)
        settled = case.backend.settle(case.clamped, beta, way)
        # The products of a whole batch may round unlike those of the samples that came last.
        looser = replace(way, tolerance=tolerance + ROUNDING)
        again = case.backend.settle(case.clamped, beta, looser, settled.state)
        np.testing.assert_array_equal(again.state, settled.state)
        assert (again.steps == 1).all()


@MANY
@given(cases(), BETAS, st.sampled_from([1e-3, 1e-8]))
def test_converged_samples_are_within_the_tolerance_and_only_they(
    case: Case, beta: float, tolerance: float
) -> None:
    drive = dynamics.clamped_drive(case.network, case.params, case.x)
    for solver in case.solvers:
        for max_steps in (2, 8, 3000):
            way = Relaxation(max_steps, tolerance, solver)
            found = case.backend.settle(case.clamped, beta, way)
            image = dynamics.step(
                case.network, case.params, case.x, case.y, found.state, beta, drive
            )
            residual = np.abs(image - found.state).max(1)
            assert (residual[found.converged] <= tolerance + ROUNDING).all()
            np.testing.assert_array_equal(found.converged, found.residual <= tolerance)
            assert (found.steps[~found.converged] == max_steps).all()
        assert found.converged.all()


@MANY
@given(cases(dtype=np.float32), BETAS, st.data())
def test_permuting_samples_permutes_the_result(
    case: Case, beta: float, data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(len(case.x)))))
    shuffled = case.backend.clamp(case.x[order], case.y[order])
    for solver in case.solvers:
        way = Relaxation(20, 0.0, solver) if solver != "anderson" else Relaxation(200, 1e-5, solver)
        plain = case.backend.settle(case.clamped, beta, way, case.start)
        found = case.backend.settle(shuffled, beta, way, case.start[order])
        error = 2e-3 if solver == "anderson" else 2e-6
        np.testing.assert_allclose(found.state, plain.state[order], rtol=0, atol=error)


@MANY
@given(cases(), BETAS, st.integers(1, 9))
def test_padding_a_batch_changes_nothing(case: Case, beta: float, padding: int) -> None:
    """The samples added are hard ones: they must not hold up or change those that were there."""
    rows = np.arange(len(case.x) + padding) % len(case.x)
    x, y = case.x[rows], case.y[rows]
    if case.network.vocabulary is None:
        x[len(case.x) :] *= -5.0
    start = np.ones((len(rows), case.network.units))
    start[: len(case.x)] = case.start
    padded, kept = case.backend.clamp(x, y), slice(len(case.x))
    for solver in case.solvers:
        way = Relaxation(400, 1e-6, solver)
        alone = case.backend.settle(case.clamped, beta, way, case.start)
        found = case.backend.settle(padded, beta, way, start)
        # Mixing solves a system that is close to singular, and so may magnify the rounding.
        error = 1e-4 if solver == "anderson" else 1e-9
        np.testing.assert_allclose(found.state[kept], alone.state, rtol=0, atol=error)
        if solver != "anderson":
            np.testing.assert_array_equal(found.steps[kept], alone.steps)


def test_a_hard_sample_does_not_change_the_steps_of_an_easy_one() -> None:
    network = Network(1, (Layer("a", (2,)),), (Lateral("W", "a"),), SquaredError("a"))
    backend = NumbaBackend(network, Params(network, np.array([0.99, 0, 0, 0.1])))
    way, clamped = Relaxation(5000, 1e-6), backend.clamp(np.zeros((3, 1)))
    starts = np.array([[0.0, 0.9], [0.9, 0.0], [0.0, 0.0]])
    both = backend.settle(clamped, 0.0, way, starts)
    assert both.converged.all()
    assert both.steps[2] == 1
    assert both.steps[0] < 15
    assert both.steps[1] > 300
    alone = backend.settle(backend.clamp([[0.0]]), 0.0, way, starts[:1])
    assert alone.steps[0] == both.steps[0]
    np.testing.assert_array_equal(alone.state[0], both.state[0])
