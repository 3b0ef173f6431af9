"""A convolutional network survives NIR, and torch computes from the graph what the engine does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import conv2d, conv_transpose2d, linear

from adapters.nir_export import from_nir, read_nir, to_nir, write_nir
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.link import Link, Shapes
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError
from engine.learning.predict import predict_outputs
from engine.model.builders import conv_net
from engine.model.network import Layer, Network
from engine.model.params import Params
from experiments.fuzz.strategies import random_params

SIGMA: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "hard_sigmoid": lambda h: h.clamp(0, 1),
}
EXACT = Relaxation(1000, 1e-13)
STEPS = 200
"""Enough for a coupling of norm 0.6 to settle to rounding."""


def plain_bias() -> Network:
    """All units of a strided image have a bias of their own, and are read as they are."""
    network = conv_net((6, 5, 2), (3, 2), 4, activation="tanh")
    couplings = (*network.couplings[:-1], Bias("b_2", "layer2"))
    return replace(network, couplings=couplings, readout=SquaredError("layer2"))


def two_eyes() -> Network:
    """A fork: two layers see the first, through windows of their own."""
    network = conv_net((7, 6, 1), (2, 3), 2, activation="hard_sigmoid")
    other = Layer("side", (4, 3, 2), "tanh")
    convolution = Convolution("W_s", "layer1", "side", 1, 1, 0)
    return replace(
        network,
        layers=(*network.layers, other),
        couplings=(*network.couplings, convolution, ChannelBias("b_s", "side", pixels=12)),
    )


NETWORKS = {
    "default": conv_net((8, 8, 1), (4, 6), 3),
    "one layer": conv_net((5, 7, 2), (3,), 3, stride=3, activation="tanh"),
    "stride 1": conv_net((5, 4, 1), (2, 3), 3, kernel=2, stride=1, activation="hard_sigmoid"),
    "deep": conv_net((13, 11, 2), (2, 3, 4, 2), 3, activation="tanh"),
    "wide windows": conv_net((19, 26, 1), (2, 3, 2), 3, kernel=5, stride=3),
    "plain bias": plain_bias(),
    "fork": two_eyes(),
}


@pytest.fixture(params=NETWORKS.values(), ids=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return request.param


def draw(network: Network, seed: int = 3, dtype: type[np.floating] = np.float64) -> Params:
    return random_params(network, np.random.default_rng(seed), 0.6, dtype)


def images(network: Network) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3, network.inputs))


def channels_first(x: np.ndarray, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(np.moveaxis(x.reshape(-1, *shape), -1, 1).copy())


def equilibrium(params: Params, x: np.ndarray) -> np.ndarray:
    backend = NumbaBackend(params.network, params)
    found = backend.settle(backend.clamp(x), relaxation=EXACT)
    assert found.converged.all()
    return found.state


def sent(node: Any, signal: torch.Tensor) -> torch.Tensor:
    """What a node makes of a signal, by the definition of NIR."""
    match node:
        case nir.Flatten():
            return signal.flatten(node.start_dim + 1)
        case nir.Conv2d():
            weight, bias = torch.tensor(node.weight), torch.tensor(node.bias)
            sizes = (tuple(map(int, v)) for v in (node.stride, node.padding, node.dilation))
            return conv2d(signal, weight, bias, *sizes, groups=node.groups)
        case nir.Affine():
            return linear(signal, torch.tensor(node.weight), torch.tensor(node.bias))
        case nir.Linear():
            return linear(signal, torch.tensor(node.weight))
        case _:
            return signal


def relaxed(graph: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Run a graph that has an activation behind each `LI`, from zero, until it has settled."""
    layers = {name: node for name, node in graph.nodes.items() if isinstance(node, nir.LI)}
    signals = {"input": x} | {
        name: torch.zeros((len(x), *node.v_leak.shape), dtype=x.dtype)
        for name, node in layers.items()
    }

    def arriving(name: str) -> torch.Tensor:
        senders = [source for source, target in graph.edges if target == name]
        parts = [signals[s] if s in signals else sent(graph.nodes[s], arriving(s)) for s in senders]
        return sum(parts[1:], parts[0])

    for _ in range(STEPS):
        drives = {
            name: torch.tensor(node.v_leak) + torch.tensor(node.r) * arriving(name)
            for name, node in layers.items()
        }
        for name, node in layers.items():
            signals[name] = SIGMA[node.metadata["activation"]](drives[name])
    return signals | {"output": arriving("output")}


def in_the_order_of_the_engine(node: Any, cells: torch.Tensor) -> np.ndarray:
    """The cells that have a resistance, channels last."""
    there = torch.tensor(node.r[0] > 0)
    return cells[:, :, there].transpose(1, 2).flatten(1).numpy()


def test_the_nodes_alone_settle_where_the_engine_does(network: Network, tmp_path: Path) -> None:
    params, x = draw(network), images(network)
    write_nir(tmp_path / "net.nir", params)
    graph = nir.read(tmp_path / "net.nir")
    found = relaxed(graph, channels_first(x, network.couplings[0].image))
    state = equilibrium(params, x)
    for name in network.columns:
        ours = network.of(name, state).reshape(len(x), -1)
        theirs = in_the_order_of_the_engine(graph.nodes[name], found[name])
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-9)
        assert np.abs(ours).max() > 0.1
    outputs = found["output"] if not network.reading.link else found["output"].softmax(-1)
    predicted = predict_outputs(NumbaBackend(network, params), x, EXACT)
    np.testing.assert_allclose(outputs.numpy(), predicted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["default", "deep", "wide windows", "stride 1"])
def test_its_kernels_transposed_by_torch_settle_there_too(name: str, tmp_path: Path) -> None:
    """Without the cells between pixels: strides forth, torch's transposed convolution back."""
    network = NETWORKS[name]
    params, x = draw(network), images(network)
    write_nir(tmp_path / "net.nir", params)
    nodes = nir.read(tmp_path / "net.nir").nodes
    windows = [c.filter.window for c in network.couplings if hasattr(c, "filter")]
    kernels = [torch.tensor(nodes[f"W_{k + 1}"].weight) for k in range(len(windows))]
    biases = [torch.tensor(nodes[n].v_leak[:, :1, :1].copy()) for n in network.columns]
    clamped = channels_first(x, network.couplings[0].image)
    states = [torch.zeros((len(x), s[2], *s[:2]), dtype=clamped.dtype) for s in shapes_of(network)]
    for _ in range(STEPS):
        below = [clamped, *states]
        drives = [
            conv2d(below[k], kernels[k], None, w.stride, w.padding) + biases[k]
            for k, w in enumerate(windows)
        ]
        for k, (kernel, stride, padding) in enumerate(windows[1:]):
            sides = zip(states[k].shape[2:], states[k + 1].shape[2:], strict=True)
            rest = [s - ((n - 1) * stride - 2 * padding + kernel) for s, n in sides]
            drives[k] = drives[k] + conv_transpose2d(
                states[k + 1], kernels[k + 1], None, stride, padding, rest
            )
        states = [SIGMA[network.layers[0].activation](drive) for drive in drives]
    found = torch.cat([s.permute(0, 2, 3, 1).flatten(1) for s in states], 1).numpy()
    np.testing.assert_allclose(found, equilibrium(params, x), rtol=0, atol=1e-9)


def shapes_of(network: Network) -> list[tuple[int, ...]]:
    return [layer.shape for layer in network.layers]


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(1, 2)),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([np.float32, np.float64]),
)
def test_every_convolutional_network_comes_back_bit_for_bit(
    image: tuple[int, int, int], channels: list[int], kernel: int, stride: int, dtype: type
) -> None:
    try:
        network = conv_net(image, channels, 2, kernel=kernel, stride=stride)
    except EngineError:  # a kernel larger than its image
        assume(False)
    params = draw(network, dtype=dtype)
    found, _ = from_nir(to_nir(params))
    assert found.network == network
    assert found.theta.dtype == dtype
    np.testing.assert_array_equal(found.theta, params.theta)


def test_a_file_keeps_the_network(network: Network, tmp_path: Path) -> None:
    params = draw(network, dtype=np.float32)
    write_nir(tmp_path / "net.nir", params)
    found, _ = read_nir(tmp_path / "net.nir")
    assert found.network == network
    np.testing.assert_array_equal(found.theta, params.theta)


def test_only_a_stride_between_layers_leaves_cells_free() -> None:
    nodes = to_nir(draw(conv_net((8, 8, 1), (2, 3), 2, stride=1))).nodes
    assert nodes["layer2"].v_leak.shape == (3, 8, 8)
    assert (nodes["layer2"].r == 1).all()
    nodes = to_nir(draw(conv_net((8, 8, 1), (2, 3), 2))).nodes
    assert nodes["W_1"].stride == (2, 2)
    assert nodes["layer1"].v_leak.shape == nodes["layer1"].r.shape == (2, 4, 4)
    assert (nodes["layer1"].r == 1).all()
    assert nodes["layer2"].r.shape == (3, 4, 4)
    assert (nodes["layer2"].r[0].nonzero()[0] == [0, 0, 2, 2]).all()


def test_a_row_beside_the_image_reads_its_pixels_in_the_order_of_nir() -> None:
    couplings = (
        InputConvolution("W_1", "seen", (4, 3, 2), stride=2),
        InputDrive("W_x", "row"),
        Lateral("W_r", "row"),
    )
    layers = (Layer("seen", (2, 2, 3)), Layer("row", (5,)))
    params = draw(Network(24, layers, couplings, SquaredError("row")))
    graph, x = to_nir(params), images(params.network)
    found = relaxed(graph, channels_first(x, (4, 3, 2)))
    state = params.network.of("row", equilibrium(params, x))
    np.testing.assert_allclose(found["row"].numpy(), state, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(from_nir(graph)[0].theta, params.theta)


def with_more(*couplings: Any, layers: tuple[Layer, ...] = ()) -> Params:
    """A network of two layers, 4 x 4 and 2 x 2, that also has these couplings."""
    base = conv_net((8, 8, 1), (2, 3), 2, activation="tanh")
    more = replace(base, layers=base.layers + layers, couplings=base.couplings + couplings)
    return draw(more)


UNWRITABLE = {
    "coupling 'L' sends a row of signals to layer 'layer2'": (Lateral("L", "layer2"),),
    "coupling 'D' sends a row of signals to layer 'layer1'": (Dense("D", "layer1", "top"),),
    "coupling 'I' sends a row of signals to layer 'layer1'": (InputDrive("I", "layer1"),),
    "convolution 'S' from the input to layer 'layer2' has no NIR node": (
        InputConvolution("S", "layer2", (8, 8, 1), stride=4),
    ),
    "convolution 'O' from the input to layer 'layer1' has no NIR node": (
        InputConvolution("O", "layer1", (4, 4, 4)),
    ),
    "convolution 'R' from layer 'layer1' to layer 'layer2' has no NIR node": (
        Convolution("R", "layer1", "layer2", 3, 1, 0),
    ),
    "convolution 'W_2' from layer 'layer1' to layer 'layer2' has no NIR node": (
        Convolution("C", "layer2", "layer1", 3, 1, 2),
    ),
    "layer 'layer1' has two biases": (Bias("b", "layer1"),),
    "two nodes of the NIR graph would be called 'layer2'": (
        Convolution("layer2", "layer1", "layer2", 3, 2, 1),
    ),
}


@pytest.mark.parametrize(("message", "couplings"), UNWRITABLE.items(), ids=UNWRITABLE)
def test_what_nir_cannot_say_is_refused_in_a_sentence(message: str, couplings: tuple) -> None:
    layers = (Layer("top", (3,)),) if message.startswith("coupling 'D'") else ()
    with pytest.raises(EngineError, match=message):
        to_nir(with_more(*couplings, layers=layers))


@dataclass(frozen=True)
class Mirrored(Convolution):
    """One whose windows are read from their end."""

    def link(self, shapes: Shapes) -> Link:
        found = super().link(shapes)
        return replace(found, gather=found.gather[:, ::-1])


def test_a_window_that_is_not_what_is_read_is_no_convolution() -> None:
    with pytest.raises(EngineError, match=r"coupling 'M' \(Mirrored\) has no NIR node"):
        to_nir(with_more(Mirrored("M", "layer1", "layer2", 3, 2, 1)))


def bias_one_pixel(nodes: dict[str, Any]) -> None:
    nodes["layer1"].v_leak[0, 1, 1] += 1.0


def change_stride(nodes: dict[str, Any]) -> None:
    nodes["W_1"].stride = (1, 1)


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "node 'W_2_back' differs from 'W_2'": lambda nodes: nodes["W_2_back"].weight.fill(0.0),
    "node 'layer1' has another v_leak": bias_one_pixel,  # the pixels of a channel share their bias
    "node 'layer2' has another r": lambda nodes: nodes["layer2"].r.fill(1.0),
    "node 'W_1' has another bias": lambda nodes: nodes["W_1"].bias.fill(1.0),
    "node 'W_1' has another stride": change_stride,
    "node 'W_out' has another weight": lambda nodes: nodes["W_out"].weight.fill(1.0),
}


@pytest.mark.parametrize(("message", "edit"), EDITS.items(), ids=EDITS)
def test_nodes_that_are_not_those_of_one_network_are_refused(
    message: str, edit: Callable[[dict[str, Any]], object]
) -> None:
    graph = to_nir(draw(NETWORKS["default"]))
    edit(graph.nodes)
    with pytest.raises(CheckpointError, match=message):
        from_nir(graph)


def test_how_fast_a_layer_settles_is_free() -> None:
    params = draw(NETWORKS["default"])
    graph = to_nir(params)
    graph.nodes["layer1"].tau *= 3.0
    np.testing.assert_array_equal(from_nir(graph)[0].theta, params.theta)
