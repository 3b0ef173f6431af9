"""The formulas of convolutions for one sample, as loops over pixels; see `golden.scalar`.

States are flat, row by row, the channels of a pixel side by side. A position of a convolution is
known by its number, with all its filters; a weight by its place in the block as it lies in memory.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Vector: TypeAlias = list[float]


def meetings(coupling: Any, image: Sequence[int], filters: int) -> Iterator[tuple[int, int, int]]:
    """Yield all that meet: a unit of the image, a filter at a position, and their weight."""
    height, width, depth = image
    kernel, stride, padding = coupling.kernel, coupling.stride, coupling.padding
    tall, wide = _reached(coupling, image)
    seen, own = depth // coupling.groups, filters // coupling.groups
    for i in range(tall):
        for j in range(wide):
            for di in range(kernel):
                for dj in range(kernel):
                    row, column = stride * i - padding + di, stride * j - padding + dj
                    if not (0 <= row < height and 0 <= column < width):
                        continue  # beyond the edge there is nothing
                    for k in range(filters):
                        group, own_k = divmod(k, own)
                        for c in range(seen):
                            source = (row * width + column) * depth + group * seen + c
                            place = (di * kernel + dj) * seen + c
                            weight = (group * kernel**2 * seen + place) * own + own_k
                            yield source, (i * wide + j) * filters + k, weight


def send_convolution(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, Vector]:
    """What arrives at the source, and at the target."""
    a, b = ends
    weights = _flat(w)
    to_target, heard = _pool(coupling, weights, a, b, shape)
    to_source = [0.0] * len(a)
    for source, position, weight in meetings(coupling, shape, _filters(coupling, weights, shape)):
        to_source[source] += weights[weight] * heard[position]
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
    silent = [0.0] * (height * width * channels)
    drive, _ = _pool(coupling, _flat(w), x, silent, coupling.image)
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


def send_skip(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> tuple[Vector, Vector]:
    """To each unit its like at the other end, times the strength."""
    a, b = ends
    strength = w[0][0]
    return [strength * b_u for b_u in b], [strength * a_u for a_u in a]


def correlate_skip(
    coupling: Any, w: Any, x: Vector, ends: Sequence[Vector], shape: Sequence[int]
) -> Vector:
    """The strength gathers the products of all pairs."""
    return [sum(a_u * b_u for a_u, b_u in zip(*ends, strict=True))]


def _pool(
    coupling: Any, weights: Vector, a: Vector, b: Vector, image: Sequence[int]
) -> tuple[Vector, Vector]:
    """What arrives at the target, and what every filter at every position hears from `b`."""
    tall, wide = _reached(coupling, image)
    filters = _filters(coupling, weights, image)
    said = [0.0] * (tall * wide * filters)
    for source, position, weight in meetings(coupling, image, filters):
        said[position] += weights[weight] * a[source]
    arrived, heard = [0.0] * len(b), [0.0] * len(said)
    for unit, members in enumerate(_pools(coupling.pooling, tall, wide, filters)):
        if coupling.pooling == "max":
            members = [max(members, key=said.__getitem__)]  # of equals the first
        for member in members:
            arrived[unit] += said[member] / len(members)
            heard[member] = b[unit] / len(members)
    return arrived, heard


def _pools(pooling: str, tall: int, wide: int, filters: int) -> Iterator[list[int]]:
    """Yield for every unit of the target what it is made of; what fills no pool is in none."""
    side = 1 if pooling == "none" else 2
    for i in range(tall // side):
        for j in range(wide // side):
            pixels = [
                (side * i + di) * wide + side * j + dj for di in range(side) for dj in range(side)
            ]
            for k in range(filters):
                yield [pixel * filters + k for pixel in pixels]


def _correlate(coupling: Any, w: Any, a: Vector, b: Vector, image: Sequence[int]) -> Vector:
    weights = _flat(w)
    _, heard = _pool(coupling, weights, a, b, image)
    found = [0.0] * len(weights)
    for source, position, weight in meetings(coupling, image, _filters(coupling, weights, image)):
        found[weight] += a[source] * heard[position]
    return found


def _reached(coupling: Any, image: Sequence[int]) -> tuple[int, int]:
    """Positions of the convolution, height and width."""
    height, width, _ = image
    kernel, stride, padding = coupling.kernel, coupling.stride, coupling.padding
    tall = (height + 2 * padding - kernel) // stride + 1
    return tall, (width + 2 * padding - kernel) // stride + 1


def _filters(coupling: Any, weights: Vector, image: Sequence[int]) -> int:
    """Filters of all groups: of each, all channels of the image have a share of the weights."""
    filters: int = len(weights) * coupling.groups // (coupling.kernel**2 * image[2])
    return filters


def _flat(w: Any) -> Vector:
    """The block as it lies in memory."""
    return [value for part in w for value in _flat(part)] if isinstance(w, list) else [w]
