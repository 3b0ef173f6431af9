"""Settling in time: closed forms, the fixed point, and an energy that falls along the way."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from adapters.torch_backend import TorchBackend
from adapters.torch_module import EqPropModule
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.dense import InputDrive
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.model import dynamics
from engine.model.builders import layered, looped_mlp, resistive
from engine.model.continuous import Motion, trace
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz.circuits import circuit_cases
from experiments.fuzz.strategies import Case, cases

FEW = settings(max_examples=8)
IN_TIME = Relaxation(50_000, 1e-9, "ode")
FASTEST = 30.0
"""Largest conductance at a node, in leaks: the stiffer a circuit, the shorter are the steps."""
TIMES = np.linspace(0.1, 4.0, 24)


def _is_slow(case: Case) -> bool:
    return float(dynamics.compliance(case.network, case.params).min()) > 1 / FASTEST


CIRCUITS = circuit_cases(betas=(0.0, 0.5)).filter(_is_slow)


@FEW
@given(cases(low=0.3, high=0.95) | CIRCUITS)
def test_it_stands_still_at_the_fixed_point(case: Case) -> None:
    found = case.backend.settle(case.clamped, case.beta, IN_TIME, case.start)
    assert found.converged.all()
    assert (found.residual <= IN_TIME.tolerance).all()
    nearer = case.backend.settle(case.clamped, case.beta, Relaxation(9000, 1e-13), found.state)
    room = 1e3 * IN_TIME.tolerance  # over one less the norm
    np.testing.assert_allclose(found.state, nearer.state, rtol=0, atol=room)


@FEW
@given(cases(high=3.0) | CIRCUITS)
def test_the_total_energy_falls_all_the_way(case: Case) -> None:
    """Whatever the weights are: no step is too long in continuous time."""
    states = trace(case.params, case.x, TIMES, case.y, case.beta, case.start)

    def total(state: FloatArray) -> FloatArray:
        energy = dynamics.energy(case.network, case.params, case.x, state)
        return energy + case.beta * dynamics.cost(case.network, case.params, state, case.y)

    course = np.array([total(state) for state in (_within(case), *states)])
    assert (np.diff(course, axis=0) <= 1e-7 * (1 + np.abs(course[:-1]))).all()


@FEW
@given(CIRCUITS)
def test_two_courses_of_a_circuit_approach_each_other_as_fast_as_the_leak(case: Case) -> None:
    motion = Motion(case.params, case.x, case.y, case.beta)
    starts = case.start, motion.within(-2.0 * case.start + 0.5)
    near, far = (trace(case.params, case.x, TIMES, case.y, case.beta, s) for s in starts)
    first = np.linalg.norm(motion.within(starts[0]) - starts[1], axis=1)
    gap = np.linalg.norm(near - far, axis=2)
    assert (gap <= np.exp(-TIMES)[:, None] * first + 1e-6).all()


def _within(case: Case) -> FloatArray:
    return Motion(case.params, case.x, case.y, case.beta).within(case.start)


def _unit() -> tuple[NumbaBackend, FloatArray]:
    """One unit of tanh that hears an input alone: `s = tanh(h) (1 - exp(-t))` from zero on."""
    network = Network(1, (Layer("a", (1,)),), (InputDrive("W", "a"),), SquaredError("a"))
    return NumbaBackend(network, Params(network, np.array([0.8]))), np.array([[1.0], [0.1]])


def test_a_unit_approaches_its_image_exponentially() -> None:
    backend, x = _unit()
    start, image = np.zeros((2, 1)), np.tanh(0.8 * x)
    found = trace(backend.params, x, TIMES, start=start)[:, :, 0]
    np.testing.assert_allclose(found, image.T * -np.expm1(-TIMES[:, None]), rtol=0, atol=1e-8)
    way = Relaxation(10_000, 1e-4, "ode")
    settled = backend.settle(backend.clamp(x), 0.0, way, start)
    np.testing.assert_allclose(settled.times, np.log(image[:, 0] / 1e-4), rtol=1e-3)
    assert (settled.steps < 300).all()
    assert settled.steps[1] < settled.steps[0]


def test_a_looped_network_moves_as_its_matrices_say() -> None:
    """The classical method of Runge and Kutta on `-s + tanh(...)`, free and nudged."""
    network, rng = looped_mlp(3, 5, 2), np.random.default_rng(4)
    params = Params(network, rng.normal(0.0, 0.6, network.size))
    params["W_rec"][...] += params["W_rec"].T
    x, y, start = rng.normal(size=(3, 3)), np.eye(2)[[0, 1, 1]], rng.uniform(-0.9, 0.9, (3, 5))
    for beta in (0.0, 0.4):

        def speed(s: FloatArray, beta: float = beta) -> FloatArray:
            heard = x @ params["W_in"] + params["b"] + s @ params["W_rec"]
            odds = np.exp(s @ params["W_out"] + params["b_out"])
            errors = odds / odds.sum(1, keepdims=True) - y
            return np.tanh(heard - beta * errors @ params["W_out"].T) - s

        found = trace(params, x, np.arange(1, 9) / 2, y, beta, start)
        s, h = start, 0.5 / 64
        for state in found:
            for _ in range(64):
                a = speed(s)
                b = speed(s + h / 2 * a)
                c = speed(s + h / 2 * b)
                s = s + h / 6 * (a + 2 * b + 2 * c + speed(s + h * c))
            np.testing.assert_allclose(state, s, rtol=0, atol=1e-7)
        assert np.abs(found[-1] - start).max() > 0.5


def _node(bound: str = "linear") -> tuple[Params, float]:
    """One node between a source of 3 V, one of -3 V and its leak; its whole conductance."""
    network = Network(
        1,
        (Layer("a", (1,), bound),),
        (InputConductance("g", "a", 3.0),),
        SquaredError("a"),
    )
    return Params(network, np.array([2.0, 0.5])), 3.5


def test_a_node_charges_through_all_its_conductance() -> None:
    params, whole = _node()
    found = trace(params, np.ones((1, 1)), TIMES, start=np.zeros((1, 1)))[:, 0, 0]
    np.testing.assert_allclose(found, -4.5 / whole * np.expm1(-whole * TIMES), atol=1e-8)


def test_a_diode_holds_a_node_at_its_edge_and_lets_it_go() -> None:
    """Two nodes: the second is drawn below zero until the first has charged."""
    network = Network(
        2,
        (Layer("slow", (1,), "linear"), Layer("held", (1,), "relu")),
        (
            InputConductance("g_in", "slow", 1.0),
            InputConductance("g_down", "held", 1.0),
            Conductance("g", "slow", "held", 1.0),
        ),
        SquaredError("held"),
    )
    params = Params(network, np.zeros(network.size))
    params["g_in"][0, :, 0] = [0.2, 0.0]
    params["g_down"][1, :, 0] = [0.0, 1.0]
    params["g"][...] = 0.6
    x, start = np.array([[90.0, 3.0]]), np.array([[0.0, 0.4]])
    times = np.linspace(0.01, 2.0, 200)
    found = trace(params, x, times, start=start)[:, 0]
    v, step = start[0].copy(), 1e-5  # so many steps of Euler's method, with a diode after each
    walked = []
    for _ in range(200_000):
        currents = 0.2 * (90 - v[0]) - v[0], (-3 - v[1]) - v[1]
        between = 0.6 * (v[0] - v[1])
        v = v + step * np.array([currents[0] - between, currents[1] + between])
        v[1] = max(v[1], 0.0)
        walked.append(v)
    expected = np.array(walked)[999::1000]
    assert 10 < (expected[:, 1] == 0.0).sum() < 100
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_it_stops_after_the_steps_that_it_is_allowed() -> None:
    backend, x = _unit()
    for most in (1, 2, 17, 60):
        found = backend.settle(backend.clamp(x), 0.0, Relaxation(most, 1e-12, "ode"), [[0], [0]])
        assert (found.steps == most).all()
        assert not found.converged.any()


def test_a_gradient_is_that_of_other_solvers() -> None:
    network = resistive((4, 6, 3))
    rng = np.random.default_rng(3)
    params = initial_params(network, rng, np.float64)
    backend, batch = NumbaBackend(network, params), (rng.normal(size=(5, 4)), rng.random((5, 3)))
    gradients = np.zeros((2, network.size))
    for gradient, solver in zip(gradients, ("ode", "sweeps"), strict=True):
        way = Relaxation(50_000, 1e-11, solver, displaced=False if solver == "sweeps" else None)
        estimate(backend, backend.clamp(*batch), centered(0.01), gradient, way)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=0, atol=1e-8)
    assert np.abs(gradients[1]).max() > 1e-2


def test_the_longer_way_takes_no_more_memory() -> None:
    network = looped_mlp(8, 40, 4)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0), np.float64))
    clamped, peaks = backend.clamp(np.ones((10, 8))), []
    for tolerance in (1e-2, 1e-3, 1e-12):
        tracemalloc.start()
        steps = backend.settle(clamped, relaxation=Relaxation(10**6, tolerance, "ode")).steps.max()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert steps > 400
    assert peaks[2] < 1.1 * peaks[1]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(EngineError, match="solver 'ode' integrates states"):
        Relaxation(solver="ode", displaced=True)
    network = layered((2, 3, 2))
    params = initial_params(network, np.random.default_rng(0), np.float64)
    backend = TorchBackend(network, params, "cpu")
    with pytest.raises(EngineError, match="TorchBackend has no solver 'ode'"):
        backend.settle(backend.clamp(np.zeros((1, 2))), relaxation=IN_TIME)
    with pytest.raises(EngineError, match="torch has no solver 'ode'"):
        EqPropModule(params, free=IN_TIME)(torch.zeros((1, 2), dtype=torch.float64))
