"""The pace of a step: as few steps as a gradient can do with, whatever the cost is."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adapters.torch_backend import TorchBackend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import estimate
from engine.learning.pace import automatic
from engine.learning.predict import evaluate
from engine.learning.training import Training, fit
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.digital import DigitalBackend

CLOSELY = Relaxation(2000, 1e-9)


def _backend(network: Network) -> NumbaBackend:
    return NumbaBackend(network, initial_params(network, np.random.default_rng(0)))


@pytest.mark.parametrize("epochs", [1, 10, 60])
@pytest.mark.parametrize(
    "network",
    [
        looped_mlp(6, 24, 3),
        layered((6, 20, 20, 3)),
        layered((6, 20, 20, 3), readout="squared_error"),
    ],
    ids=["looped", "layered", "squared"],
)
def test_the_gradient_stays_exact_while_the_cost_falls(network: Network, epochs: int) -> None:
    """All of it; a block whose errors cancel almost, as biases do in the end, may be further off.

    Outputs that are units of the energy have the error of a state, so a squared error loses most.
    """
    rng = np.random.default_rng(1)
    x = rng.standard_normal((120, 6))
    y = np.argmax(x[:, :3] + 0.5 * x[:, 3:], axis=1)
    backend = _backend(network)
    cost = fit(backend, x, y, Training(epochs=epochs))[-1].cost
    training, clamped = Training(), backend.clamp(x, np.eye(3)[y])
    phases = training.phases(backend)
    loose, tight = np.zeros((2, network.size), backend.dtype)
    report = estimate(backend, clamped, phases, loose, *training.relaxations(backend, cost))
    closely = estimate(backend, clamped, phases, tight, CLOSELY, CLOSELY)
    inside = network.reading is None or network.reading.link is None
    least = 0.99 if inside else 0.999
    assert loose @ tight >= least * np.linalg.norm(loose) * np.linalg.norm(tight)
    assert report.free_steps < 0.1 * closely.free_steps


@pytest.mark.parametrize("activation", ["hard_sigmoid", "relu"])
@pytest.mark.parametrize("kind", [NumbaBackend, TorchBackend])
def test_outputs_beyond_their_edge_are_lifted_over_it(
    activation: str, kind: type[NumbaBackend | TorchBackend]
) -> None:
    """Nothing is learned from a unit that stands at its edge and feels no small nudge."""
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    network = layered((64, 48, 10), activation, "squared_error")
    accuracies = []
    for training in (Training(epochs=6), Training(epochs=6, beta=1e-4, estimator="one_sided")):
        backend = kind(network, initial_params(network, np.random.default_rng(0)))
        epochs = fit(backend, x[:1200], y[:1200], training)
        accuracies.append(evaluate(backend, x[1200:], y[1200:]).accuracy)
        assert epochs[-1].unsettled < 0.01
    assert accuracies[0] > 0.87
    assert accuracies[0] > accuracies[1] + 0.03


@pytest.mark.parametrize("beta", [0.6, 1.0, 2.0])
def test_outputs_settle_under_a_nudge_of_any_size(beta: float) -> None:
    network = layered((6, 20, 3), readout="squared_error")
    backend, rng = _backend(network), np.random.default_rng(1)
    training = Training(beta=beta, estimator="one_sided")
    clamped = backend.clamp(rng.standard_normal((40, 6)), np.eye(3)[rng.integers(3, size=40)])
    unsettled = []
    for way in (training.relaxations(backend)[1], Relaxation(30, 2.5e-3, displaced=True)):
        gradient = np.zeros(network.size, np.float32)
        report = estimate(backend, clamped, training.phases(backend), gradient, None, way)
        unsettled.append(report.unsettled)
    assert unsettled[0] == 0.0
    assert unsettled[1] > 0.0 or beta < 1.0


def test_tolerances_shrink_with_the_root_of_the_cost() -> None:
    backend = _backend(looped_mlp(2, 3, 2))
    (free, nudged), (later, after) = automatic(backend, 1.0), automatic(backend, 0.01)
    np.testing.assert_allclose(later.tolerance, free.tolerance / 10)
    np.testing.assert_allclose(after.tolerance, nudged.tolerance / 10)
    assert automatic(backend, 5.0) == (free, nudged)
    assert automatic(backend, 0.0)[0].tolerance > 0.0


def test_layers_take_turns_where_there_are_several_and_the_backend_can() -> None:
    one, two, tokens = looped_mlp(2, 3, 2), layered((2, 3, 3, 2)), energy_transformer(3, 2, width=2)
    assert automatic(_backend(one))[0].solver == "fixed_point"
    assert automatic(_backend(two))[0].solver == "sweeps"
    assert automatic(_backend(tokens)) == (Relaxation(), Relaxation(max_steps=15))
    params = initial_params(two, np.random.default_rng(0))
    assert automatic(TorchBackend(two, params))[1].displaced
    chip = DigitalBackend(two, params)
    for way in automatic(chip):
        assert way.solver in chip.solvers


def test_what_is_said_is_done() -> None:
    backend, said = _backend(looped_mlp(2, 3, 2)), Relaxation(7, 1e-3)
    free, nudged = Training(free=said).relaxations(backend, 0.01)
    assert (free, nudged) == (said, automatic(backend, 0.01)[1])
    assert Training(nudged=said).relaxations(backend)[1] == said
    assert Training(free=said).settled == said
    assert Training().settled == Relaxation()
    assert replace(Training(), nudged="auto") == Training()


@pytest.mark.parametrize("name", ["free", "nudged"])
def test_another_word_than_auto_is_refused(name: str) -> None:
    with pytest.raises(EngineError, match=f"{name} is 'fast', expected a Relaxation or 'auto'"):
        Training(**{name: "fast"})
