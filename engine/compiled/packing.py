"""Matrices of a network packed for products, all in one call."""

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.compiler import compiled, inner
from engine.compiled.parts import part, part_of_row
from engine.compiled.products import DEPTH, TILE_BYTES

TABLE_COLUMNS = 5
START, INNER, COLUMNS, IS_TURNED, PLACE = range(TABLE_COLUMNS)
"""Columns of a table of matrices: a block of parameters `(inner, columns)` from `START` on, which
lies packed from `PLACE` on, as it is or turned over to its transpose."""


def new_room(theta: FloatArray, size: int) -> FloatArray:
    """Return room for so many packed numbers; what fills their last tiles up is there already."""
    return np.zeros(size, theta.dtype)


@compiled
def pack_matrices(theta, table, scales, packed, core, cores):
    """Lay multiples of the blocks of `theta` out as `pack` does; cores share the rows of each."""
    width = TILE_BYTES // theta.itemsize
    for k in range(len(table)):
        block = part_of_row(table, k, 0, TABLE_COLUMNS)
        length, is_turned, place = block[COLUMNS], block[IS_TURNED] != 0, block[PLACE]
        scale, count = scales[k], block[INNER]
        inner, columns = (length, count) if is_turned else (count, length)
        padded = -(-columns // width) * width
        for i in range(count * core // cores, count * (core + 1) // cores):
            row = part(theta, block[START] + i * length, length)
            if is_turned:
                _lay_down(row, scale, i, packed, place, padded, width)
                continue
            top = i // DEPTH * DEPTH
            depth = min(DEPTH, inner - top)
            first = place + top * padded + (i - top) * width
            for j in range(0, columns, width):
                into = part(packed, first + j * depth, min(width, columns - j))
                from_ = part(row, j, into.size)
                for c in range(into.size):
                    into[c] = scale * from_[c]


@inner
def _lay_down(row, scale, column, packed, place, padded, width):
    """Write a row of a block as a column of its packed transpose."""
    inside = column % width
    for top in range(0, row.size, DEPTH):
        depth = min(DEPTH, row.size - top)
        first = place + top * padded + (column - inside) * depth + inside
        for i in range(depth):
            packed[first + i * width] = scale * row[top + i]
