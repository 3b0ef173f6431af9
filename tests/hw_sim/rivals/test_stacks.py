"""Backprop and BPTT through layers and images, judged by torch: gradients, and what it counts."""

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from adapters.torch_autograd import bptt_gradient
from engine.couplings.dense import Bias, Dense, InputDrive
from engine.couplings.readout import SoftmaxReadout
from engine.model import dynamics
from engine.model.activation import ACTIVATIONS
from engine.model.builders import conv_net, layered, looped_mlp, residual_net
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from hw_sim.audit.training_step import backprop_recorded
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.messages import symmetrised
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.rivals.backprop import Rival, feedforward
from hw_sim.rivals.counting import SLOPES
from tests.hw_sim.chips.patches import NETWORKS, batch_of, params_of

SAMPLES, SIDE, COLOURS, CLASSES = 4, 6, 2, 3
IMAGE = (SIDE, SIDE, COLOURS)
each_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
each_kind = pytest.mark.parametrize("kind", ["deep", "conv"])


def network_of(kind: str, activation: str) -> Network:
    if kind == "deep":
        return layered((SIDE * SIDE * COLOURS, 7, 6, 5, CLASSES), activation)
    return conv_net(IMAGE, (3, 4), CLASSES, activation=activation)


def drawn_params(network: Network) -> Params:
    """Weights that are not small, and biases that differ."""
    rng = np.random.default_rng(5)
    params = initial_params(network, rng, np.float64)
    for block in params.values():
        block *= 2.0
        if block.ndim == 1:
            block += 0.2 * rng.standard_normal(block.shape)
    return params


def drawn_batch(network: Network) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((SAMPLES, network.inputs))
    return x, np.eye(CLASSES)[rng.integers(CLASSES, size=SAMPLES)]


def torch_cost(
    kind: str, activation: str, theta: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    """The mean cost of a forward pass, written with torch's own layers."""
    network = network_of(kind, activation)
    w = {name: theta[b.span].reshape(b.shape) for name, b in network.blocks.items()}
    sigma = {"tanh": torch.tanh, "relu": torch.relu, "hard_sigmoid": lambda h: h.clamp(0, 1)}
    sigma |= {"mirrored_relu": lambda h: h.clamp(max=0), "linear": lambda h: h}
    state = x.reshape(-1, *IMAGE).movedim(-1, 1) if kind == "conv" else x
    for k, layer in enumerate(network.layers, start=1):
        weight, bias = w[f"W_{k}"], w[f"b_{k}"]
        if kind == "conv":
            filters = weight.reshape(3, 3, -1, layer.shape[-1]).permute(3, 2, 0, 1)
            drive = conv2d(state, filters, bias, stride=2, padding=1)
        else:
            drive = state @ weight + bias
        state = sigma[activation](drive)
    read = (state.movedim(1, -1) if kind == "conv" else state).reshape(len(x), -1)
    return cross_entropy(read @ w["W_out"] + w["b_out"], y)


@each_kind
@each_activation
def test_a_pass_through_the_layers_has_the_gradient_of_torch(kind: str, activation: str) -> None:
    network = feedforward(network_of(kind, activation))
    params, (x, y) = drawn_params(network), drawn_batch(network)
    gradient, chip = np.zeros(network.size), SpikingBackend(network, params)
    cost = Rival(0).gradient(chip, x, y, gradient)
    theta = torch.tensor(params.theta, requires_grad=True)
    expected = torch_cost(kind, activation, theta, *map(torch.tensor, (x, y)))
    expected.backward()
    assert cost == pytest.approx(expected.item(), abs=1e-12)
    np.testing.assert_allclose(gradient, theta.grad, rtol=0, atol=1e-10)
    assert (np.abs(gradient) > 1e-6).mean() > 0.5  # not of units that are all silent


@each_kind
def test_products_are_those_that_torch_counts(kind: str) -> None:
    """Two operations for each; nothing is asked of the slope of the input."""
    network = network_of(kind, "tanh")
    params, (x, y) = drawn_params(network), drawn_batch(network)
    chip = DigitalBackend(network, params)
    Rival(0).gradient(chip, x, y, np.zeros(network.size))
    counts, theta = chip.counts, torch.tensor(params.theta, requires_grad=True)
    counter = FlopCounterMode(display=False)
    with counter:
        cost = torch_cost(kind, "tanh", theta, *map(torch.tensor, (x, y)))
        forward = counter.get_total_flops()
        cost.backward()
    assert forward == 2 * (counts.total("mac", "input") + counts.total("mac", "free"))
    slopes = SAMPLES * SLOPES["tanh"]["mac"] * network.units
    back = counts.total("mac", "backward") + counts.total("mac", "learn") - slopes
    assert counter.get_total_flops() - forward == 2 * back


@each_kind
@each_activation
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_bptt_has_the_gradient_of_autograd(kind: str, activation: str, steps: int) -> None:
    network = network_of(kind, activation)
    params, (x, y) = drawn_params(network), drawn_batch(network)
    gradient = np.zeros(network.size)
    Rival(steps).gradient(SpikingBackend(network, params), x, y, gradient)
    expected = bptt_gradient(network, params, x, y, steps)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_bptt_knows_links_that_no_file_of_hw_sim_knows(name: str) -> None:
    """Windows on a line, tokens with a softmax each: by differences of the cost."""
    network, step = NETWORKS[name], 1e-5
    params, (x, y) = params_of(network), batch_of(network)
    gradient, slopes = np.zeros(network.size), np.zeros(network.size)
    Rival(3).gradient(SpikingBackend(network, params), x, y, gradient)
    for k in range(network.size):
        ends = []
        for sign in (1, -1):
            moved = params.copy()
            moved.theta[k] += sign * step
            ends.append(_unrolled_cost(network, moved, x, y, 3))
        slopes[k] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(gradient, symmetrised(network, slopes).theta, rtol=0, atol=1e-8)


def _unrolled_cost(network: Network, params: Params, x: np.ndarray, y: np.ndarray, n: int) -> float:
    drive = dynamics.clamped_drive(network, params, x)
    state = dynamics.activate(network, drive)
    for _ in range(n):
        state = dynamics.step(network, params, x, None, state, 0.0, drive)
    return float(dynamics.cost(network, params, state, y).mean())


def test_a_stack_may_skip_layers_and_name_its_ends_in_any_order() -> None:
    """The pass goes from earlier to later layers, whatever a coupling calls its source."""
    layers = tuple(Layer(name, (3,), "relu") for name in ("low", "middle", "top"))
    couplings = (
        InputDrive("W_in", "low"), Dense("W_a", "low", "middle"), Dense("W_b", "top", "middle"),
        Dense("W_c", "low", "top"), Bias("b", "low", 0.3), Bias("c", "top", 0.1),
    )  # fmt: skip
    network = Network(4, layers, couplings, SoftmaxReadout("top", CLASSES))
    params, (x, y) = drawn_params(network), drawn_batch(network)
    gradient = np.zeros(network.size)
    Rival(0).gradient(SpikingBackend(network, params), x, y, gradient)
    theta = torch.tensor(params.theta, requires_grad=True)
    w = {name: theta[b.span].reshape(b.shape) for name, b in network.blocks.items()}
    low = torch.relu(torch.tensor(x) @ w["W_in"] + w["b"])
    middle = torch.relu(low @ w["W_a"])
    top = torch.relu(middle @ w["W_b"].T + low @ w["W_c"] + w["c"])
    cross_entropy(top @ w["W_out"] + w["b_out"], torch.tensor(y)).backward()
    np.testing.assert_allclose(gradient, theta.grad, rtol=0, atol=1e-10)


def test_a_feed_forward_network_has_the_same_layers_without_feedback() -> None:
    looped, deep = looped_mlp(3, 4, 2), layered((3, 4, 4, 2), "hard_sigmoid")
    assert set(feedforward(looped).blocks) == {"W_in", "b", "W_out", "b_out"}
    assert feedforward(looped).layers == looped.layers
    assert feedforward(deep) == deep
    other = feedforward(conv_net(IMAGE, (3, 4), 2, kernel=5, stride=1), "tanh")
    assert [layer.shape for layer in other.layers] == [(6, 6, 3), (6, 6, 4)]
    assert {layer.activation for layer in other.layers} == {"tanh"}
    assert other.links["W_2"].fan_in == 5 * 5 * 3


def test_every_activation_says_what_its_slope_takes() -> None:
    assert set(SLOPES) == set(ACTIVATIONS)


@pytest.mark.parametrize("steps", [0, 4])
def test_slopes_are_written_as_often_as_is_counted(steps: int) -> None:
    """In the run that the audit follows, word by word."""
    network = layered((3, 4, 2, 3, 2), "relu")
    params, x, y = drawn_params(network), np.ones((1, 3)), np.eye(2)[:1]
    writes = [word for word, _ in backprop_recorded(params, x, y, steps).writes]
    chip = DigitalBackend(network, params)
    Rival(steps).gradient(chip, x, y, np.zeros(network.size))
    written = sum(str(word[0]).startswith("gradient.") for word in writes)
    assert written == chip.counts.total("trace_write", "learn")


def test_residual_images_run_where_their_couplings_are_links() -> None:
    network = residual_net(IMAGE, (2, 3, 4), CLASSES, stride=2)
    params, (x, y) = drawn_params(network), drawn_batch(network)
    gradient = np.zeros(network.size)
    Rival(3).gradient(SpikingBackend(network, params), x, y, gradient)
    expected = bptt_gradient(network, params, x, y, 3)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)
