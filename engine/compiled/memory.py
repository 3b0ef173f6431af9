"""The kernels of an associative memory: each token recalls what it fits best."""

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled
from engine.compiled.functions import softmax_rows
from engine.compiled.products import (
    TILE_BYTES,
    TILE_ROWS,
    TURNED,
    add_correlation,
    add_product,
    pack,
    packed_size,
)
from engine.couplings.attention import Hopfield
from engine.couplings.link import Shapes


def sizes(memory: Hopfield, shapes: Shapes) -> tuple[int, ...]:
    """Tokens, width and the number of memories."""
    return (*shapes[memory.layer], memory.memories)


def constants(memory: Hopfield, shapes: Shapes, w: FloatArray) -> FloatArray:
    """The sharpness, then `M'` and `M`, packed for products."""
    packed = [np.empty(packed_size(m.shape, m.itemsize), w.dtype) for m in (w.T, w)]
    for matrix, into in zip((w.T, w), packed, strict=True):
        pack(matrix, into)
    return np.concatenate([np.full(1, memory.sharpness, w.dtype), *packed])


def macs(sizes: tuple[int, ...]) -> int:
    """Multiply-adds of one row: how well it fits, and what it recalls."""
    tokens, width, count = sizes
    return 2 * tokens * width * count


def scratch(sizes: tuple[int, ...], rows: int, itemsize: int) -> int:
    """Numbers that either kernel needs for so many rows."""
    tokens, width, count = sizes
    places, edge = tokens * rows, TILE_ROWS * TILE_BYTES // itemsize
    return places * (count + TURNED) + packed_size((places, width), itemsize) + edge


@compiled
def _recall(state, places, width, count, constants, fits, edge):
    """Write how much each token recalls of each memory, `(places, count)`, to the flat `fits`."""
    fits[:] = 0
    add_product(state, places, width, constants[1:], fits, count, count, edge)
    for j in range(fits.size):
        fits[j] *= constants[0]
    softmax_rows(fits.reshape((places, count)))


@compiled
def drive(state, starts, rows, sizes, constants, scratch, into):
    """Add `sum_m p_im M_m` to every token."""
    tokens, width, count = sizes[0], sizes[1], sizes[2]
    places, lanes = tokens * rows, TILE_BYTES // state.itemsize
    fits = scratch[: places * count]
    edge = scratch[fits.size : fits.size + TILE_ROWS * lanes].reshape((TILE_ROWS, lanes))
    _recall(state[starts[0] :], places, width, count, constants, fits, edge)
    memories = constants[1 + width * (-(-count // lanes) * lanes) :]
    add_product(fits, places, count, memories, into[starts[0] :], width, width, edge)


@compiled
def correlate(state, starts, rows, sizes, constants, scratch, into):
    """Add `p' s`, summed over rows and tokens."""
    tokens, width, count = sizes[0], sizes[1], sizes[2]
    places, lanes = tokens * rows, TILE_BYTES // state.itemsize
    fits, rest = scratch[: places * count], scratch[places * count :]
    edge, rest = rest[: TILE_ROWS * lanes], rest[TILE_ROWS * lanes :]
    turned, packed = rest[: TURNED * places], rest[TURNED * places :]
    corner, states = edge.reshape((TILE_ROWS, lanes)), state[starts[0] :]
    _recall(states, places, width, count, constants, fits, corner)
    recalled, tokens_all = fits.reshape((places, count)), states[: places * width]
    by_token = tokens_all.reshape((places, width))
    add_correlation(recalled, by_token, into, packed, turned.reshape((TURNED, places)), corner)
