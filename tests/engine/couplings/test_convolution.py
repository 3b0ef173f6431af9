"""Convolutions against torch's own, and what they refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, conv_transpose2d

from adapters.torch_autograd import implicit_gradient
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from engine.learning.spectral import recurrent_norm
from engine.learning.training import Training, fit
from engine.model.builders import conv_net
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden.couplings import check_network

WINDOWS = [(1, 1, 0), (3, 1, 1), (3, 2, 1), (3, 2, 0), (2, 2, 0), (4, 3, 2), (5, 2, 4)]
IMAGE, CHANNELS, SAMPLES = (7, 6, 3), 4, 5
windows = pytest.mark.parametrize(("kernel", "stride", "padding"), WINDOWS)


def _layers(coupling: Any) -> dict[str, tuple[int, ...]]:
    sides = (coupling.filter.window.reached(size) for size in IMAGE[:2])
    return {"a": IMAGE, "b": (*sides, CHANNELS)}


def _drawn(coupling: Convolution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, shapes = np.random.default_rng(0), _layers(coupling)
    states = (rng.standard_normal((SAMPLES, *shapes[name])) for name in ("a", "b"))
    return (rng.standard_normal(coupling.shape(shapes)), *states)


def _torch(coupling: Any, w: np.ndarray, *states: np.ndarray) -> list[torch.Tensor]:
    """The kernel and states as torch orders them: channels first."""
    kernel = w.reshape(coupling.kernel, coupling.kernel, -1, w.shape[1]).transpose(3, 2, 0, 1)
    turned = (state.transpose(0, 3, 1, 2) for state in states)
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in (kernel, *turned)]


@windows
def test_what_arrives_at_either_end_is_what_torch_says(
    kernel: int, stride: int, padding: int
) -> None:
    coupling = Convolution("W", "a", "b", kernel, stride, padding)
    w, a, b = _drawn(coupling)
    weights, source, target = _torch(coupling, w, a, b)
    to_source, to_target = coupling.drive(w, a, a, b)
    there = conv2d(source, weights, stride=stride, padding=padding).numpy().transpose(0, 2, 3, 1)
    np.testing.assert_allclose(to_target, there, atol=1e-12)
    sides = zip(IMAGE[:2], b.shape[1:3], strict=True)
    # Pixels at the far edge that no window reaches get nothing; torch has to be told.
    rest = [s - ((n - 1) * stride - 2 * padding + kernel) for s, n in sides]
    back = conv_transpose2d(target, weights, stride=stride, padding=padding, output_padding=rest)
    np.testing.assert_allclose(to_source, back.numpy().transpose(0, 2, 3, 1), atol=1e-12)


@windows
def test_a_weight_learns_from_all_pixels_that_it_joins(
    kernel: int, stride: int, padding: int
) -> None:
    coupling = Convolution("W", "a", "b", kernel, stride, padding)
    w, a, b = _drawn(coupling)
    weights, source, target = _torch(coupling, w, a, b)
    weights.requires_grad_()
    (conv2d(source, weights, stride=stride, padding=padding) * target).sum().backward()
    assert weights.grad is not None
    expected = weights.grad.numpy().transpose(2, 3, 1, 0).reshape(w.shape)
    np.testing.assert_allclose(coupling.correlate(w, a, a, b), expected, atol=1e-11)


@windows
def test_golden_holds_forms_and_links_to_autograd(kernel: int, stride: int, padding: int) -> None:
    see, hear = (
        Convolution("W", "a", "b", kernel, stride, padding),
        InputConvolution("W_in", "a", (9, 8, 2), kernel=3, stride=1, padding=0),
    )
    shapes = _layers(see)
    layers = tuple(Layer(name, shape) for name, shape in shapes.items())
    biases = tuple(ChannelBias(f"b_{n}", n, pixels=int(np.prod(s[:2]))) for n, s in shapes.items())
    network = Network(144, layers, (see, hear, *biases), SoftmaxReadout("b", 3))
    failed = [m for m in check_network(network, np.random.default_rng(1)) if not m.passed]
    assert not failed


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_gradient_of_a_deep_network_is_the_implicit_one(depth: int) -> None:
    """With tanh: a unit of relu whose drive is about zero has two slopes."""
    network = conv_net((20, 18, 2), (3, 4, 3, 2)[:depth], 3, activation="tanh")
    rng = np.random.default_rng(2)
    params = initial_params(network, rng, np.float64)
    x, y = rng.standard_normal((4, network.inputs)), np.eye(3)[[0, 1, 2, 0]]
    backend, way = NumbaBackend(network, params), Relaxation(2000, 1e-14)
    gradient = np.zeros(network.size)
    estimate(backend, backend.clamp(x, y), centered(1e-4), gradient, way, way)
    exact = implicit_gradient(network, params, x, y, way)
    for name, block in Params(network, exact).items():
        error = np.abs(Params(network, gradient)[name] - block).max()
        assert error <= 1e-5 * max(np.abs(block).max(), np.abs(exact).max() * 1e-4), name


def test_the_cap_bounds_the_operator_and_not_the_kernel() -> None:
    network = conv_net((8, 8, 1), (4, 6), 3, stride=1, activation="tanh")
    rng = np.random.default_rng(3)
    params = initial_params(network, rng, np.float64)
    params["W_2"][...] *= 20.0
    backend = NumbaBackend(network, params)
    x, y = rng.standard_normal((12, 64)), rng.integers(3, size=12)
    fit(backend, x, y, Training(epochs=2, batch_size=4))
    link = network.links["W_2"]
    exact = np.linalg.norm(link.matrix(backend.params["W_2"]), 2)
    assert exact <= 0.95 * (1 + 1e-6)
    np.testing.assert_allclose(recurrent_norm(backend.params), exact, rtol=1e-3)
    assert np.linalg.norm(backend.params["W_2"], 2) < 0.9 * exact  # places overlap


def test_a_network_of_windows_halves_its_image_layer_by_layer() -> None:
    network = conv_net((28, 28, 1), (8, 16, 32), 10)
    assert [layer.shape for layer in network.layers] == [(14, 14, 8), (7, 7, 16), (4, 4, 32)]
    assert network.blocks["W_2"].shape == (9 * 8, 16)
    assert network.links["W_2"].macs == 49 * 72 * 16
    assert network.blocks["b_3"].shape == (32,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 9}, "kernel of 9 pixels, larger than the image 7 x 6"),
        ({"kernel": 9, "padding": 2}, "kernel of 9 pixels, larger than the image 7 x 6"),
        ({"kernel": 0}, "kernel of convolution 'W' is 0"),
        ({"padding": 3}, "has padding 3, expected from 0 to 2"),
        ({"padding": -1}, "has padding -1, expected from 0 to 2"),
        ({"padding": 0}, "makes 3 x 2 pixels of 7 x 6, but its target has 4 x 3"),
        ({"stride": 0}, "stride of convolution 'W' is 0"),
        ({"stride": 1}, "makes 7 x 6 pixels of 7 x 6, but its target has 4 x 3"),
    ],
)
def test_windows_that_do_not_fit_are_refused(settings: dict[str, int], message: str) -> None:
    coupling = Convolution("W", "a", "b", **({"kernel": 3, "stride": 2, "padding": 1} | settings))
    with pytest.raises(EngineError, match=message):
        coupling.shape({"a": IMAGE, "b": (4, 3, CHANNELS)})


def test_layers_that_are_no_images_are_refused() -> None:
    with pytest.raises(EngineError, match=r"needs a layer \(height, width, channels\)"):
        Convolution("W", "a", "b").shape({"a": (9,), "b": (3, 3, 1)})
    with pytest.raises(EngineError, match=r"reads images \(3, 3, 2\) of 18 numbers, but .* has 9"):
        InputConvolution("W", "a", (3, 3, 2)).shape({"input": (9,), "a": (3, 3, 1)})
    with pytest.raises(EngineError, match="is for 8 pixels, but its layer has 3 x 3"):
        ChannelBias("b", "a", pixels=8).shape({"a": (3, 3, 1)})
    with pytest.raises(EngineError, match="channels of at least one layer"):
        conv_net((8, 8, 1), (), 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image": (2, 2, 1)}, "'W_2' has a kernel of 3 pixels, larger than the image 1 x 1"),
        ({"channels": (4, 0)}, "layer 'layer2' has size 0"),
        ({"first_kernel": 19}, "'W_1' has a kernel of 19 pixels, larger than the image 8 x 8"),
        ({"pooling": "median"}, "unknown pooling 'median'; known: none, mean, max"),
        (
            {"pooling": "mean", "kernel": 1, "channels": (1,) * 4},
            "1 x 1 pixels, too few for a 2 x 2",
        ),
    ],
)
def test_networks_that_do_not_fit_their_image_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    whole = {"image": (8, 8, 1), "channels": (2, 2, 2), "outputs": 3, "stride": 1}
    if "image" in settings:
        whole["stride"] = 2
    with pytest.raises(EngineError, match=message):
        conv_net(**(whole | settings))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 63)), r"x has shape \(2, 63\), expected \(samples, 64\)"),
        (np.zeros((2, 8, 8, 1)), r"x has shape \(2, 8, 8, 1\), expected \(samples, 64\)"),
        ([np.zeros(64), np.zeros(81)], "x is not a numeric array"),
    ],
)
def test_images_of_another_size_are_refused(x: Any, message: str) -> None:
    network = conv_net((8, 8, 1), (2,), 3)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    with pytest.raises(EngineError, match=message):
        backend.clamp(x)
