"""Convolutional networks: one that relaxes, and the feed-forward network with the same layers."""

from math import prod
from typing import Any, cast

from adapters.torch_arrays import torch
from engine.arrays import FloatArray
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.coupling import Coupling
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.window import Window
from engine.errors import EngineError
from engine.model.network import Layer, Network
from experiments.contest.baselines import BENDS, TorchLearner, draw_uniformly
from experiments.tasks import Image


def layer_plan(layers: str) -> list[tuple[int, int]]:
    """Return channels and stride of each layer from a text such as `32/2-64/2`; no stride is 1."""
    plan = []
    for layer in layers.split("-"):
        channels, _, stride = layer.partition("/")
        try:
            plan.append((int(channels), int(stride or 1)))
        except ValueError:
            raise EngineError(
                f"layers are '{layers}', expected channels / stride of each, such as 16/2-32/2."
            ) from None
    return plan


def conv_stack(image: Image, layers: str, kernel: int, activation: str, classes: int) -> Network:
    """Build layers of pixels that see each other through windows, read out whole by softmax."""
    size, below = image[:2], ""
    stack: list[Layer] = []
    couplings: list[Coupling] = []
    biases: list[Coupling] = []
    for number, (channels, stride) in enumerate(layer_plan(layers), start=1):
        name, window = f"layer{number}", Window(kernel, stride, kernel // 2)
        couplings.append(
            Convolution(f"W_{number}", below, name, *window)
            if below
            else InputConvolution(f"W_{number}", name, image, *window)
        )
        size = (window.reached(size[0]), window.reached(size[1]))
        stack.append(Layer(name, (*size, channels), activation))
        biases.append(ChannelBias(f"b_{number}", name, 0.0, prod(size)))
        below = name
    readout = SoftmaxReadout(below, classes)
    return Network(prod(image), tuple(stack), (*couplings, *biases), readout)


def kernels_of(network: Network) -> list[InputConvolution | Convolution]:
    """Return the convolutions of a network from the image upwards."""
    seeing: list[Any] = [c for c in network.couplings if hasattr(c, "filter")]
    return seeing


def filters_of(block: FloatArray, kernel: int) -> FloatArray:
    """Return a block of weights as pictures, `(filters, kernel, kernel, channels)`."""
    pictures: FloatArray = block.reshape(kernel, kernel, -1, block.shape[1]).transpose(3, 0, 1, 2)
    return pictures


class _AsPlanes(torch.nn.Module):
    """Turns rows of pixels into planes `(samples, channels, height, width)`."""

    def __init__(self, image: Image) -> None:
        super().__init__()
        self._image = image

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), *self._image).permute(0, 3, 1, 2)


class FeedForwardImages(TorchLearner):
    """The layers of a convolutional network as a feed-forward one: the same kernels, strides and
    channels, the same activation, the same softmax over all of the last layer.
    """

    def __init__(self, network: Network, seed: int, device: str = "cpu") -> None:
        first, *_ = kernels = kernels_of(network)
        parts: list[torch.nn.Module] = [_AsPlanes(cast(InputConvolution, first).image)]
        for layer, coupling in zip(network.layers, kernels, strict=True):
            fan_in, channels = network.blocks[coupling.name].shape
            inside = fan_in // coupling.kernel**2
            window = (coupling.kernel, coupling.stride, coupling.padding)
            parts += [torch.nn.Conv2d(inside, channels, *window), BENDS[layer.activation]()]
        top = network.layers[-1].size
        parts += [torch.nn.Flatten(), torch.nn.Linear(top, network.outputs)]
        model = torch.nn.Sequential(*parts)
        draw_uniformly(model, seed)
        super().__init__(model, device)
        self._first = cast(torch.nn.Conv2d, model[1])

    @property
    def filters(self) -> FloatArray:
        """The first layer as pictures, `(filters, kernel, kernel, channels)`."""
        pictures: FloatArray = self._first.weight.detach().permute(0, 2, 3, 1).cpu().numpy()
        return pictures
