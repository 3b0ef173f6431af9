"""The scalar reference against hand calculations and against the compiled engine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import InputDrive
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden.reference import ReferenceBackend
from golden.scalar import activate, predict

NETWORKS = {
    "looped": looped_mlp(4, 6, 3),
    "layered": layered((4, 5, 6, 3)),
    "squared error": layered((4, 5, 4, 3), readout="squared_error"),
    "hard sigmoid": layered((4, 5, 3), "hard_sigmoid", "squared_error"),
}


@dataclass(frozen=True)
class Stranger:
    """A coupling that no kernel has heard of."""

    name: str
    layer: str
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.layer,)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        return shapes[self.layer]

    def initial(
        self, rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]
    ) -> np.ndarray:
        return np.zeros(self.shape(shapes))

    def potential(self, w: np.ndarray, x: np.ndarray, *states: np.ndarray) -> np.ndarray:
        return (w * states[0]).sum(-1)

    def drive(self, w: np.ndarray, x: np.ndarray, *states: np.ndarray) -> tuple[np.ndarray, ...]:
        return (w + 0 * states[0],)

    def correlate(self, w: np.ndarray, x: np.ndarray, *states: np.ndarray) -> np.ndarray:
        return states[0].sum(0)


def single_unit() -> Params:
    """One hidden unit: `W_in`, `b`, `W_rec`, `W_out (1, 2)` and `b_out (2,)`."""
    return Params(looped_mlp(1, 1, 2), np.array([0.5, 0.1, 0.8, 0.3, -0.2, 0.05, 0.0]))


def make_batch(network: Network, seed: int = 0) -> tuple[Params, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    params = initial_params(network, rng, np.float64)
    x = rng.standard_normal((5, network.inputs))
    return params, x, np.eye(network.outputs)[np.arange(5) % network.outputs]


def test_first_step_of_a_single_unit_by_hand() -> None:
    backend = ReferenceBackend(looped_mlp(1, 1, 2), single_unit())
    clamped = backend.clamp([[2.0]])
    reached = backend.settle(clamped, relaxation=Relaxation(max_steps=1, tolerance=0.0))
    start = math.tanh(0.5 * 2.0 + 0.1)
    image = math.tanh(0.5 * 2.0 + 0.1 + 0.8 * start)
    assert reached.state[0, 0] == pytest.approx(image, abs=1e-15)
    assert reached.residual[0] == pytest.approx(abs(image - start), abs=1e-15)
    assert reached.steps[0] == 1
    assert not reached.converged[0]


def test_nudged_step_of_a_single_unit_by_hand() -> None:
    backend = ReferenceBackend(looped_mlp(1, 1, 2), single_unit())
    clamped = backend.clamp([[2.0]], [[0.0, 1.0]])
    once = Relaxation(max_steps=1, tolerance=0.0, damping=0.25)
    reached = backend.settle(clamped, 0.1, once, [[0.4]])
    odds = [math.exp(0.3 * 0.4 + 0.05), math.exp(-0.2 * 0.4)]
    p = [part / sum(odds) for part in odds]
    nudge = 0.3 * p[0] - 0.2 * (p[1] - 1.0)
    image = math.tanh(1.1 + 0.8 * 0.4 - 0.1 * nudge)
    assert reached.state[0, 0] == pytest.approx(0.4 + 0.25 * (image - 0.4), abs=1e-15)
    assert backend.predict(replace(reached, state=np.array([[0.4]]))) == pytest.approx(
        np.array([p])
    )


def test_local_rule_of_a_single_unit_by_hand() -> None:
    backend = ReferenceBackend(looped_mlp(1, 1, 2), single_unit())
    clamped = backend.clamp([[2.0]], [[0.0, 1.0]])
    reached = backend.settle(clamped, relaxation=Relaxation(max_steps=1))
    s, p = reached.state[0, 0], backend.predict(reached)[0]
    gradient = np.full(7, 10.0)
    backend.accumulate(clamped, reached, gradient, energy=3.0, cost=2.0)
    rule = [-3 * 2 * s, -3 * s, -3 * s * s / 2, 2 * s * p[0], 2 * s * (p[1] - 1)]
    rule += [2 * p[0], 2 * (p[1] - 1)]
    np.testing.assert_allclose(gradient - 10.0, rule, atol=1e-14)


@pytest.mark.parametrize("beta", [0.0, 0.2, -0.2])
@pytest.mark.parametrize(
    "relaxation",
    [
        Relaxation(80, 1e-7),
        Relaxation(80, 1e-7, damping=0.6),
        Relaxation(80, 1e-7, "alternating"),
    ],
    ids=["fixed point", "damped", "alternating"],
)
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_engine_settles_as_the_reference(
    name: str, relaxation: Relaxation, beta: float
) -> None:
    params, x, y = make_batch(NETWORKS[name])
    backends = [build(params.network, params) for build in (NumbaBackend, ReferenceBackend)]
    if name == "looped" and relaxation.solver == "alternating":
        for backend in backends:
            with pytest.raises(EngineError, match="coupling 'W_rec' lies inside one"):
                backend.settle(backend.clamp(x, y), beta, relaxation)
        return
    reached = [backend.settle(backend.clamp(x, y), beta, relaxation) for backend in backends]
    compiled, reference = reached
    assert reference.converged.all()
    np.testing.assert_array_equal(compiled.steps, reference.steps)
    np.testing.assert_array_equal(compiled.converged, reference.converged)
    np.testing.assert_allclose(compiled.state, reference.state, atol=1e-13)
    np.testing.assert_allclose(compiled.residual, reference.residual, atol=1e-13)


def test_settled_sample_keeps_its_state_and_others_go_on() -> None:
    params, x, _ = make_batch(NETWORKS["looped"])
    backend = ReferenceBackend(params.network, params)
    clamped = backend.clamp(x)
    start = backend.settle(clamped, relaxation=Relaxation(500, 1e-12)).state
    start[1] += 0.1
    again = backend.settle(clamped, relaxation=Relaxation(500, 1e-6), start=start)
    others = [0, 2, 3, 4]
    np.testing.assert_array_equal(again.state[others], start[others])
    np.testing.assert_array_equal(again.steps[others], 1)
    assert again.steps[1] > 1


def test_alternating_stops_only_where_both_halves_stand_still() -> None:
    params, x, _ = make_batch(NETWORKS["layered"])
    backend = ReferenceBackend(params.network, params)
    clamped = backend.clamp(x)
    start = backend.settle(clamped, relaxation=Relaxation(500, 1e-12)).state
    second = params.network.columns[params.network.halves[1][0]]
    start[:, second] += 0.05
    again = backend.settle(clamped, relaxation=Relaxation(500, 1e-9, "alternating"), start=start)
    assert (again.steps > 1).all()
    assert again.converged.all()


def test_float32_parameters_round_the_state() -> None:
    params, x, _ = make_batch(NETWORKS["looped"])
    short = ReferenceBackend(params.network, params.astype(np.float32))
    long = ReferenceBackend(params.network, params)
    ten = Relaxation(max_steps=10, tolerance=0.0)
    states = [b.settle(b.clamp(x), relaxation=ten).state for b in (short, long)]
    assert states[0].dtype == np.float32
    assert 0.0 < np.abs(states[0] - states[1]).max() < 1e-6


def test_update_is_added_and_does_not_reach_the_callers_parameters() -> None:
    params = single_unit()
    before = params.theta.copy()
    backend = ReferenceBackend(params.network, params)
    backend.apply(np.arange(7.0))
    np.testing.assert_array_equal(backend.params.theta, before + np.arange(7.0))
    np.testing.assert_array_equal(params.theta, before)


def test_state_that_is_not_a_number_stops_at_once() -> None:
    params = Params(looped_mlp(1, 2, 2), np.zeros(14))
    params["W_in"][...] = 1e308
    params["W_rec"][...] = -1.7e308
    backend = ReferenceBackend(params.network, params)
    with pytest.raises(DivergenceError, match="sample 0 stopped being finite at step 1 "):
        backend.settle(backend.clamp([[100.0]]))


def test_unknown_coupling_is_named() -> None:
    network = Network(
        2,
        (Layer("hidden", (2,)),),
        (InputDrive("W_in", "hidden"), Stranger("odd", "hidden")),
        SoftmaxReadout("hidden", 2),
    )
    backend = ReferenceBackend(network, Params(network, np.zeros(network.size)))
    clamped = backend.clamp([[0.0, 0.0]])
    with pytest.raises(EngineError, match=r"does not know coupling 'odd' \(Stranger\)"):
        backend.settle(clamped)


def test_unknown_activation_readout_and_solver_are_named() -> None:
    with pytest.raises(EngineError, match="does not know activation 'gelu'"):
        activate("gelu", 0.0)
    with pytest.raises(EngineError, match="does not know read-out Stranger"):
        predict(Stranger("odd", "hidden"), {}, [0.0])
    backend = ReferenceBackend(looped_mlp(1, 1, 2), single_unit())
    with pytest.raises(EngineError, match="has no solver 'anderson'"):
        backend.settle(backend.clamp([[1.0]]), relaxation=Relaxation(solver="anderson"))
