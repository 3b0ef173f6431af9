"""Products of matrices: packed once, read by tiles whose sums stay in registers."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from engine.compiled.compiler import PLAIN, compiled

_, _, _features = cpu_target.target_context.codegen().magic_tuple()
WIDE = "+avx512f" in _features
"""Whether vectors have 64 bytes, and there are 32 registers for them."""
TILE_ROWS, TILE_VECTORS, VECTOR_BYTES = (8, 2, 64) if WIDE else (6, 2, 32)
"""A tile of a product: its sums fill 12 of the 16 vector registers that a core has at least, or 16
of 32."""
TILE_BYTES = TILE_VECTORS * VECTOR_BYTES
"""Width of a tile: as many columns as numbers fit."""
BESIDE = 4
"""Tiles of a single row that are summed at once: a chain of sums waits for each of its terms."""
DEPTH = 2048
"""Rows of a packed matrix that a tile sums over in one go."""
PASS = 192
"""Rows of states that stay in the second cache while a packed matrix passes by."""
TURNED = 48
"""Columns of a batch that are turned into rows at a time."""


def _tile_of(count, beside=1):
    """Make the function that adds a tile of `count` rows, or several tiles `beside` each other."""

    @intrinsic
    def add_tile(
        _, a, a_start, a_step, left, depth, packed, packed_start, out, out_start, out_step
    ):
        """Add a tile of `a b` to `out`: `count` rows, `beside` times `TILE_VECTORS` vectors wide.

        Each array is flat and used from its start on; rows of `a` and `out` are a step apart. Rows
        beyond the first `left` repeat the last of them, which costs no branch and changes nothing.
        Written as instructions for vectors, because LLVM does not find them in a loop over numbers:
        the sums have to stay in registers.
        """

        def generate(context, builder, signature, arguments):
            number = signature.args[0].dtype
            scalar, whole = context.get_value_type(number), context.get_value_type(types.intp)
            lanes = 8 * VECTOR_BYTES // number.bitwidth
            vector = ir.VectorType(scalar, lanes)
            nothing = ir.Constant(vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            loose = {"align": number.bitwidth // 8}  # a vector may lie anywhere

            def constant(value):
                return ir.Constant(whole, value)

            def address(array, start):
                kind = context.make_array(signature.args[array])
                return builder.gep(
                    kind(context, builder, arguments[array]).data, [arguments[start]]
                )

            def vectors(start, offset, tile_step):
                places = (
                    builder.add(offset, builder.add(builder.mul(tile_step, constant(t)), within))
                    for t in range(beside)
                    for within in (constant(v * lanes) for v in range(TILE_VECTORS))
                )
                return [
                    builder.bitcast(builder.gep(start, [place]), vector.as_pointer())
                    for place in places
                ]

            def fused(x, y, total):
                product = builder.fmul(x, y, flags=("contract",))
                return builder.fadd(product, total, flags=("contract",))

            a, packed, out = address(0, 1), address(5, 6), address(7, 8)
            a_step, left, depth, out_step = (arguments[k] for k in (2, 3, 4, 9))
            last = builder.sub(left, constant(1))
            rows = [
                builder.select(builder.icmp_signed("<", constant(r), last), constant(r), last)
                for r in range(count)
            ]
            reads = [builder.gep(a, [builder.mul(row, a_step)]) for row in rows]
            width = constant(TILE_VECTORS * lanes)
            writes = [vectors(out, builder.mul(row, out_step), width) for row in rows]
            sums = [
                [cgutils.alloca_once_value(builder, builder.load(place, **loose)) for place in row]
                for row in writes
            ]
            with cgutils.for_range(builder, depth) as loop:
                start, next_tile = builder.mul(loop.index, width), builder.mul(depth, width)
                places = vectors(packed, start, next_tile)
                columns = [builder.load(place, **loose) for place in places]
                for read, row in zip(reads, sums, strict=True):
                    one = builder.load(builder.gep(read, [loop.index]))
                    filled = builder.insert_element(nothing, one, ir.Constant(ir.IntType(32), 0))
                    filled = builder.shuffle_vector(filled, nothing, everywhere)
                    for column, total in zip(columns, row, strict=True):
                        builder.store(fused(filled, column, builder.load(total)), total)
            for places, row in zip(writes, sums, strict=True):
                for place, total in zip(places, row, strict=True):
                    builder.store(builder.load(total), place, **loose)
            return context.get_dummy_value()

        size = types.intp
        steps = (size, size, size, size)
        return types.void(a, *steps, packed, size, out, size, size), generate

    return add_tile


def _plain_tile_of(count, beside=1):
    """Make the function that does the same without the compiler."""

    def add_tile(a, a_start, a_step, left, depth, packed, packed_start, out, out_start, out_step):
        width = TILE_BYTES // packed.itemsize
        tiles = packed[packed_start : packed_start + beside * depth * width]
        columns = np.hstack(tiles.reshape((beside, depth, width)))
        into = out.reshape(-1)
        for row in range(min(count, left)):
            start, to = a_start + row * a_step, out_start + row * out_step
            # Compiled code says nothing of what is not finite, nor of the scratch at an edge.
            with np.errstate(all="ignore"):
                into[to : to + beside * width] += np.add.reduce(
                    a[start : start + depth, None] * columns, 0
                )

    return add_tile


_make_tile = _plain_tile_of if PLAIN else _tile_of
_add_tile = _make_tile(TILE_ROWS)
_add_row = _make_tile(1)  # of the same sums: those of a whole tile would be too many
_add_long_row = _make_tile(1, BESIDE)
BAND = 16
"""Rows and columns that are exchanged at a time."""


def packed_size(shape: tuple[int, ...], itemsize: int) -> int:
    """Return how many numbers a packed matrix `(inner, columns)` has."""
    inner, columns = shape
    width = TILE_BYTES // itemsize
    return inner * width * -(-columns // width)


def new_edge(dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the scratch of a product for the columns at its right edge."""
    return np.empty((TILE_ROWS, TILE_BYTES // np.dtype(dtype).itemsize), dtype)


@compiled
def pack(matrix, packed):
    """Lay `matrix (inner, columns)` out as tiles read it.

    Of each stretch of `DEPTH` rows the columns of a tile come first, row by row, then those of the
    next one; the last are filled up with zeros.
    """
    inner, columns = matrix.shape
    width = TILE_BYTES // matrix.itemsize
    padded = -(-columns // width) * width
    for top in range(0, inner, DEPTH):
        depth = min(DEPTH, inner - top)
        for i in range(depth):
            for j in range(0, columns, width):
                start = top * padded + j * depth + i * width
                into, part = packed[start : start + width], matrix[top + i, j : j + width]
                for c in range(part.size):
                    into[c] = part[c]
                for c in range(part.size, width):
                    into[c] = 0


@compiled
def add_product(a, rows, inner, packed, out, columns, out_step, edge):
    """Add `a b` to `out`, with `a (rows, inner)` in a flat array and `b` as `pack` left it.

    The rows of `out` begin `out_step` apart in a flat array. `edge` is a tile of scratch. The sum
    of a row is taken in the same order whatever the other rows are.
    """
    width = edge.shape[1]
    for top in range(0, rows, PASS):
        bottom = min(rows, top + PASS)
        used = 0
        for k in range(0, inner, DEPTH):
            depth = min(DEPTH, inner - k)
            j = 0
            while j < columns:
                if bottom - top == 1 and j + BESIDE * width <= columns:
                    from_, to = top * inner + k, top * out_step + j
                    _add_long_row(a, from_, inner, 1, depth, packed, used, out, to, out_step)
                    used += BESIDE * depth * width
                    j += BESIDE * width
                    continue
                for i in range(top, bottom, TILE_ROWS):
                    left, from_, to = min(TILE_ROWS, bottom - i), i * inner + k, i * out_step + j
                    if j + width <= columns and left > 1:
                        _add_tile(a, from_, inner, left, depth, packed, used, out, to, out_step)
                        continue
                    if j + width <= columns:
                        _add_row(a, from_, inner, left, depth, packed, used, out, to, out_step)
                        continue
                    for r in range(left):
                        for c in range(columns - j):
                            edge[r, c] = out[to + r * out_step + c]
                    _add_tile(a, from_, inner, left, depth, packed, used, edge, 0, width)
                    for r in range(left):
                        for c in range(columns - j):
                            out[to + r * out_step + c] = edge[r, c]
                used += depth * width
                j += width


@compiled
def add_correlation(a, b, out, packed, turned, edge):
    """Add `a' b` to the flat `out (columns of a, columns of b)`; the batches have a row a sample.

    `packed` has room for `b`, `turned (rows, samples)` for so many columns of `a` at a time.
    """
    pack(b, packed)
    add_columns(a, 0, a.shape[1], packed, b.shape[1], out, turned, edge)


@compiled
def add_columns(a, first, stop, packed, columns, out, turned, edge):
    """Add to the rows of `out` what `a' b` has there, for the columns of `a` from `first` on.

    `packed` holds `b (samples, columns)`.
    """
    samples = len(a)
    for top in range(first, stop, len(turned)):
        count = min(len(turned), stop - top)
        for s in range(samples):
            for i in range(count):
                turned[i, s] = a[s, top + i]
        part = out[top * columns :]
        add_product(turned.reshape(-1), count, samples, packed, part, columns, columns, edge)


@compiled
def symmetrise(block, core, cores):
    """Write the mean of `block (units, units)` and its transpose over it; cores share the bands."""
    units = len(block)
    # By bands, so that their columns are read from the cache.
    for top in range(core * BAND, units, cores * BAND):
        for left in range(0, top + 1, BAND):
            for i in range(top, min(top + BAND, units)):
                for j in range(left, min(left + BAND, i)):
                    mean = (block[i, j] + block[j, i]) / 2
                    block[i, j] = mean
                    block[j, i] = mean


@compiled
def compare(state, opposite, scale, gap, middle):
    """Write `scale (state - opposite)` and the mean of both, all `(samples, units)`."""
    for i in range(len(state)):
        for j in range(state.shape[1]):
            gap[i, j] = scale * (state[i, j] - opposite[i, j])
            middle[i, j] = (state[i, j] + opposite[i, j]) / 2
