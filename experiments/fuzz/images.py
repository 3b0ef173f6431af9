"""Hypothesis strategies for small networks of images."""

from collections.abc import Sequence

from hypothesis import strategies as st

from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.pooling import Pooling
from engine.couplings.readout import SoftmaxReadout
from engine.model.builders import conv_net, residual_net
from engine.model.network import Layer, Network

FEW = st.integers(1, 2)
SIDES = {"strided": 5, "pooled": 6, "grouped": 3, "residual": 3}
"""Kinds of networks, and the least side of an image whose second layer a kernel of three fits."""


@st.composite
def images(draw: st.DrawFn, activations: Sequence[str] = ("tanh", "hard_sigmoid")) -> Network:
    """Convolutions with a stride, with mean pools, in groups, and with skips."""
    kind = draw(st.sampled_from(tuple(SIDES)))
    sides = st.integers(SIDES[kind], SIDES[kind] + 1)
    image = (draw(sides), draw(sides), draw(FEW))
    activation, outputs = draw(st.sampled_from(activations)), draw(st.integers(1, 3))
    if kind == "grouped":
        return _grouped(image, draw(FEW), outputs, activation)
    if kind == "residual":
        channels = draw(st.lists(FEW, min_size=3, max_size=3))
        return residual_net(image, channels, outputs, activation=activation)
    channels = draw(st.lists(FEW, min_size=1, max_size=2))
    pooling: Pooling = "mean" if kind == "pooled" else "none"
    return conv_net(image, channels, outputs, pooling=pooling, activation=activation)


def _grouped(image: tuple[int, int, int], filters: int, outputs: int, activation: str) -> Network:
    """Two layers joined by a convolution whose groups see one channel each."""
    height, width, _ = image
    tall, wide = -(-height // 2), -(-width // 2)
    layers = (
        Layer("low", (height, width, 2), activation),
        Layer("high", (tall, wide, 2 * filters), activation),
    )
    couplings = (
        InputConvolution("W_1", "low", image),
        Convolution("W_2", "low", "high", stride=2, groups=2),
        ChannelBias("b_1", "low", 0.2, height * width),
        ChannelBias("b_2", "high", 0.2, tall * wide),
    )
    inputs = height * width * image[2]
    return Network(inputs, layers, couplings, SoftmaxReadout("high", outputs))
