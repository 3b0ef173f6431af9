"""Products against numpy: exact on whole numbers, each row by itself, nothing else touched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite.binding import get_host_cpu_features
from numba import config

from engine.arrays import FloatArray
from engine.compiled.products import (
    BAND,
    DEPTH,
    PASS,
    TILE_ROWS,
    TURNED,
    add_columns,
    add_correlation,
    add_product,
    compare,
    new_edge,
    pack,
    packed_size,
    symmetrise,
)

TYPES = [np.float32, np.float64]
ROWS = (1, TILE_ROWS, TILE_ROWS + 1, 2 * TILE_ROWS + 1)


def _packed(matrix: FloatArray) -> FloatArray:
    packed = np.full(packed_size(matrix.shape, matrix.itemsize), np.nan, matrix.dtype)
    pack(matrix, packed)
    return packed


def _whole(shape: tuple[int, ...], dtype: type, seed: int) -> FloatArray:
    """Whole numbers: sums of their products are exact, in any order."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inner", [1, 3, 17])
@pytest.mark.parametrize("columns", [1, 7, 8, 16, 17, 33, 64, 81])
@pytest.mark.parametrize("rows", ROWS)
def test_a_product_is_exact_and_stays_in_its_columns(
    rows: int, columns: int, inner: int, dtype: type
) -> None:
    a, b = _whole((rows, inner), dtype, 1), _whole((inner, columns), dtype, 2)
    out = _whole((rows, columns + 2), dtype, 3)
    found, edge = out.copy(), np.full_like(new_edge(dtype), np.nan)
    flat = a.reshape(-1), found.reshape(-1)
    add_product(flat[0], rows, inner, _packed(b), flat[1], columns, columns + 2, edge)
    np.testing.assert_array_equal(found[:, :columns], out[:, :columns] + a @ b)
    np.testing.assert_array_equal(found[:, columns:], out[:, columns:])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_long_sum_and_many_rows_are_cut_into_parts_that_fit(dtype: type) -> None:
    rows, inner, columns = PASS + 2, DEPTH + 3, 3
    a, b = _whole((rows, inner), dtype, 1), _whole((inner, columns), dtype, 2)
    found, edge = np.zeros((rows, columns), dtype), new_edge(dtype)
    flat = a.reshape(-1), found.reshape(-1)
    add_product(flat[0], rows, inner, _packed(b), flat[1], columns, columns, edge)
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("turned", [1, 3, 8])
@pytest.mark.parametrize(("samples", "first", "second"), [(1, 1, 1), (5, 7, 4), (9, 8, 17)])
def test_a_correlation_is_the_product_of_the_turned_batch(
    samples: int, first: int, second: int, turned: int
) -> None:
    a, b = _whole((samples, first), float, 4), _whole((samples, second), float, 5)
    out = _whole((first, second), float, 6)
    found, edge = out.copy(), new_edge(float)
    room = np.empty(packed_size(b.shape, 8)), np.full((turned, samples), np.nan)
    add_correlation(a, b, found.reshape(-1), *room, edge)
    np.testing.assert_array_equal(found, out + a.T @ b)


@pytest.mark.parametrize("units", [1, BAND - 1, BAND, 2 * BAND + 3])
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_what_is_made_symmetric_is_the_mean_with_its_transpose(units: int, cores: int) -> None:
    block = np.random.default_rng(units).standard_normal((units, units)).astype(np.float32)
    expected = (block + block.T) / 2
    for core in range(cores):
        symmetrise(block, core, cores)
    np.testing.assert_array_equal(block, expected)


def test_a_core_makes_its_own_bands_symmetric_and_no_others() -> None:
    block = np.random.default_rng(1).standard_normal((2 * BAND, 2 * BAND))
    found = block.copy()
    symmetrise(found, 0, 2)
    np.testing.assert_array_equal(found[BAND:], block[BAND:])
    assert not np.array_equal(found[:BAND, :BAND], block[:BAND, :BAND])


def test_columns_of_a_correlation_fill_their_rows_and_no_others() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-3, 4, (7, width)).astype("f4") for width in (TURNED + 9, 5))
    out, packed = np.zeros((TURNED + 9, 5), "f4"), np.empty(packed_size(b.shape, 4), "f4")
    pack(b, packed)
    turned, edge = np.empty((TURNED, 7), "f4"), new_edge("f4")
    first, stop = 4, TURNED + 8
    add_columns(a, first, stop, packed, 5, out.reshape(-1), turned, edge)
    np.testing.assert_array_equal(out[first:stop], (a.T @ b)[first:stop])
    assert not out[:first].any()
    assert not out[stop:].any()


def test_a_comparison_is_a_scaled_difference_and_a_mean() -> None:
    state, opposite = np.random.default_rng(7).standard_normal((2, 3, 4))
    gap, middle = np.full((2, 3, 4), np.nan)
    compare(state, opposite, 2.5, gap, middle)
    np.testing.assert_allclose(gap, 2.5 * (state - opposite), rtol=1e-15)
    np.testing.assert_allclose(middle, (state + opposite) / 2, rtol=1e-15)


@pytest.mark.skipif(bool(config.CPU_NAME), reason="the compiler is told of another processor")  # type: ignore[attr-defined]
def test_vectors_are_as_wide_as_those_of_the_processor() -> None:
    has_wide = get_host_cpu_features().get("avx512f", False)
    assert new_edge(np.float32).shape == ((8, 32) if has_wide else (6, 16))


@pytest.mark.parametrize(("beyond", "tiles"), [(-1, 1), (0, 1), (1, 2)])
def test_a_packed_matrix_is_as_large_as_its_tiles(beyond: int, tiles: int) -> None:
    width = new_edge(np.float32).shape[1]
    assert packed_size((3, width + beyond), 4) == 3 * tiles * width
    assert packed_size((3, 1), 4) == 3 * width
    assert new_edge(np.float64).shape == (TILE_ROWS, width // 2)


def _added(a: FloatArray, b: FloatArray, out: FloatArray) -> FloatArray:
    """Return `out` with `a b` added to its first columns, as the relaxation does it."""
    (rows, inner), columns = a.shape, b.shape[1]
    packed = np.full(packed_size(b.shape, b.itemsize), np.nan, b.dtype)
    pack(b, packed)
    out, edge = out.copy(), np.full_like(new_edge(b.dtype), np.nan)
    flat = a.reshape(-1), out.reshape(-1)
    add_product(flat[0], rows, inner, packed, flat[1], columns, out.shape[1], edge)
    return out


class TestProduct:
    @given(
        shape=st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 40)),
        beside=st.integers(0, 3),
        dtype=st.sampled_from([np.float32, np.float64]),
        transposed=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def test_it_adds_the_product_to_rounding_and_touches_nothing_else(
        self, shape: tuple[int, int, int], beside: int, dtype: type, transposed: bool, seed: int
    ) -> None:
        rows, inner, columns = shape
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((rows, inner)).astype(dtype)
        b = rng.standard_normal((columns, inner) if transposed else (inner, columns)).astype(dtype)
        b = b.T if transposed else b
        out = rng.standard_normal((rows, columns + beside)).astype(dtype)
        found = _added(a, b, out)
        before = out[:, :columns].astype(np.float64)
        exact = before + a.astype(np.float64) @ b.astype(np.float64)
        terms = np.abs(before) + np.abs(a) @ np.abs(b)
        bound = (inner + 1) * np.finfo(dtype).eps * terms  # of a sum in any order
        assert (np.abs(found[:, :columns] - exact) <= bound).all()
        np.testing.assert_array_equal(found[:, columns:], out[:, columns:])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_sum_longer_than_the_cache_and_a_batch_of_several_passes(self, dtype: type) -> None:
        rng = np.random.default_rng(3)
        rows, inner, columns = PASS + 5, DEPTH + 7, 21
        a = rng.integers(-9, 10, (rows, inner)).astype(dtype)  # whole numbers: no rounding
        b = rng.integers(-9, 10, (inner, columns)).astype(dtype)
        out = rng.integers(-9, 10, (rows, columns)).astype(dtype)
        np.testing.assert_array_equal(_added(a, b, out), out + a @ b)

    def test_a_row_does_not_depend_on_the_rows_beside_it(self) -> None:
        rng = np.random.default_rng(4)
        a, b = rng.standard_normal((2, 50, 50)).astype(np.float32)
        out = rng.standard_normal((50, 50)).astype(np.float32)
        whole = _added(a, b, out)
        for rows in (slice(0, 1), slice(3, 10), slice(40, 50)):
            np.testing.assert_array_equal(_added(a[rows], b, out[rows]), whole[rows])

    def test_a_nan_reaches_its_row_or_column_and_no_other(self) -> None:
        clean, out = np.ones((2, 20, 20), np.float32)
        for k in (0, 7, 15, 16, 19):
            spoilt = clean.copy()
            spoilt[19 - k, k] = np.nan
            rows, columns = np.isnan(spoilt).any(1), np.isnan(spoilt).any(0)
            spread = np.isnan(_added(spoilt, clean, out))
            np.testing.assert_array_equal(spread, np.repeat(rows[:, None], 20, axis=1))
            spread = np.isnan(_added(clean, spoilt, out))
            np.testing.assert_array_equal(spread, np.repeat(columns[None], 20, axis=0))
