"""Parts of flat arrays, as numpy's slices have them."""

from typing import Any

import numpy as np
import pytest

from engine.compiled.compiler import compiled
from engine.compiled.parts import clear, copy, flat, part, part_of_row

TYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_]


@compiled
def _shift(array, from_, to, size):  # type: ignore[no-untyped-def]
    """Copy a part over another, and look at the new one: its size, and its last number."""
    moved = part(array, to, size)
    copy(part(array, from_, size), moved)
    return moved.size, moved[size - 1]


@compiled
def _empty(array, start, size):  # type: ignore[no-untyped-def]
    """Clear the last two numbers of a part: a part of a part."""
    clear(part(part(array, start, size), size - 2, 2))


@compiled
def _mark(matrix, row, start, size):  # type: ignore[no-untyped-def]
    """Clear a part of a row, and what comes before it in the whole matrix but for one number."""
    clear(part_of_row(matrix, row, start, size))
    clear(part(flat(matrix), 0, row * matrix.shape[1] + start - 1))
    return flat(matrix).size


@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_and_a_whole_matrix_are_seen_as_they_lie(dtype: Any) -> None:
    matrix = np.arange(1, 21).reshape(4, 5).astype(dtype)
    expected = matrix.copy()
    expected[2, 1:4] = 0
    expected.reshape(-1)[: 2 * 5] = 0
    assert _mark(matrix, 2, 1, 3) == 20
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_part_is_copied_and_nothing_beside_it(dtype: Any) -> None:
    array = np.arange(1, 13).astype(dtype)
    expected = array.copy()
    expected[7:10] = array[2:5]
    assert _shift(array, 2, 7, 3) == (3, expected[9])
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_part_is_cleared_and_nothing_beside_it(dtype: Any) -> None:
    array = np.ones(9, dtype)
    _empty(array, 3, 4)
    np.testing.assert_array_equal(array, np.r_[np.ones(5), 0, 0, np.ones(2)].astype(dtype))
