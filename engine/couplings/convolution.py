"""Convolution: one small matrix that is read at every place of an image.

    Phi = sum_p b[p] . (window of a at p) W

A layer of pixels has the shape `(height, width, channels)`. Position `p = (i, j)` of the target
sees the `kernel x kernel` pixels of the source from `(stride i - padding, stride j - padding)` on;
what lies outside is zero. The forms sum over the places of the kernel, the link lists what each
position reads: the two are written apart, and golden holds one to the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

import numpy as np

from engine.arrays import Array, FloatArray, IntArray, by_sample, namespace
from engine.border import checked
from engine.couplings.dense import Bias
from engine.couplings.link import INPUT, ONE, Link, Shapes
from engine.errors import EngineError, check_count

Image = tuple[int, int, int]
"""Height, width and channels."""


class Window(NamedTuple):
    """What a position sees: `kernel x kernel` pixels, `stride` apart, with a border of zeros."""

    kernel: int
    stride: int
    padding: int

    def reached(self, size: int) -> int:
        """Return how many positions a side of so many pixels has."""
        return (size + 2 * self.padding - self.kernel) // self.stride + 1

    def check(self, what: str, source: Image, target: Image) -> None:
        """Refuse shapes that it does not join."""
        for name in ("kernel", "stride"):
            check_count(f"{name} of {what}", getattr(self, name))
        if not 0 <= self.padding < self.kernel:
            raise EngineError(
                f"{what} has padding {self.padding}, expected from 0 to {self.kernel - 1}."
            )
        if self.kernel > min(source[:2]) + 2 * self.padding:
            raise EngineError(
                f"{what} has a kernel of {self.kernel} pixels, more than the image "
                f"{source[0]} x {source[1]} has."
            )
        expected = tuple(self.reached(size) for size in source[:2])
        if target[:2] != expected:
            raise EngineError(
                f"{what} makes {expected[0]} x {expected[1]} pixels of {source[0]} x {source[1]}, "
                f"but its target has {target[0]} x {target[1]}."
            )

    def gather(self, source: Image) -> IntArray:
        """Return the units that each position reads, `(positions, kernel^2 channels)`."""
        height, width, channels = source
        rows, columns = (
            self.stride * np.arange(self.reached(size))[:, None]
            - self.padding
            + np.arange(self.kernel)
            for size in (height, width)
        )
        i, j = rows[:, None, :, None], columns[None, :, None, :]
        inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
        pixel = np.where(inside, i * width + j, -1)[..., None]
        units = np.where(pixel < 0, -1, pixel * channels + np.arange(channels))
        flat: IntArray = units.reshape(-1, self.kernel**2 * channels)
        return flat

    def places(self, target: Image) -> Iterator[tuple[int, slice, slice]]:
        """Yield each place of the kernel, and the pixels that meet it in a padded source."""
        spans = [self.stride * (size - 1) + 1 for size in target[:2]]
        for place in range(self.kernel**2):
            i, j = divmod(place, self.kernel)
            yield (
                place,
                slice(i, i + spans[0], self.stride),
                slice(j, j + spans[1], self.stride),
            )

    def padded(self, a: Array) -> Array:
        """Return `a (samples, height, width, channels)` with its border of zeros."""
        samples, height, width, channels = a.shape
        shape = (samples, height + 2 * self.padding, width + 2 * self.padding, channels)
        wide = namespace(a).zeros(shape, dtype=a.dtype, device=a.device)
        wide[:, self.padding : self.padding + height, self.padding : self.padding + width] += a
        return wide

    def forward(self, w: Array, a: Array, target: Image) -> Array:
        """Return what arrives at the target, `(samples, height, width, channels)`."""
        kernels, wide = w.reshape(self.kernel**2, -1, target[2]), self.padded(a)
        return sum(wide[:, rows, columns] @ kernels[k] for k, rows, columns in self.places(target))

    def backward(self, w: Array, b: Array, source: Image) -> Array:
        """Return what arrives at the source from `b` of the target."""
        height, width, channels = source
        kernels = w.reshape(self.kernel**2, channels, -1)
        border = 2 * self.padding
        shape = (len(b), height + border, width + border, channels)
        wide = namespace(b).zeros(shape, dtype=b.dtype, device=b.device)
        for k, rows, columns in self.places(b.shape[1:]):
            wide[:, rows, columns] += b @ kernels[k].T
        inner = slice(self.padding, self.padding + height)
        return wide[:, inner, self.padding : self.padding + width]

    def correlate(self, a: Array, b: Array) -> Array:
        """Return `sum over samples and positions of window' b`, `(kernel^2 channels, channels)`."""
        wide, pixels = self.padded(a), b.reshape(-1, b.shape[-1])
        parts = [
            wide[:, rows, columns].reshape(len(pixels), -1).T @ pixels
            for _, rows, columns in self.places(b.shape[1:])
        ]
        return namespace(a).concatenate(parts, 0)


def image_shape(what: str, shape: tuple[int, ...]) -> Image:
    """Return height, width and channels of a layer, or refuse one that is no image."""
    if len(shape) != 3:
        raise EngineError(
            f"{what} needs a layer (height, width, channels), but it has shape {shape}."
        )
    height, width, channels = shape
    return height, width, channels


@checked
@dataclass(frozen=True)
class Convolution:
    """`Phi = sum_p b[p] . (window of a at p) W`; `W (kernel^2 channels of a, channels of b)`."""

    name: str
    source: str
    target: str
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    gain: float = 0.5
    """Spectral norm of the starting operator, about."""
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        """Its two ends."""
        return (self.source, self.target)

    @property
    def window(self) -> Window:
        """What a position sees."""
        return Window(self.kernel, self.stride, self.padding)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(kernel^2 channels of the source, channels of the target)`."""
        what = f"convolution '{self.name}'"
        source, target = (image_shape(what, shapes[name]) for name in self.layers)
        self.window.check(what, source, target)
        return (self.kernel**2 * source[2], target[2])

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Gaussian, so small that no window is amplified by more than the gain."""
        fan_in, fan_out = self.shape(shapes)
        overlap = -(-self.kernel // self.stride)  # a pixel is read at so many places a side
        scale = self.gain / (overlap * (np.sqrt(fan_in) + np.sqrt(fan_out)))
        return rng.normal(0.0, scale, (fan_in, fan_out))

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p b[p] . (window of a at p) W`."""
        a, b = states
        return by_sample(self.window.forward(w, a, b.shape[1:]) * b).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """The turned convolution of `b` to the source, the convolution of `a` to the target."""
        a, b = states
        window = self.window
        return window.backward(w, b, a.shape[1:]), window.forward(w, a, b.shape[1:])

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p (window of a at p)' b[p]`."""
        return self.window.correlate(*states)

    def link(self, shapes: Shapes) -> Link:
        """As many positions as the target has pixels."""
        source, target = shapes[self.source], shapes[self.target]
        gather = self.window.gather(image_shape("", source))
        return Link(self.name, self.source, self.target, prod(source), gather, target[2])


@checked
@dataclass(frozen=True)
class InputConvolution:
    """The clamped input as an image `(height, width, channels)` drives a layer through windows."""

    name: str
    layer: str
    image: tuple[int, int, int]
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    clamped: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    @property
    def window(self) -> Window:
        """What a position sees."""
        return Window(self.kernel, self.stride, self.padding)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(kernel^2 channels of the image, channels of the layer)`."""
        what = f"convolution '{self.name}'"
        if prod(self.image) != prod(shapes[INPUT]):
            raise EngineError(
                f"{what} reads images {self.image} of {prod(self.image)} numbers, but the input "
                f"has {prod(shapes[INPUT])}."
            )
        target = image_shape(what, shapes[self.layer])
        self.window.check(what, self.image, target)
        return (self.kernel**2 * self.image[2], target[2])

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`N(0, 1 / fan_in)`: a standardised image gives a drive of variance one."""
        shape = self.shape(shapes)
        return rng.normal(0.0, shape[0] ** -0.5, shape)

    def _image(self, x: Array) -> Array:
        return x.reshape(len(x), *self.image)

    def _target(self, w: Array) -> Image:
        window, (height, width, _) = self.window, self.image
        return window.reached(height), window.reached(width), w.shape[1]

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p s[p] . (window of x at p) W`."""
        (s,) = states
        return by_sample(self.drive(w, x)[0] * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """The convolution of the image."""
        return (self.window.forward(w, self._image(x), self._target(w)),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_p (window of x at p)' s[p]`."""
        (s,) = states
        return self.window.correlate(self._image(x), s)

    def link(self, shapes: Shapes) -> Link:
        """As many positions as the layer has pixels."""
        gather = self.window.gather(self.image)
        return Link(self.name, INPUT, self.layer, prod(self.image), gather, shapes[self.layer][-1])


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
