"""The compiled step: its tanh, its memory, and how it stops."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys

from engine.arrays import FloatArray
from engine.backend import Relaxation
from engine.compiled.backend import NumbaBackend, kernels
from engine.couplings.dense import Bias
from engine.couplings.readout import SquaredError
from engine.errors import DivergenceError, EngineError
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params

SOLVERS = ["fixed_point", "alternating", "anderson"]
BATCH = 20
SLACK = 2000
"""Bytes two equal runs may differ by: one float kept from every step would be four times that."""


def _backend(solver: str, dtype: type = np.float32, activation: str = "tanh") -> NumbaBackend:
    deep = layered((5, 7, 6, 3), activation)
    looped = solver == "anderson" and activation == "tanh"
    network = looped_mlp(5, 7, 3) if looped else deep
    return NumbaBackend(network, initial_params(network, np.random.default_rng(1), dtype))


def _batch(network: Network) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(2)
    labels = rng.integers(network.outputs, size=BATCH)
    return rng.standard_normal((BATCH, network.inputs)), np.eye(network.outputs)[labels]


def _tanh(x: FloatArray) -> FloatArray:
    out = np.empty_like(x)
    kernels.tanh(x, out)
    return out


class TestTanh:
    X = np.linspace(-20, 20, 2_000_001, dtype=np.float32)

    def test_single_precision_errs_by_less_than_five_in_ten_million(self) -> None:
        exact = np.tanh(self.X.astype(np.float64))
        assert np.abs(_tanh(self.X) - exact).max() <= 5e-7

    def test_near_zero_the_error_is_relative(self) -> None:
        x = np.geomspace(1e-30, 1e-2, 100_000).astype(np.float32)
        exact = np.tanh(x.astype(np.float64))
        assert (np.abs(_tanh(x) - exact) <= 3e-7 * exact).all()

    def test_double_precision_is_the_library(self) -> None:
        x = self.X[::100].astype(np.float64)
        np.testing.assert_allclose(_tanh(x), np.tanh(x), rtol=0, atol=2.3e-16)

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


def _numba_allocations(task: Callable[[], object]) -> int:
    before = rtsys.get_allocation_stats().alloc
    task()
    return rtsys.get_allocation_stats().alloc - before


def _peak_memory(task: Callable[[], object]) -> int:
    task()
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def _counting() -> object:
    was_counting = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not was_counting:
        _nrt_python.memsys_disable_stats()


def _added(a: FloatArray, b: FloatArray, out: FloatArray) -> FloatArray:
    """Return `out` with `a b` added to its first columns, as the relaxation does it."""
    (rows, inner), columns = a.shape, b.shape[1]
    packed = np.full(kernels.packed_size(b.shape, b.itemsize), np.nan, b.dtype)
    kernels.pack(b, packed)
    out, edge = out.copy(), np.full_like(kernels.new_edge(b.dtype), np.nan)
    flat = a.reshape(-1), out.reshape(-1)
    kernels.add_product(flat[0], rows, inner, packed, flat[1], columns, out.shape[1], edge)
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
        rows, inner, columns = kernels.PASS + 5, kernels.DEPTH + 7, 21
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


@pytest.mark.usefixtures("_counting")
@pytest.mark.parametrize("tolerance", [0.0, 1e-3], ids=["moving", "settling"])
@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_step_allocates_nothing(solver: str, beta: float, tolerance: float) -> None:
    backend = _backend(solver)
    clamped = backend.clamp(*_batch(backend.network))

    def relax(steps: int) -> Callable[[], object]:
        return lambda: backend.settle(clamped, beta, Relaxation(steps, tolerance, solver))

    relax(1)()
    allocations = [_numba_allocations(relax(steps)) for steps in (1, 10, 1000)]
    assert allocations[0] == allocations[1] == allocations[2]
    peaks = [_peak_memory(relax(steps)) for steps in (10, 1000)]
    assert abs(peaks[1] - peaks[0]) < SLACK
    assert peaks[0] > BATCH * backend.network.units * 4


@pytest.mark.usefixtures("_counting")
def test_the_counter_of_allocations_counts() -> None:
    """Without this the test above would pass with the counter off."""
    from numba import njit

    @njit
    def allocate() -> float:
        return np.ones(3).sum()

    allocate()
    assert _numba_allocations(allocate) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_training_step_needs_the_same_memory_for_any_number_of_steps(solver: str) -> None:
    backend = _backend(solver)
    x, y = _batch(backend.network)
    run = Run.start(backend.network, 2, np.float32, seed=0)

    def peak(steps: int) -> int:
        way = Relaxation(steps, 0.0, solver)
        training = Training(free=way, nudged=way, beta=0.05)
        return _peak_memory(lambda: train_step(backend, x, y, training, run, total=100))

    assert abs(peak(1000) - peak(10)) < SLACK


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ["tanh", "hard_sigmoid", "relu"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_nan_in_any_unit_of_any_sample_stops_at_once_and_is_named(
    solver: str, activation: str, dtype: type
) -> None:
    backend = _backend(solver, dtype, activation)
    x, _ = _batch(backend.network)
    for sample, unit in [(0, 0), (3, backend.network.units - 1), (BATCH - 1, 2)]:
        clamped, way = backend.clamp(x), Relaxation(50, 0.0, solver)
        drive = clamped.drive.copy()
        drive[sample, unit] = np.nan
        clamped, start = replace(clamped, drive=drive), np.full(drive.shape, 0.5, dtype)
        object.__setattr__(clamped, "owner", backend)
        assert backend._relax_one(clamped, 0.0, way, start).steps.max() == 1
        dirt = [np.full(drive.shape, np.nan, dtype) for _ in range(50)]
        del dirt  # what the kernel leaves unwritten must not be taken for a state
        with pytest.raises(DivergenceError, match=f"sample {sample} stopped .* at step 1 "):
            backend.settle(clamped, 0.0, way, start)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_nan_in_any_recurrent_or_readout_weight_stops_a_nudged_relaxation(solver: str) -> None:
    backend = _backend(solver)
    blocks = [coupling.name for coupling in backend.network.recurrent] + ["W_out", "b_out"]
    for name in blocks:
        backend = _backend(solver)
        clamped = backend.clamp(*_batch(backend.network))
        backend.params[name].flat[-1] = np.nan
        with pytest.raises(DivergenceError, match=r"at step 1 \(beta 0.1\)"):
            backend.settle(clamped, 0.1, Relaxation(50, 0.0, solver))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_nan_born_in_the_second_half_of_the_last_step_is_not_returned(dtype: type) -> None:
    network = layered((1, 2, 2, 1))
    params = Params(network, np.zeros(network.size, dtype))
    params["W_2"][...] = 0.9 * np.finfo(dtype).max
    params["b_2"][...] = 20.0
    backend = NumbaBackend(network, params)
    clamped = backend.clamp(np.zeros((2, 1)))
    clamped.drive[:, network.columns["layer1"]] = -np.inf
    for steps in (1, 2, 3):
        with pytest.raises(DivergenceError):
            backend.settle(clamped, 0.0, Relaxation(steps, 1e-3, "alternating"), np.zeros((2, 4)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_anderson_survives_gaps_too_small_to_square(dtype: type) -> None:
    backend = _backend("anderson", dtype)
    clamped = backend.clamp(np.zeros((3, 5)))
    start = np.full((3, 7), 0.5)
    settled = backend.settle(clamped, 0.0, Relaxation(2000, 0.0, "anderson"), start)
    assert np.abs(settled.state).max() < 1e-12


def test_converged_means_what_the_kernel_meant() -> None:
    """The residual is the float32 next to 0.3 and above it: not within a tolerance of 0.3."""
    network = Network(1, (Layer("a", (1,), "hard_sigmoid"),), (Bias("b", "a"),), SquaredError("a"))
    backend = NumbaBackend(network, Params(network, np.array([0.3], np.float32)))
    ended = backend.settle(backend.clamp([[0.0]]), 0.0, Relaxation(1, 0.3), [[0.0]])
    assert float(ended.residual[0]) > 0.3
    assert not ended.converged[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_steps": 2.5}, "max_steps is 2.5"),
        ({"tolerance": -1e-9}, "tolerance is -1e-09"),
        ({"tolerance": np.nan}, "tolerance is nan"),
        ({"solver": "newton"}, "unknown solver 'newton'; known: fixed_point, alt"),
        ({"damping": 0.0}, "damping is 0.0"),
        ({"damping": 1.5}, "damping is 1.5"),
        ({"damping": np.nan}, "damping is nan"),
        ({"damping": 0.5, "solver": "anderson"}, "not to 'anderson'"),
        ({"memory": 0, "solver": "anderson"}, "memory is 0"),
    ],
)
def test_a_relaxation_that_makes_no_sense_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        Relaxation(**settings)
