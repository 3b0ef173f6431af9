"""The kernels on a few numbers, against numpy: quick enough to run without the compiler."""

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled import kernels

TYPES = [np.float32, np.float64]
ROWS = (1, kernels.TILE_ROWS, kernels.TILE_ROWS + 1, 2 * kernels.TILE_ROWS + 1)


class TestTanh:
    X = np.concatenate([np.linspace(-20, 20, 401), np.geomspace(1e-30, 1e-2, 50)])

    @staticmethod
    def _tanh(x: FloatArray) -> FloatArray:
        out = np.full_like(x, np.nan)
        kernels.tanh(x, out)
        return out

    def test_single_precision_errs_by_less_than_five_in_ten_million(self) -> None:
        x = self.X.astype(np.float32)
        exact = np.tanh(x.astype(np.float64))
        error = np.abs(self._tanh(x) - exact)
        assert (error <= 5e-7).all()
        assert (error <= 5e-7 * np.abs(exact)).all()
        assert np.abs(self._tanh(x)).max() <= 1.0

    def test_double_precision_is_the_library(self) -> None:
        np.testing.assert_allclose(self._tanh(self.X), np.tanh(self.X), rtol=0, atol=2.3e-16)


def _packed(matrix: FloatArray) -> FloatArray:
    packed = np.full(kernels.packed_size(matrix.shape, matrix.itemsize), np.nan, matrix.dtype)
    kernels.pack(matrix, packed)
    return packed


def _whole(shape: tuple[int, ...], dtype: type, seed: int) -> FloatArray:
    """Whole numbers: sums of their products are exact, in any order."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inner", [1, 3, 17])
@pytest.mark.parametrize("columns", [1, 7, 8, 16, 17, 33])
@pytest.mark.parametrize("rows", ROWS)
def test_a_product_is_exact_and_stays_in_its_columns(
    rows: int, columns: int, inner: int, dtype: type
) -> None:
    a, b = _whole((rows, inner), dtype, 1), _whole((inner, columns), dtype, 2)
    out = _whole((rows, columns + 2), dtype, 3)
    found, edge = out.copy(), np.full_like(kernels.new_edge(dtype), np.nan)
    flat = a.reshape(-1), found.reshape(-1)
    kernels.add_product(flat[0], rows, inner, _packed(b), flat[1], columns, columns + 2, edge)
    np.testing.assert_array_equal(found[:, :columns], out[:, :columns] + a @ b)
    np.testing.assert_array_equal(found[:, columns:], out[:, columns:])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_long_sum_and_many_rows_are_cut_into_parts_that_fit(dtype: type) -> None:
    rows, inner, columns = kernels.PASS + 2, kernels.DEPTH + 3, 3
    a, b = _whole((rows, inner), dtype, 1), _whole((inner, columns), dtype, 2)
    found, edge = np.zeros((rows, columns), dtype), kernels.new_edge(dtype)
    flat = a.reshape(-1), found.reshape(-1)
    kernels.add_product(flat[0], rows, inner, _packed(b), flat[1], columns, columns, edge)
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("turned", [1, 3, 8])
@pytest.mark.parametrize(("samples", "first", "second"), [(1, 1, 1), (5, 7, 4), (9, 8, 17)])
def test_a_correlation_is_the_product_of_the_turned_batch(
    samples: int, first: int, second: int, turned: int
) -> None:
    a, b = _whole((samples, first), float, 4), _whole((samples, second), float, 5)
    out = _whole((first, second), float, 6)
    found, edge = out.copy(), kernels.new_edge(float)
    room = np.empty(kernels.packed_size(b.shape, 8)), np.full((turned, samples), np.nan)
    kernels.add_correlation(a, b, found.reshape(-1), *room, edge)
    np.testing.assert_array_equal(found, out + a.T @ b)


def test_a_comparison_is_a_scaled_difference_and_a_mean() -> None:
    state, opposite = np.random.default_rng(7).standard_normal((2, 3, 4))
    gap, middle = np.full((2, 3, 4), np.nan)
    kernels.compare(state, opposite, 2.5, gap, middle)
    np.testing.assert_allclose(gap, 2.5 * (state - opposite), rtol=1e-15)
    np.testing.assert_allclose(middle, (state + opposite) / 2, rtol=1e-15)


@pytest.mark.parametrize("code", [kernels.TANH, kernels.HARD_SIGMOID, kernels.RELU])
def test_each_layer_bends_its_drive_as_it_should(code: int) -> None:
    bends = {
        kernels.TANH: np.tanh,
        kernels.HARD_SIGMOID: lambda h: np.clip(h, 0.0, 1.0),
        kernels.RELU: lambda h: np.maximum(h, 0.0),
    }
    layers = np.array([[0, 5, code, 0], [5, 3, kernels.RELU, 1]])
    drive = np.array([[-2.0, -0.3, 0.0, 0.4, 1.0, -1.0, 0.0, 2.0], [1.5, 0.9, 1, 0, 0, 3, 2, 1]])
    found = np.full_like(drive, np.nan)
    kernels.activate(layers, drive, found)
    np.testing.assert_allclose(found[:, :5], bends[code](drive[:, :5]), rtol=0, atol=2e-16)
    np.testing.assert_array_equal(found[:, 5:], np.maximum(drive[:, 5:], 0.0))


def test_errors_of_a_softmax_and_their_costs_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(8)
    logits, targets = 5.0 * rng.standard_normal((4, 3)) + 800.0, rng.dirichlet([1, 1, 1], 4)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    expected, costs = -(targets * np.log(shares)).sum(1), np.full(4, np.nan)
    kernels.softmax_errors(logits, targets, costs)
    np.testing.assert_allclose(logits, shares - targets, rtol=0, atol=1e-14)
    np.testing.assert_allclose(costs, expected, rtol=1e-13)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_mixing_weights_make_the_mixed_gap_the_smallest(count: int) -> None:
    gaps = np.random.default_rng(9).standard_normal((count, 12))
    gram, weights = gaps @ gaps.T, np.full(6, np.nan)
    assert kernels._mixing_weights(gram, np.full((6, 6), np.nan), weights, count)
    found = weights[:count]
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-13)
    slopes = gram @ found  # all equal at the minimum under a fixed sum
    np.testing.assert_allclose(slopes, slopes.mean(), rtol=1e-10)
    assert np.isnan(weights[count:]).all()


def test_gaps_whose_squares_underflow_have_no_mixing_weights() -> None:
    room = np.empty((3, 3)), np.empty(3)
    tiny = np.finfo(float).tiny / np.finfo(float).eps
    assert not kernels._mixing_weights(np.zeros((3, 3)), *room, 3)
    assert not kernels._mixing_weights(np.eye(3) * tiny / 3, *room, 3)
    assert kernels._mixing_weights(np.eye(3) * tiny, *room, 3)
    assert not kernels._mixing_weights(np.full((3, 3), np.nan), *room, 3)


@pytest.mark.parametrize(("columns", "tiles"), [(1, 1), (15, 1), (16, 1), (17, 2), (33, 3)])
def test_a_packed_matrix_is_as_large_as_its_tiles(columns: int, tiles: int) -> None:
    width = kernels.new_edge(np.float32).shape[1]
    assert width == 16
    assert kernels.packed_size((3, columns), 4) == 3 * tiles * width
    assert kernels.new_edge(np.float64).shape == (kernels.TILE_ROWS, width // 2)
