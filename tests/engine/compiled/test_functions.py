"""Elementary functions against numpy, on a few numbers and over their whole range."""

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled.functions import activate, exponentials, softmax_columns, softmax_rows, tanh
from engine.compiled.program import HARD_SIGMOID, RELU, TANH

TYPES = [np.float32, np.float64]


class TestTanh:
    X = np.concatenate([np.linspace(-20, 20, 401), np.geomspace(1e-30, 1e-2, 50)])

    @staticmethod
    def _tanh(x: FloatArray) -> FloatArray:
        out = np.full_like(x, np.nan)
        tanh(x, out)
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


def _tanh(x: FloatArray) -> FloatArray:
    out = np.empty_like(x)
    tanh(x, out)
    return out


class TestTanhOverItsRange:
    X = np.linspace(-20, 20, 2_000_001, dtype=np.float32)

    def test_single_precision_errs_by_less_than_five_in_ten_million(self) -> None:
        exact = np.tanh(self.X.astype(np.float64))
        assert np.abs(_tanh(self.X) - exact).max() <= 5e-7

    def test_near_zero_the_error_is_relative(self) -> None:
        x = np.geomspace(1e-30, 1e-2, 100_000).astype(np.float32)
        exact = np.tanh(x.astype(np.float64))
        assert (np.abs(_tanh(x) - exact) <= 3e-7 * exact).all()

    def test_double_precision_is_the_library_to_two_roundings(self) -> None:
        near = np.geomspace(1e-300, 1e-2, 20_000)
        x = np.concatenate([self.X[::100], near, -near]).astype(np.float64)
        np.testing.assert_allclose(_tanh(x), np.tanh(x), rtol=4.5e-16, atol=0)
        assert np.abs(_tanh(x)).max() <= 1.0

    def test_it_rises_to_within_its_error_stays_in_range_and_is_odd(self) -> None:
        y = _tanh(self.X)
        assert np.diff(y).min() >= -5e-7
        assert np.abs(y).max() <= 1.0
        np.testing.assert_array_equal(_tanh(-self.X), -y)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_what_is_not_a_number_stays_so_and_infinity_saturates(self, dtype: type) -> None:
        x = np.array([np.nan, -np.inf, np.inf, -1e30, 1e30, 0.0, -0.0], dtype)
        y = _tanh(x)
        assert np.isnan(y[0])
        np.testing.assert_allclose(y[1:], [-1, 1, -1, 1, 0, 0], rtol=0, atol=5e-7)


def _exp(x: FloatArray) -> FloatArray:
    out = x.copy()
    exponentials(out)
    return out


class TestExponentials:
    X = np.concatenate([np.linspace(-86.99, 0.0, 400), np.linspace(-1.0, 0.0, 100)])

    def test_single_precision_errs_by_less_than_three_in_ten_million(self) -> None:
        x = self.X.astype(np.float32)
        exact = np.exp(x.astype(np.float64))
        assert (np.abs(_exp(x) - exact) <= 3e-7 * exact).all()

    def test_double_precision_is_the_library(self) -> None:
        np.testing.assert_allclose(_exp(self.X), np.exp(self.X), rtol=1e-15, atol=0)

    def test_at_the_edge_it_is_a_number_and_beyond_it_zero(self) -> None:
        edge = np.array([-87.0, np.nextafter(np.float32(-87), np.float32(-88))], np.float32)
        found = _exp(edge)
        np.testing.assert_allclose(found[0], np.exp(-87.0), rtol=3e-7)
        assert found[1] == 0.0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 7)])
def test_shares_are_those_of_a_softmax_however_large_the_scores(
    shape: tuple[int, int], dtype: type
) -> None:
    scores = (30.0 * np.random.default_rng(6).standard_normal(shape)).astype(dtype)
    exact = np.exp(scores.astype(float) - scores.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    far = dtype(1e3)  # which float32 holds to 6e-5
    rows, columns = scores + far, np.ascontiguousarray(scores.T) + far
    softmax_rows(rows)
    softmax_columns(columns, np.empty_like(columns[0]))
    for found in (rows, columns.T):
        np.testing.assert_allclose(found, exact, rtol=0, atol=5e-4 if far.itemsize == 4 else 1e-11)
        np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("place", range(4))
def test_a_score_that_is_not_a_number_spoils_its_shares_and_no_others(place: int) -> None:
    scores = np.zeros((2, 4))
    scores[1, place] = np.nan
    rows, columns = scores.copy(), np.ascontiguousarray(scores.T)
    softmax_rows(rows)
    softmax_columns(columns, np.empty_like(columns[0]))
    for found in (rows, columns.T):
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[0], 0.25)


@pytest.mark.parametrize("code", [TANH, HARD_SIGMOID, RELU])
def test_each_layer_bends_its_drive_as_it_should(code: int) -> None:
    bends = {
        TANH: np.tanh,
        HARD_SIGMOID: lambda h: np.clip(h, 0.0, 1.0),
        RELU: lambda h: np.maximum(h, 0.0),
    }
    layers = np.array([[0, 5, code, 0], [5, 3, RELU, 1]])
    drive = np.array([[-2.0, -0.3, 0.0, 0.4, 1.0, -1.0, 0.0, 2.0], [1.5, 0.9, 1, 0, 0, 3, 2, 1]])
    found = np.full_like(drive, np.nan)
    activate(layers, drive, found)
    np.testing.assert_allclose(found[:, :5], bends[code](drive[:, :5]), rtol=0, atol=2e-16)
    np.testing.assert_array_equal(found[:, 5:], np.maximum(drive[:, 5:], 0.0))
