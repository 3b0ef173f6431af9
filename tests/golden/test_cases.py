"""The cases: scaled, trained and capped as their names say."""

import numpy as np
import pytest

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.couplings.readout import SquaredError
from engine.couplings.skip import Skip
from engine.errors import EngineError
from engine.learning.spectral import has_cap, recurrent_norm
from engine.model import dynamics
from engine.model.params import initial_params
from golden import cases
from golden.cases import (
    CAP,
    UNCAPPED,
    deep_networks,
    initial_case,
    judged_networks,
    scale_recurrent,
    smooth_networks,
    trained_case,
)
from golden.draws import stream
from golden.fidelity import compare_gradients, difference_gradient, mean_cost

RECURRENT = [
    name for name, network in judged_networks().items() if network.recurrent and has_cap(network)
]

TRAINED = [name for name in smooth_networks() if name not in deep_networks()]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_norm_is_that_of_the_jacobian(name: str) -> None:
    network = judged_networks()[name]
    params = initial_params(network, np.random.default_rng(0), np.float64)
    scale_recurrent(params, 0.7)
    params.check()
    nothing = np.zeros((network.units, network.inputs))
    matrix = dynamics.recurrent_drive(network, params, nothing, np.eye(network.units))
    assert np.abs(np.linalg.eigvalsh(matrix)).max() == pytest.approx(0.7)
    assert recurrent_norm(params) == pytest.approx(0.7)


@pytest.mark.parametrize("name", [name for name in RECURRENT if name in TRAINED])
def test_training_lowers_the_loss_within_the_cap(name: str) -> None:
    start = initial_case(name, smooth_networks()[name], np.random.default_rng(2))
    trained = trained_case(start, CAP, "trained")
    losses = [mean_cost(case.build(NumbaBackend), case.x, case.y) for case in (start, trained)]
    assert losses[1] <= cases.DROP * losses[0] + 1e-6
    assert recurrent_norm(trained.params) <= CAP + 1e-9  # of windows it is estimated from below
    assert not np.array_equal(start.params.theta, trained.params.theta)


def test_training_without_a_cap_leaves_the_norm_above_one() -> None:
    start = initial_case("looped", judged_networks()["looped"], np.random.default_rng(2), UNCAPPED)
    assert recurrent_norm(start.params) == pytest.approx(UNCAPPED)
    assert recurrent_norm(trained_case(start, None, "trained").params) > 1.2


@pytest.mark.parametrize("seed", [14, 18])
def test_a_batch_that_saturates_a_transformer_is_learned_half(seed: int) -> None:
    """The exact gradient, too, comes no further than to 37 % on one of them."""
    name = "transformer, memories"
    start = initial_case(name, smooth_networks()[name], stream(seed, f"{name}, trained"))
    trained = trained_case(start, CAP, "trained")
    losses = [mean_cost(case.build(NumbaBackend), case.x, case.y) for case in (start, trained)]
    assert losses[1] <= cases.UNBOUND_DROP * losses[0] + 1e-6


def test_training_that_gets_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "UPDATES", 2)
    start = initial_case("looped", judged_networks()["looped"], np.random.default_rng(0))
    with pytest.raises(EngineError, match="the loss of 'looped' did not drop within 2 updates"):
        trained_case(start, CAP, "trained")


def test_no_unit_lies_on_its_kink() -> None:
    """With biases of zero one of these does, on seed 3: central differences show half a slope."""
    name = "resistive, amplified"
    case = initial_case(name, judged_networks()[name], stream(3, f"{name}, rounding"))
    assert all(block.any() for block in case.params.values())
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    differences = difference_gradient(case.build(NumbaBackend), case.x, case.y)
    assert compare_gradients("differences", differences, exact).relative_error < 1e-6
    smooth = initial_case("looped", judged_networks()["looped"], np.random.default_rng(0))
    assert not smooth.params["b"].any()


def test_what_trains_slowly_to_its_states_is_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    start = initial_case("looped", judged_networks()["looped"], np.random.default_rng(2))
    asked = []

    def reached(case: cases.Case) -> bool:
        asked.append(mean_cost(case.build(NumbaBackend), case.x, case.y))
        return len(asked) == 3

    monkeypatch.setattr(cases, "_is_reached", reached)
    trained = trained_case(start, CAP, "trained")
    assert len(asked) == 3
    assert asked[2] == mean_cost(trained.build(NumbaBackend), trained.x, trained.y)
    monkeypatch.undo()
    slow = initial_case("looped", judged_networks()["looped"], np.random.default_rng(2), 1.0)
    slow.params["W_rec"][...] = -np.eye(10)  # turns from side to side for very long
    assert cases._is_reached(trained)
    assert not cases._is_reached(slow)


def test_the_judged_networks_are_of_every_kind() -> None:
    networks = judged_networks()
    for depth in range(1, 5):
        assert len(networks[f"layered, depth {depth}"].layers) == depth
        assert networks[f"layered, depth {depth}"].readout.outputs == 3
    for activation in ("tanh", "hard sigmoid"):
        network = networks[f"squared error, {activation}"]
        assert isinstance(network.readout, SquaredError)
        assert {layer.activation.replace("_", " ") for layer in network.layers} == {activation}
    assert networks["looped, relu"].layers[0].activation == "relu"
    attentions = {
        name: network.recurrent[0] for name, network in networks.items() if "transformer" in name
    }
    assert [a.causal for a in attentions.values()] == [False, True, False]
    assert [a.sees_itself for a in attentions.values()] == [False, False, True]
    assert len(networks["transformer, memories"].recurrent) == 2
    for depth in range(1, 8):
        assert len(networks[f"convolution, depth {depth}"].layers) == depth
    assert [c.pooling for c in networks["convolution, mean pooled"].recurrent] == ["mean"]
    assert [c.groups for c in networks["convolution, grouped"].recurrent] == [2]
    skips = {
        name: [c for c in networks[name].recurrent if c.name.startswith("S")]
        for name in ("residual", "residual, projected")
    }
    assert skips["residual"] == [Skip("S_1", "layer1", "layer3")]
    assert [c.kernel for c in skips["residual, projected"]] == [1]
    rough = {"looped, relu", "convolution, relu", "squared error, hard sigmoid"}
    rough |= {"resistive", "resistive, amplified"}
    assert set(networks) - set(smooth_networks()) == rough
