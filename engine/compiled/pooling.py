"""The kernels of a convolution with pools or groups.

Groups come one after the other. The positions of a group are rows of a matrix: what they read,
`(rows * positions, kernel^2 channels)`, meets the block of the group in one product. What they hear
from their pools takes the place of what they said, `(rows * positions, filters)`.
"""

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled
from engine.compiled.products import (
    TILE_BYTES,
    TILE_ROWS,
    TURNED,
    add_correlation,
    add_product,
    pack,
    packed_size,
)
from engine.couplings.convolution import Convolution
from engine.couplings.link import Shapes
from engine.couplings.pooling import KINDS

HEIGHT, WIDTH, CHANNELS, TALL, WIDE, FILTERS, KERNEL, STRIDE, PADDING, POOLING, GROUPS = range(11)
"""Places in `sizes`: the source, the positions of its convolution, its window. Channels and filters
are those of a group."""
MEAN, MAX = KINDS.index("mean"), KINDS.index("max")


def sizes(coupling: Convolution, shapes: Shapes) -> tuple[int, ...]:
    """Lay out as the names of the places say."""
    (height, width, channels), window = shapes[coupling.source], coupling.filter.window
    groups, filters = coupling.groups, shapes[coupling.target][2]
    source = (height, width, channels // groups)
    reached = (window.reached(height), window.reached(width), filters // groups)
    return (*source, *reached, *window, KINDS.index(coupling.pooling), groups)


def constants(coupling: Convolution, shapes: Shapes, w: FloatArray) -> FloatArray:
    """`W` of every group and the same turned, packed for products."""
    blocks = w.reshape(coupling.groups, *w.shape[-2:])
    packed = []
    for matrix in (way for block in blocks for way in (block, block.T)):
        packed.append(np.empty(packed_size(matrix.shape, w.itemsize), w.dtype))
        pack(matrix, packed[-1])
    return np.concatenate(packed)


def _counts(sizes: tuple[int, ...]) -> tuple[int, int]:
    """Positions, and numbers that each of them reads in a group."""
    return sizes[TALL] * sizes[WIDE], sizes[KERNEL] ** 2 * sizes[CHANNELS]


def macs(sizes: tuple[int, ...]) -> int:
    """Multiply-adds of one row, there and back."""
    positions, fan_in = _counts(sizes)
    return 2 * positions * fan_in * sizes[FILTERS] * sizes[GROUPS]


def scratch(sizes: tuple[int, ...], rows: int, itemsize: int) -> int:
    """Numbers that either kernel needs for so many rows."""
    positions, fan_in = _counts(sizes)
    places, edge = rows * positions, TILE_ROWS * TILE_BYTES // itemsize
    packed = packed_size((places, sizes[FILTERS]), itemsize)
    return edge + places * (sizes[FILTERS] + fan_in + TURNED) + packed


@compiled
def _read(state, rows, sizes, group, windows):
    """Write what the positions of a group read to `windows`, zeros beyond the edge."""
    height, width, channels, kernel = sizes[HEIGHT], sizes[WIDTH], sizes[CHANNELS], sizes[KERNEL]
    depth, to = channels * sizes[GROUPS], 0
    for row in range(rows):
        for i in range(sizes[TALL]):
            for j in range(sizes[WIDE]):
                top, left = sizes[STRIDE] * i - sizes[PADDING], sizes[STRIDE] * j - sizes[PADDING]
                for y in range(top, top + kernel):
                    for x in range(left, left + kernel):
                        if 0 <= y < height and 0 <= x < width:
                            from_ = ((row * height + y) * width + x) * depth + group * channels
                            for c in range(channels):
                                windows[to + c] = state[from_ + c]
                        else:
                            for c in range(channels):
                                windows[to + c] = 0
                        to += channels


@compiled
def _send_back(windows, rows, sizes, group, into):
    """Add what the positions of a group send back to the pixels that they read."""
    height, width, channels, kernel = sizes[HEIGHT], sizes[WIDTH], sizes[CHANNELS], sizes[KERNEL]
    depth, from_ = channels * sizes[GROUPS], 0
    for row in range(rows):
        for i in range(sizes[TALL]):
            for j in range(sizes[WIDE]):
                top, left = sizes[STRIDE] * i - sizes[PADDING], sizes[STRIDE] * j - sizes[PADDING]
                for y in range(top, top + kernel):
                    for x in range(left, left + kernel):
                        if 0 <= y < height and 0 <= x < width:
                            to = ((row * height + y) * width + x) * depth + group * channels
                            for c in range(channels):
                                into[to + c] += windows[from_ + c]
                        from_ += channels


@compiled
def _exchange(said, rows, sizes, group, heard, sent):
    """Add the pools of what a group said to `sent`, and put what they hear in its place.

    `heard` and `sent` are states and drive of the target; `sent` may be empty. What fills no pool
    hears nothing.
    """
    tall, wide, filters, pooling = sizes[TALL], sizes[WIDE], sizes[FILTERS], sizes[POOLING]
    side = 2 if pooling in (MEAN, MAX) else 1
    high, broad, depth = tall // side, wide // side, filters * sizes[GROUPS]
    for row in range(rows):
        first = row * tall * wide * filters
        for i in range(high):
            for j in range(broad):
                unit = ((row * high + i) * broad + j) * depth + group * filters
                corner = first + (side * i * wide + side * j) * filters
                for f in range(filters):
                    total, best = said[corner + f], corner + f
                    for k in range(1, side * side):
                        place = corner + (k // side * wide + k % side) * filters + f
                        total += said[place]
                        if said[place] > said[best]:
                            best = place
                    if sent.size > 0 and pooling == MAX:
                        sent[unit + f] += said[best]
                    elif sent.size > 0:
                        sent[unit + f] += total / (side * side)
                    share = heard[unit + f] / (side * side)
                    for k in range(side * side):
                        place = corner + (k // side * wide + k % side) * filters + f
                        said[place] = 0 if pooling == MAX else share
                    if pooling == MAX:
                        said[best] = heard[unit + f]
        for i in range(tall):
            for j in range(broad * side if i < high * side else 0, wide):
                for f in range(filters):
                    said[first + (i * wide + j) * filters + f] = 0


@compiled
def drive(state, starts, rows, sizes, constants, scratch, into):
    """Add the pooled convolution to the target, and to the source what its pools hear of it."""
    filters, lanes = sizes[FILTERS], TILE_BYTES // state.itemsize
    places = rows * sizes[TALL] * sizes[WIDE]
    fan_in = sizes[KERNEL] * sizes[KERNEL] * sizes[CHANNELS]
    forth, back = fan_in * (-(-filters // lanes) * lanes), filters * (-(-fan_in // lanes) * lanes)
    edge, rest = scratch[: TILE_ROWS * lanes].reshape((TILE_ROWS, lanes)), TILE_ROWS * lanes
    said, rest = scratch[rest : rest + places * filters], rest + places * filters
    windows = scratch[rest : rest + places * fan_in]
    a, b, to_a, to_b = state[starts[0] :], state[starts[1] :], into[starts[0] :], into[starts[1] :]
    for group in range(sizes[GROUPS]):
        weights = constants[group * (forth + back) :]
        _read(a, rows, sizes, group, windows)
        said[:] = 0
        add_product(windows, places, fan_in, weights, said, filters, filters, edge)
        _exchange(said, rows, sizes, group, b, to_b)
        windows[:] = 0
        add_product(said, places, filters, weights[forth:], windows, fan_in, fan_in, edge)
        _send_back(windows, rows, sizes, group, to_a)


@compiled
def correlate(state, starts, rows, sizes, constants, scratch, into):
    """Add `sum_p (window at p)' (what p hears from its pool)` of every group."""
    filters, lanes = sizes[FILTERS], TILE_BYTES // state.itemsize
    places = rows * sizes[TALL] * sizes[WIDE]
    fan_in = sizes[KERNEL] * sizes[KERNEL] * sizes[CHANNELS]
    forth, back = fan_in * (-(-filters // lanes) * lanes), filters * (-(-fan_in // lanes) * lanes)
    edge, rest = scratch[: TILE_ROWS * lanes].reshape((TILE_ROWS, lanes)), TILE_ROWS * lanes
    said, rest = scratch[rest : rest + places * filters], rest + places * filters
    windows, rest = scratch[rest : rest + places * fan_in], rest + places * fan_in
    turned, rest = scratch[rest : rest + TURNED * places], rest + TURNED * places
    packed, block = scratch[rest:], fan_in * filters
    by_place, rows_of = windows.reshape((places, fan_in)), turned.reshape((TURNED, places))
    for group in range(sizes[GROUPS]):
        _read(state[starts[0] :], rows, sizes, group, windows)
        said[:] = 0
        if sizes[POOLING] == MAX:  # only then does it matter what they said
            weights = constants[group * (forth + back) :]
            add_product(windows, places, fan_in, weights, said, filters, filters, edge)
        _exchange(said, rows, sizes, group, state[starts[1] :], said[:0])
        part = into[group * block : (group + 1) * block]
        add_correlation(by_place, said.reshape((places, filters)), part, packed, rows_of, edge)
