"""The formulas of convolutions for one sample, as loops over pixels; see `golden.scalar`.

States are flat, row by row, the channels of a pixel side by side.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Vector: TypeAlias = list[float]


def meetings(
    coupling: Any, image: Sequence[int], channels: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield every pair of units that meet: source, target, and row and column of their weight."""
    height, width, depth = image
    kernel, stride, padding = coupling.kernel, coupling.stride, coupling.padding
    tall = (height + 2 * padding - kernel) // stride + 1
    wide = (width + 2 * padding - kernel) // stride + 1
    for i in range(tall):
        for j in range(wide):
            for di in range(kernel):
                for dj in range(kernel):
                    row, column = stride * i - padding + di, stride * j - padding + dj
                    if not (0 <= row < height and 0 <= column < width):
                        continue  # beyond the edge there is nothing
                    for c in range(depth):
                        for k in range(channels):
                            source = (row * width + column) * depth + c
                            target = (i * wide + j) * channels + k
                            yield source, target, (di * kernel + dj) * depth + c, k


def send_convolution(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, Vector]:
    """What arrives at the source, and at the target."""
    a, b = ends
    to_source, to_target = [0.0] * len(a), [0.0] * len(b)
    for source, target, row, column in meetings(coupling, shape, len(w[0])):
        to_source[source] += w[row][column] * b[target]
        to_target[target] += w[row][column] * a[source]
    return to_source, to_target


def correlate_convolution(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """A weight gathers the products of all pairs that it joins."""
    a, b = ends
    return _correlate(coupling, w, a, b, shape)


def send_input(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector]:
    """What the image sends to the layer, of `shape`."""
    height, width, channels = shape
    drive = [0.0] * (height * width * channels)
    for source, target, row, column in meetings(coupling, coupling.image, channels):
        drive[target] += w[row][column] * x[source]
    return (drive,)


def correlate_input(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """A weight gathers the products of pixels of the image and units that it joins."""
    return _correlate(coupling, w, x, ends[0], coupling.image)


def send_bias(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector]:
    """The bias of its channel, to every unit."""
    height, width, _ = shape
    return ([b for _ in range(height * width) for b in w],)


def correlate_bias(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """The sum of a channel."""
    (s,) = ends
    return [sum(s[k :: len(w)]) for k in range(len(w))]


def _correlate(coupling: Any, w: Any, a: Vector, b: Vector, image: Sequence[int]) -> Vector:
    found = [[0.0] * len(w[0]) for _ in w]
    for source, target, row, column in meetings(coupling, image, len(w[0])):
        found[row][column] += a[source] * b[target]
    return [value for row in found for value in row]
