"""The networks that the package builds: looped, layered, of images, the energy transformer."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from engine.border import checked
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.conductance import LEAST, Conductance, InputConductance
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.filter import Filter
from engine.couplings.pooling import Pooling
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.skip import Skip
from engine.couplings.tokens import Embedding, Position, TokenReadout
from engine.couplings.window import Window
from engine.errors import EngineError, check_count
from engine.model.network import Layer, Network


@checked
def looped_mlp(inputs: int, hidden: int, outputs: int, activation: str = "tanh") -> Network:
    """Build the reference network: one layer coupled to itself, read out by softmax."""
    bias = Bias("b", "hidden", _bias_start(activation))
    return Network(
        inputs,
        (Layer("hidden", (hidden,), activation),),
        (InputDrive("W_in", "hidden"), bias, Lateral("W_rec", "hidden")),
        SoftmaxReadout("hidden", outputs),
    )


@checked
def layered(
    sizes: Sequence[int],
    activation: str = "tanh",
    readout: Literal["softmax", "squared_error"] = "softmax",
) -> Network:
    """Build a network of layers `sizes = (inputs, hidden, ..., outputs)`.

    With `softmax` the outputs stand outside the energy; with `squared_error` they are its last
    layer. Neighbouring layers share one matrix that carries signals both ways.
    """
    if readout not in ("softmax", "squared_error"):
        raise EngineError(f"unknown read-out '{readout}'; known: softmax, squared_error.")
    inside = list(sizes[1:] if readout == "squared_error" else sizes[1:-1])
    if len(sizes) < 2 or not inside:
        raise EngineError(f"sizes {tuple(sizes)} leave no layer between input and {readout}.")
    names = [f"layer{k + 1}" for k in range(len(inside))]
    layers = tuple(Layer(n, (size,), activation) for n, size in zip(names, inside, strict=True))
    couplings: list[Coupling] = [InputDrive("W_1", names[0])]
    couplings += [
        Dense(f"W_{k + 2}", below, above) for k, (below, above) in enumerate(pairwise(names))
    ]
    start = _bias_start(activation)
    couplings += [Bias(f"b_{k + 1}", name, start) for k, name in enumerate(names)]
    top = names[-1]
    reader = SquaredError(top) if readout == "squared_error" else SoftmaxReadout(top, sizes[-1])
    return Network(sizes[0], layers, tuple(couplings), reader)


@checked
def resistive(
    sizes: Sequence[int],
    *,
    input_amplification: float = 4.0,
    amplification: float = 1.0,
    total: float = 1.0,
    g_min: float = LEAST,
) -> Network:
    """Build a circuit of nodes `sizes = (inputs, hidden, ..., outputs)`, joined by resistors.

    Each input is a pair of voltage sources of opposite sign. Half of the hidden nodes have a diode
    that keeps them above zero, the others one that keeps them below; outputs have none, and are
    compared with their targets. A current source biases each node. At the start `total` leaks'
    worth of conductance joins a node to those below it.
    """
    if len(sizes) < 3:
        raise EngineError(f"sizes {tuple(sizes)} leave no hidden layer between input and output.")
    layers: list[Layer] = []
    couplings: list[Coupling] = []
    below: list[Layer] = []
    for k, size in enumerate(sizes[1:], start=1):
        here = [Layer("outputs", (size,), "linear")]
        if k < len(sizes) - 1:
            halves = {"up": (size + 1) // 2, "down": size // 2}
            bent = {"up": "relu", "down": "mirrored_relu"}
            here = [Layer(f"{h}{k}", (n,), bent[h]) for h, n in halves.items() if n]
        for layer in here:
            name = f"g_{k}_{layer.name}"
            if not below:
                couplings.append(
                    InputConductance(name, layer.name, input_amplification, total, g_min)
                )
            for lower in below:
                share = total * lower.size / sum(other.size for other in below)
                name = f"g_{lower.name}_{layer.name}"
                couplings.append(
                    Conductance(name, lower.name, layer.name, amplification, share, g_min)
                )
        layers, below = layers + here, here
    couplings += [Bias(f"b_{layer.name}", layer.name) for layer in layers]
    return Network(sizes[0], tuple(layers), tuple(couplings), SquaredError("outputs"))


@checked
def conv_net(
    image: tuple[int, int, int],
    channels: Sequence[int],
    outputs: int,
    *,
    kernel: int = 3,
    stride: int | None = None,
    activation: str = "relu",
    pooling: Pooling = "none",
    first_kernel: int | None = None,
) -> Network:
    """Build layers of pixels, each seen by the next through windows of the one before it.

    `image` is `(height, width, channels)` of the input, `channels` are those of the layers. A
    window has `kernel x kernel` pixels (of the image `first_kernel`, if that is given), with a
    border of zeros of half its size; `stride` pixels on comes the next: by default 2, or 1 where
    `pooling` halves the sides. All units of the last layer are read out by softmax.
    """
    if stride is None:
        stride = 2 if pooling == "none" else 1
    kernels = (kernel if first_kernel is None else first_kernel, kernel)
    layers, couplings = _image_stack(image, channels, activation, kernels, stride, pooling)
    return _read_image(image, layers, couplings, outputs)


@checked
def residual_net(
    image: tuple[int, int, int],
    channels: Sequence[int],
    outputs: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    activation: str = "relu",
    pooling: Pooling = "none",
    first_kernel: int | None = None,
) -> Network:
    """Build a `conv_net` in which each layer is also coupled to the one after the next.

    Layers of one shape are joined unit by unit, with one strength; others by a convolution of one
    pixel, with the stride of the layers between them or else the smallest that fits. Couplings
    start with half the gain of a `conv_net`: twice as many meet in a layer.
    """
    if len(channels) < 3:
        raise EngineError(f"channels {tuple(channels)} leave no layer to skip: three are needed.")
    gain = 0.25
    kernels = (kernel if first_kernel is None else first_kernel, kernel)
    layers, couplings = _image_stack(image, channels, activation, kernels, stride, pooling, gain)
    apart = (stride * (1 if pooling == "none" else 2)) ** 2
    for k, (below, above) in enumerate(zip(layers, layers[2:], strict=False)):
        couplings.append(_skip(f"S_{k + 1}", below, above, apart, gain))
    return _read_image(image, layers, couplings, outputs)


def _image_stack(
    image: tuple[int, int, int],
    channels: Sequence[int],
    activation: str,
    kernels: tuple[int, int],
    stride: int,
    pooling: Pooling,
    gain: float = 0.5,
) -> tuple[list[Layer], list[Coupling]]:
    """Return layers of pixels, their convolutions and biases; `kernels` of the first and others."""
    if not channels:
        raise EngineError("a convolutional network needs the channels of at least one layer.")
    layers: list[Layer] = []
    couplings: list[Coupling] = []
    seen, start = image, _bias_start(activation)
    for k, count in enumerate(channels):
        name, block, kernel = f"layer{k + 1}", f"W_{k + 1}", kernels[min(k, 1)]
        window = Window(kernel, stride, padding=kernel // 2)
        height, width = Filter(window, pooling, 1).reached(f"convolution '{block}'", seen)
        if k == 0:
            couplings.append(InputConvolution(block, name, image, *window, pooling))
        else:
            couplings.append(
                Convolution(block, layers[-1].name, name, *window, gain=gain, pooling=pooling)
            )
        seen = (height, width, count)
        layers.append(Layer(name, seen, activation))
    for k, layer in enumerate(layers):
        pixels = layer.shape[0] * layer.shape[1]
        couplings.append(ChannelBias(f"b_{k + 1}", layer.name, start, pixels))
    return layers, couplings


def _skip(name: str, below: Layer, above: Layer, apart: int, gain: float) -> Coupling:
    """Join two layers of pixels past the one between them, or refuse what no stride joins.

    What neighbours of the upper layer see lies `apart` pixels apart in the lower one.
    """
    if below.shape == above.shape:
        return Skip(name, below.name, above.name, gain)
    for stride in (apart, *range(1, max(below.shape[:2]) + 1)):
        window = Window(1, stride, padding=0)
        if tuple(window.reached(size) for size in below.shape[:2]) == above.shape[:2]:
            return Convolution(name, below.name, above.name, *window, gain)
    sides = [f"{layer.shape[0]} x {layer.shape[1]}" for layer in (below, above)]
    raise EngineError(
        f"no stride joins the {sides[0]} pixels of '{below.name}' to the {sides[1]} of "
        f"'{above.name}', so that nothing can skip the layer between them."
    )


def _read_image(
    image: tuple[int, int, int],
    layers: Sequence[Layer],
    couplings: Sequence[Coupling],
    outputs: int,
) -> Network:
    """Read all units of the last layer out by softmax."""
    readout = SoftmaxReadout(layers[-1].name, outputs)
    return Network(prod(image), tuple(layers), tuple(couplings), readout)


@checked
def energy_transformer(
    vocabulary: int,
    length: int,
    width: int = 64,
    heads: int = 2,
    head_size: int | None = None,
    outputs: int | None = None,
    *,
    memories: int = 0,
    sharpness: float = 1.0,
    sees_itself: bool = False,
    causal: bool = False,
) -> Network:
    """Build a transformer whose one layer of `length` tokens relaxes under attention.

    Inputs are tokens `(samples, length)`, whole numbers below `vocabulary`; each position is read
    out by the same softmax over `outputs` (by default the vocabulary). Heads have `head_size`
    (by default `width / heads`) units; `memories` above zero adds a Hopfield feed-forward term.
    """
    check_count("length", length)
    check_count("width", width)
    check_count("heads", heads)
    size = max(1, width // heads) if head_size is None else head_size
    attention = Attention("attention", "tokens", heads, size, sharpness, sees_itself, causal)
    couplings: list[Coupling] = [
        Embedding("Emb", "tokens", vocabulary),
        Position("Pos", "tokens"),
        attention,
    ]
    if memories != 0:
        couplings.append(Hopfield("memories", "tokens", memories))
    readout = TokenReadout("tokens", vocabulary if outputs is None else outputs)
    return Network(length, (Layer("tokens", (length, width)),), tuple(couplings), readout)


def _bias_start(activation: str) -> float:
    """Start a hard sigmoid in the middle of its range: at its edge half of the nudges are lost."""
    return 0.5 if activation == "hard_sigmoid" else 0.0
