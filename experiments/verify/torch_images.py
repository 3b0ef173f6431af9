"""Convolutions as torch knows them: what the engine's forms, links and kernels are held to.

Nothing here is taken from the engine but the order of the numbers: images lie as
`(samples, height, width, channels)`, and rows of a block as places of the kernel times channels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias, cast

import numpy as np

from adapters.torch_arrays import torch
from engine.arrays import FloatArray, by_sample
from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import Convolution, InputConvolution
from engine.couplings.coupling import Coupling
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.model.network import Layer, Network
from engine.model.params import Params

Image = tuple[int, int, int]
Tensor: TypeAlias = torch.Tensor
SAMPLES = 3
ONE_STEP = Relaxation(max_steps=1, tolerance=0.0)
INPUT_BLOCK = "W_in"


@dataclass(frozen=True)
class Exchange:
    """What arrives at both ends of a coupling, and what its synapses measure."""

    to_source: FloatArray
    to_target: FloatArray
    by_weight: FloatArray

    def error(self, other: "Exchange") -> float:
        """Return the largest relative difference of the three; infinite where shapes differ."""
        names = ("to_source", "to_target", "by_weight")
        return max(_relative_error(getattr(self, n), getattr(other, n)) for n in names)


@dataclass(frozen=True)
class ImageCase:
    """One coupling between two images, its weights, the states of both and an input."""

    name: str
    network: Network
    params: Params
    x: FloatArray
    ends: tuple[FloatArray, FloatArray]

    @property
    def coupling(self) -> Coupling:
        """The coupling between the two images."""
        return self.network.recurrent[0]


def draw_case(
    name: str, image: Image, target: Image, coupling: Coupling, rng: np.random.Generator
) -> ImageCase:
    """Draw weights, states and input for a coupling from layer `low` to layer `high`."""
    # What comes from the input is strided too, from an image of twice the sides.
    shown = (2 * image[0], 2 * image[1], 1)
    couplings: tuple[Coupling, ...] = (InputConvolution(INPUT_BLOCK, "low", shown, 3, 2), coupling)
    layers = (Layer("low", image), Layer("high", target))
    network = Network(prod(shown), layers, couplings, SoftmaxReadout("high", 2))
    params = Params(network, 0.2 * rng.standard_normal(network.size))
    states = [rng.uniform(-0.9, 0.9, (SAMPLES, *shape)) for shape in (image, target)]
    x = rng.standard_normal((SAMPLES, network.inputs))
    return ImageCase(name, network, params, x, (states[0], states[1]))


def skip_by_torch(case: ImageCase) -> Exchange:
    """Return what a convolution of one pixel makes of a case, each channel with itself alone."""
    a, b = map(_planes, case.ends)
    strength = case.params[case.coupling.name].item()
    weight = strength * torch.eye(a.shape[1], dtype=a.dtype)[..., None, None]
    on = torch.nn.functional.conv2d(a, weight)
    back = torch.nn.functional.conv_transpose2d(b, weight)
    trace = _by_weight(a, weight, b)[..., 0, 0].diagonal().sum().reshape(1, 1)
    return Exchange(_pixels(back), _pixels(on), trace.numpy())


def convolution_by_torch(case: ImageCase) -> Exchange:
    """Return what `conv2d`, `conv_transpose2d` and `avg_pool2d` make of a case."""
    coupling, (a, b) = cast(Convolution, case.coupling), map(_planes, case.ends)
    weight = _weight(coupling, case.params[coupling.name])
    stride, padding, groups = coupling.stride, coupling.padding, coupling.groups
    on = torch.nn.functional.conv2d(a, weight, None, stride, padding, 1, groups)
    heard = b
    if coupling.pooling == "mean":
        heard = _unpooled(b, on.shape)
        on = torch.nn.functional.avg_pool2d(on, 2)
    rest = [
        size - ((reached - 1) * stride - 2 * padding + coupling.kernel)
        for size, reached in zip(a.shape[2:], heard.shape[2:], strict=True)
    ]
    back = torch.nn.functional.conv_transpose2d(heard, weight, None, stride, padding, rest, groups)
    measured = _by_weight(a, weight, heard, stride, padding, groups)
    return Exchange(_pixels(back), _pixels(on), _block(measured, coupling))


def by_forms(case: ImageCase) -> Exchange:
    """Return what the closed forms of the coupling say."""
    w = case.params[case.coupling.name]
    low, high = case.coupling.drive(w, case.x, *case.ends)
    measured = np.asarray(case.coupling.correlate(w, case.x, *case.ends))
    return Exchange(by_sample(low), by_sample(high), measured)


def by_link(case: ImageCase) -> Exchange | None:
    """Return what the link of the coupling says, if it is one."""
    link, w = case.network.links.get(case.coupling.name), case.params[case.coupling.name]
    if link is None:
        return None
    a, b = map(by_sample, case.ends)
    return Exchange(link.backward(w, b), link.forward(w, a), link.correlate(a, b).reshape(w.shape))


def by_engine(case: ImageCase) -> Exchange:
    """Return what one step and the local rule of the compiled engine do.

    A step is `tanh` of all drives; that of the input, by torch, is taken off again.
    """
    network, start = case.network, np.concatenate([*map(by_sample, case.ends)], 1)
    backend = NumbaBackend(network, case.params)
    clamped = backend.clamp(case.x, np.eye(2)[np.zeros(SAMPLES, np.int64)])
    found = backend.settle(clamped, relaxation=ONE_STEP, start=start)
    drive = np.arctanh(found.state)
    low, high = (drive[:, network.columns[name]] for name in ("low", "high"))
    measured = Params(network, np.zeros(network.size))
    backend.accumulate(clamped, replace(found, state=start), measured.theta, energy=-1.0)
    return Exchange(low - _from_input(case), high, measured[case.coupling.name])


EXECUTIONS: dict[str, Callable[[ImageCase], Exchange | None]] = {
    "closed forms": by_forms,
    "links": by_link,
    "compiled engine": by_engine,
}


def _from_input(case: ImageCase) -> FloatArray:
    coupling = cast(InputConvolution, case.network.couplings[0])
    x = _planes(case.x.reshape(SAMPLES, *coupling.image))
    weight = _weight(coupling, case.params[coupling.name])
    return _pixels(torch.nn.functional.conv2d(x, weight, None, coupling.stride, coupling.padding))


def _by_weight(
    a: Tensor, weight: Tensor, heard: Tensor, stride: int = 1, padding: int = 0, groups: int = 1
) -> Tensor:
    """Return the gradient of `heard . conv2d(a, weight)` by the weight."""
    leaf = weight.clone().requires_grad_()
    convolved = torch.nn.functional.conv2d(a, leaf, None, stride, padding, 1, groups)
    (found,) = torch.autograd.grad(convolved, leaf, heard)
    return found


def _unpooled(b: Tensor, shape: torch.Size) -> Tensor:
    """Return what pixels hear from pools of 2 x 2: a quarter; a last row in no pool, nothing."""
    wide = (b / 4).repeat_interleave(2, 2).repeat_interleave(2, 3)
    height, width = shape[2] - wide.shape[2], shape[3] - wide.shape[3]
    return torch.nn.functional.pad(wide, (0, width, 0, height))


def _weight(coupling: Convolution | InputConvolution, block: FloatArray) -> Tensor:
    """Return a block as `conv2d` reads it: `(filters, channels of a group, kernel, kernel)`."""
    kernel, groups = coupling.kernel, coupling.groups
    parts = block.reshape(groups, kernel, kernel, -1, block.shape[-1]).transpose(0, 4, 3, 1, 2)
    return torch.from_numpy(np.concatenate(parts))


def _block(weight: Tensor, coupling: Convolution) -> FloatArray:
    """Turn what `_weight` made back into a block."""
    kernel, groups = coupling.kernel, coupling.groups
    parts = weight.numpy().reshape(groups, -1, *weight.shape[1:]).transpose(0, 3, 4, 2, 1)
    rows = parts.reshape(groups, kernel**2 * weight.shape[1], -1)
    block: FloatArray = rows[0] if groups == 1 else rows
    return block


def _planes(pixels: FloatArray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))


def _pixels(planes: Tensor) -> FloatArray:
    found: FloatArray = planes.permute(0, 2, 3, 1).reshape(len(planes), -1).numpy()
    return found


def _relative_error(got: FloatArray, trusted: FloatArray) -> float:
    if got.shape != trusted.shape:
        return float("inf")
    return float(np.abs(got - trusted).max() / np.abs(trusted).max())
