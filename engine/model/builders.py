"""The networks that the package builds: looped, layered, and the energy transformer."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from engine.border import checked
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution, Window
from engine.couplings.coupling import Coupling
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.tokens import Embedding, Position, TokenReadout
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
def conv_net(
    image: tuple[int, int, int],
    channels: Sequence[int],
    outputs: int,
    *,
    kernel: int = 3,
    stride: int = 2,
    activation: str = "relu",
) -> Network:
    """Build layers of pixels, each seen by the next through windows of the one before it.

    `image` is `(height, width, channels)` of the input, `channels` are those of the layers. A
    window has `kernel x kernel` pixels, with a border of zeros of half its size; `stride` pixels on
    comes the next. All units of the last layer are read out by softmax.
    """
    if not channels:
        raise EngineError("a convolutional network needs the channels of at least one layer.")
    check_count("kernel", kernel)
    check_count("stride", stride)
    window = Window(kernel, stride, padding=kernel // 2)
    names = [f"layer{k + 1}" for k in range(len(channels))]
    layers: list[Layer] = []
    couplings: list[Coupling] = [InputConvolution("W_1", names[0], image, *window)]
    couplings += [
        Convolution(f"W_{k + 2}", below, above, *window)
        for k, (below, above) in enumerate(pairwise(names))
    ]
    height, width, _ = image
    for k, (name, count) in enumerate(zip(names, channels, strict=True)):
        height, width = window.reached(height), window.reached(width)
        layers.append(Layer(name, (height, width, count), activation))
        start = _bias_start(activation)
        couplings.append(ChannelBias(f"b_{k + 1}", name, start, height * width))
    return Network(prod(image), tuple(layers), tuple(couplings), SoftmaxReadout(names[-1], outputs))


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
