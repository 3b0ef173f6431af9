"""Windows: what each position of a convolution sees of an image, and what it sends back.

A layer of pixels has the shape `(height, width, channels)`. Position `p = (i, j)` sees the
`kernel x kernel` pixels of the source from `(stride i - padding, stride j - padding)` on; what lies
outside is zero. The forms sum over the places of the kernel, the link lists what each position
reads: the two are written apart, and golden holds one to the other.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine.arrays import Array, IntArray, namespace
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

    def check(self, what: str, source: Image) -> None:
        """Refuse an image that it does not fit: each weight must see a pixel at some place."""
        for name in ("kernel", "stride"):
            check_count(f"{name} of {what}", getattr(self, name))
        if not 0 <= self.padding < self.kernel:
            raise EngineError(
                f"{what} has padding {self.padding}, expected from 0 to {self.kernel - 1}."
            )
        if self.kernel > min(source[:2]) + self.padding:
            raise EngineError(
                f"{what} has a kernel of {self.kernel} pixels, larger than the image "
                f"{source[0]} x {source[1]}: some of its weights never see a pixel."
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

    def places(self, reached: Sequence[int]) -> Iterator[tuple[int, slice, slice]]:
        """Yield each place of the kernel, and the pixels that meet it in a padded source.

        `reached` are the positions, `(height, width)`.
        """
        spans = [self.stride * (size - 1) + 1 for size in reached]
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

    def forward(self, w: Array, a: Array) -> Array:
        """Return what arrives at the positions, `(samples, height, width, channels)`.

        `w` is `(kernel^2 channels of a, channels)`.
        """
        kernels, wide = w.reshape(self.kernel**2, -1, w.shape[-1]), self.padded(a)
        reached = [self.reached(size) for size in a.shape[1:3]]
        return sum(wide[:, rows, columns] @ kernels[k] for k, rows, columns in self.places(reached))

    def backward(self, w: Array, b: Array, source: Image) -> Array:
        """Return what arrives at the source from `b` of the positions."""
        height, width, channels = source
        kernels = w.reshape(self.kernel**2, channels, -1)
        border = 2 * self.padding
        shape = (len(b), height + border, width + border, channels)
        wide = namespace(b).zeros(shape, dtype=b.dtype, device=b.device)
        for k, rows, columns in self.places(b.shape[1:3]):
            wide[:, rows, columns] += b @ kernels[k].T
        inner = slice(self.padding, self.padding + height)
        return wide[:, inner, self.padding : self.padding + width]

    def correlate(self, a: Array, b: Array) -> Array:
        """Return `sum over samples and positions of window' b`, `(kernel^2 channels, channels)`."""
        wide, pixels = self.padded(a), b.reshape(-1, b.shape[-1])
        parts = [
            wide[:, rows, columns].reshape(len(pixels), -1).T @ pixels
            for _, rows, columns in self.places(b.shape[1:3])
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
