"""Parts of flat arrays, as numpy's slices have them."""

from typing import Any

import numpy as np
import pytest

from engine.compiled.compiler import compiled
from engine.compiled.parts import clear, copy, part

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
