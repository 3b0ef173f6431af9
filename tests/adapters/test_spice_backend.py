"""ngspice as a backend: the local rule holds for a circuit whatever its diodes do."""

import numpy as np
import pytest

from adapters.spice_backend import SpiceBackend
from adapters.spice_netlist import Parts
from adapters.spice_run import SpiceError
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.learning.optimizer import Adam
from engine.learning.predict import evaluate
from engine.learning.training import Training, fit
from engine.model.builders import layered, resistive
from engine.model.params import Params, initial_params
from tests.adapters.spice_cases import SETTLED, drawn, needs_ngspice

pytestmark = needs_ngspice
SHOCKLEY = Parts("shockley", saturation_a=1e-6, emission=2.0)


def test_the_rule_of_voltage_drops_is_the_slope_of_the_cost_with_shockley_diodes() -> None:
    """`[dv(+b)^2 - dv(-b)^2] / 4b` against central differences: the error shrinks as beta^2."""
    params, x, y = drawn(0, 3, 4, 2)
    network, rng = params.network, np.random.default_rng(0)
    for name in network.squares:
        params[name][...] = rng.uniform(0.1, 1.0, params[name].shape)
    x, y = x[:1], rng.uniform(-0.5, 0.5, (1, 2))
    backend = SpiceBackend(network, params, SHOCKLEY)
    clamped = backend.clamp(x, y)

    def cost(theta: np.ndarray) -> float:
        moved = SpiceBackend(network, Params(network, theta), SHOCKLEY)
        batch = moved.clamp(x, y)
        return float(moved.cost(batch, moved.settle(batch))[0])

    block = network.blocks["g_1_up1"]
    places = range(block.start, block.start + block.size)
    slopes = []
    for k in places:
        step = np.zeros(network.size)
        step[k] = 2e-3 * params.theta[k]
        near, far = (cost(params.theta + m * step) - cost(params.theta - m * step) for m in (1, 2))
        slopes.append((8 * near - far) / (12 * step[k]))
    errors = []
    for beta in (0.1, 0.01, 0.001):
        gradient = np.zeros(network.size)
        estimate(backend, clamped, centered(beta), gradient)
        errors.append(np.linalg.norm(gradient[block.span] - slopes) / np.linalg.norm(slopes))
        plus, minus = (backend.settle(clamped, sign * beta).state for sign in (1, -1))
        (up,) = network.ends(network.couplings[0], plus)
        (down,) = network.ends(network.couplings[0], minus)
        drops = [4.0 * x[0][:, None] - v[0] for v in (up, down)]
        rule = (drops[0] ** 2 - drops[1] ** 2) / (4 * beta)
        np.testing.assert_allclose(gradient[block.span].reshape(2, 3, 2)[0], rule, rtol=1e-9)
    assert errors[0] < 2e-2
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.1)
    assert errors[2] == pytest.approx(errors[0] / 10_000, rel=0.3)


def test_it_estimates_the_gradient_of_the_engine() -> None:
    params, x, y = drawn(3, 4, 6, 5, 3, amplification=1.3)
    found = []
    for make in (SpiceBackend, NumbaBackend):
        backend, gradient = make(params.network, params), np.zeros(params.network.size)
        settled = Relaxation(5000, 1e-13) if make is SpiceBackend else SETTLED
        way = Relaxation(5000, 1e-13, settled.solver, displaced=False)
        estimate(backend, backend.clamp(x, y), centered(0.05), gradient, settled, way)
        found.append(gradient)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6 * np.abs(found[1]).max())


@pytest.mark.parametrize("parts", [Parts(), SHOCKLEY])
def test_a_circuit_learns_exclusive_or_in_the_loop(parts: Parts) -> None:
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    x, labels = np.column_stack([corners, np.ones(4)]), np.array([0, 1, 1, 0])
    network = resistive((3, 12, 2), input_amplification=4.0)
    params = initial_params(network, np.random.default_rng(1), np.float64)
    backend = SpiceBackend(network, params, parts)
    training = Training(epochs=60, batch_size=4, optimizer=Adam(0.05), beta=0.05)
    epochs = fit(backend, x, labels, training)
    assert evaluate(backend, x, labels).accuracy == 1.0
    assert epochs[-1].cost < 0.3 * epochs[0].cost
    assert min(block.min() for name, block in params.items() if name in network.squares) >= 0


def test_what_ngspice_cannot_run_is_refused_when_it_is_made() -> None:
    network = layered((3, 4, 2), "relu", "squared_error")
    with pytest.raises(SpiceError, match="not resistive"):
        SpiceBackend(network, initial_params(network, np.random.default_rng(0)))
    params, x, _ = drawn(3, 4, 6, 3)
    backend = SpiceBackend(params.network, params)
    with pytest.raises(EngineError, match="SpiceBackend has no solver 'sweeps'"):
        backend.settle(backend.clamp(x), relaxation=SETTLED)
