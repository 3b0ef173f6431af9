"""Convolution: one small matrix that is read at every place of an image.

    Phi = sum_p b[p] . pool(z)[p],    z[p] = (window of a at p) W

Without pools and groups it is a link. With them it is none: it runs by kernels of its own, and
says which link bounds it. `engine.couplings.filter` has the formulas.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from engine.arrays import Array, FloatArray, by_sample, namespace
from engine.border import checked
from engine.couplings.bound import Bound
from engine.couplings.dense import Bias
from engine.couplings.effort import Effort
from engine.couplings.filter import Filter
from engine.couplings.link import INPUT, ONE, Link, Shapes
from engine.couplings.pooling import Pooling
from engine.couplings.window import Window, image_shape
from engine.errors import EngineError, PoolingWarning


@checked
@dataclass(frozen=True)
class Convolution:
    """`Phi = sum_p b[p] . pool(z)[p]`, `z[p] = (window of a at p) W`.

    `W` is `(kernel^2 channels of a, channels of b)`, or with several groups
    `(groups, kernel^2 channels of a / groups, channels of b / groups)`.
    """

    name: str
    source: str
    target: str
    kernel: int = 3
    """Pixels along a side of a window."""
    stride: int = 1
    """Pixels from one window to the next."""
    padding: int = 1
    """Pixels of zeros around the source."""
    gain: float = 0.5
    """Spectral norm of the starting operator, about."""
    pooling: Pooling = "none"
    """What 2 x 2 pixels behind the convolution become: four, their mean, or the largest."""
    groups: int = 1
    """Parts of the channels that see each other alone."""
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        """Its two ends."""
        return (self.source, self.target)

    @property
    def filter(self) -> Filter:
        """What is made of the source before it meets the target."""
        return Filter(Window(self.kernel, self.stride, self.padding), self.pooling, self.groups)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(kernel^2 channels of the source, channels of the target)`, both by group."""
        what = f"convolution '{self.name}'"
        source, target = (image_shape(what, shapes[name]) for name in self.layers)
        return self.filter.shape(what, source, target)

    def check_activations(self, activations: Mapping[str, str]) -> None:
        """Refuse or warn of a largest pixel: which one it is changes while a network relaxes."""
        if self.pooling != "max":
            return
        for name in self.layers:
            if activations[name] == "tanh":
                raise EngineError(
                    f"convolution '{self.name}' has max pooling at layer '{name}' with tanh, which "
                    "need not settle: use mean pooling or another activation."
                )
        warnings.warn(
            f"convolution '{self.name}' has max pooling: the largest pixel may change in a phase, "
            "so that it may not settle and its gradient may be wrong; mean pooling has no such "
            "jumps.",
            PoolingWarning,
            stacklevel=5,  # the line that builds the network
        )

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Gaussian, so small that no image is amplified by more than the gain, about."""
        shape = self.shape(shapes)
        overlap = -(-self.kernel // self.stride)  # a pixel is read at so many places a side
        scale = self.gain / (overlap * (np.sqrt(shape[-2]) + np.sqrt(shape[-1])))
        return rng.normal(0.0, scale / self._factor, shape)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p b[p] . pool(z)[p]`."""
        a, b = states
        return by_sample(self.filter.forward(w, a) * b).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """The turned convolution of what `b` says to its pools, and the pooled convolution."""
        return self.filter.exchange(w, *states)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p (window of a at p)' (what p hears from its pool)`."""
        return self.filter.correlate(w, *states)

    def link(self, shapes: Shapes) -> Link | None:
        """As many positions as the target has pixels; none with pools or groups."""
        return self._window_link(shapes) if self.filter.is_plain else None

    def bound(self, shapes: Shapes) -> Bound:
        """The convolution of one group without its pools: a mean of four halves its norm.

        The largest of four does not raise it, as long as the same pixels win.
        """
        bilinear = self.pooling != "max"
        return Bound(self._window_link(shapes), self.groups, self._factor, bilinear)

    def effort(self, shapes: Shapes) -> Effort:
        """Windows are read, and `W` at each of them, there and back."""
        source, target = (image_shape("", shapes[name]) for name in self.layers)
        return self.filter.effort(source, target, both_ways=True)

    @property
    def _factor(self) -> float:
        """Norm of the pools."""
        return 0.5 if self.pooling == "mean" else 1.0

    def _window_link(self, shapes: Shapes) -> Link:
        """The link from the channels of a group to its filters, at every position."""
        height, width, channels = image_shape("", shapes[self.source])
        image = (height, width, channels // self.groups)
        gather, filters = self.filter.window.gather(image), shapes[self.target][2] // self.groups
        return Link(self.name, self.source, self.target, prod(image), gather, filters)


@checked
@dataclass(frozen=True)
class InputConvolution:
    """The clamped input as an image `(height, width, channels)` drives a layer through windows."""

    name: str
    layer: str
    image: tuple[int, int, int]
    """Height, width and channels of the input."""
    kernel: int = 3
    """Pixels along a side of a window."""
    stride: int = 1
    """Pixels from one window to the next."""
    padding: int = 1
    """Pixels of zeros around the image."""
    pooling: Pooling = "none"
    """As of `Convolution`; the largest pixel of an image that stays the same does not change."""
    groups: int = 1
    """Parts of the channels that are seen alone."""
    clamped: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    @property
    def filter(self) -> Filter:
        """What is made of the image before it meets the layer."""
        return Filter(Window(self.kernel, self.stride, self.padding), self.pooling, self.groups)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(kernel^2 channels of the image, channels of the layer)`, both by group."""
        what = f"convolution '{self.name}'"
        if prod(self.image) != prod(shapes[INPUT]):
            raise EngineError(
                f"{what} reads images {self.image} of {prod(self.image)} numbers, but the input "
                f"has {prod(shapes[INPUT])}."
            )
        return self.filter.shape(what, self.image, image_shape(what, shapes[self.layer]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`N(0, 1 / fan_in)`: of a standardised image a position has a drive of variance one."""
        shape = self.shape(shapes)
        return rng.normal(0.0, shape[-2] ** -0.5, shape)

    def _image(self, x: Array) -> Array:
        return x.reshape(len(x), *self.image)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p s[p] . pool(z)[p]`."""
        (s,) = states
        return by_sample(self.drive(w, x)[0] * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """The pooled convolution of the image."""
        return (self.filter.forward(w, self._image(x)),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p (window of x at p)' (what p hears from its pool)`."""
        (s,) = states
        return self.filter.correlate(w, self._image(x), s)

    def link(self, shapes: Shapes) -> Link | None:
        """As many positions as the layer has pixels; none with pools or groups."""
        if not self.filter.is_plain:
            return None
        gather = self.filter.window.gather(self.image)
        return Link(self.name, INPUT, self.layer, prod(self.image), gather, shapes[self.layer][-1])

    def effort(self, shapes: Shapes) -> Effort:
        """Windows are read, and `W` at each of them; nothing is sent back."""
        target = image_shape("", shapes[self.layer])
        return self.filter.effort(self.image, target, both_ways=False)


@checked
@dataclass(frozen=True)
class ChannelBias(Bias):
    """`Phi = sum_p b . s[p]`: all pixels of a channel share one bias."""

    pixels: int = 1
    """Of the layer, which a drive that sees no state cannot know otherwise."""

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(channels,)`."""
        height, width, channels = image_shape(f"bias '{self.name}'", shapes[self.layer])
        if height * width != self.pixels:
            raise EngineError(
                f"bias '{self.name}' is for {self.pixels} pixels, but its layer has "
                f"{height} x {width}."
            )
        return (channels,)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_pc b_c s_pc`."""
        (s,) = states
        return by_sample(w * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`b` at every pixel."""
        nothing = 0 * x[:, :1]
        return (namespace(x).concatenate([w + nothing] * self.pixels, -1),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum over samples and pixels of s`."""
        (s,) = states
        return s.reshape(-1, s.shape[-1]).sum(0)

    def link(self, shapes: Shapes) -> Link:
        """From a unit that is always one, at every pixel."""
        height, width, channels = shapes[self.layer]
        gather = np.zeros((height * width, 1), np.int64)
        return Link(self.name, ONE, self.layer, 1, gather, channels)
