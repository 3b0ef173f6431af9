"""The compiled step: its tanh, its memory, and how it stops."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import estimate_anew, one_sided
from engine.learning.predict import Predictor
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


def test_the_first_sweep_is_a_forward_pass() -> None:
    backend = _backend("sweeps", np.float64)
    backend.apply(np.full(backend.network.size, 0.1))  # biases that are not zero
    x, _ = _batch(backend.network)
    swept = backend.settle(backend.clamp(x), 0.0, Relaxation(1, 0.0, "sweeps")).state
    layer, above = x, []
    for number in (1, 2):
        weight, bias = backend.params[f"W_{number}"], backend.params[f"b_{number}"]
        layer = np.tanh(layer @ weight + bias)
        above.append(layer)
    np.testing.assert_allclose(swept, np.concatenate(above, 1), rtol=0, atol=1e-6)


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


def test_a_limit_that_is_a_whole_number_is_the_same_limit() -> None:
    """A kernel that is called by its address reads whatever lies there."""
    network = looped_mlp(3, 4, 2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    x, y = np.random.default_rng(1).normal(size=(5, 3)), np.eye(2)[[0, 1, 0, 1, 1]]
    plain = Relaxation(max_steps=40, tolerance=0.0, damping=1.0)
    other = Relaxation(max_steps=40, tolerance=0, damping=1)
    assert plain == other
    found = [backend.settle(backend.clamp(x), relaxation=how) for how in (plain, other)]
    np.testing.assert_array_equal(found[0].state, found[1].state)
    nudged = replace(other, displaced=True)
    gradients = []
    for how in (plain, other):
        gradients.append(np.zeros(network.size, backend.dtype))
        estimate_anew(
            backend,
            x.astype(np.float32),
            y.astype(np.float32),
            one_sided(1e-3),
            gradients[-1],
            how,
            nudged,
        )
    np.testing.assert_array_equal(*gradients)
    answers = [Predictor(backend).predict_outputs(x, how) for how in (plain, other)]
    np.testing.assert_array_equal(*answers)
