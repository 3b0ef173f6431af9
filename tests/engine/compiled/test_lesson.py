"""A gradient in one piece is that of its parts, to the last bit and on any number of cores."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled import lesson, threads
from engine.compiled.backend import NumbaBackend
from engine.compiled.crew import run_job
from engine.compiled.lesson import can_learn
from engine.couplings.attention import Hopfield
from engine.couplings.convolution import ChannelBias
from engine.couplings.dense import InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import Report, centered, estimate, estimate_anew, one_sided
from engine.learning.training import Training, fit
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params

NETWORKS = {
    "looped": looped_mlp(7, 20, 3),
    "layered": layered((7, 9, 33, 5, 3), "relu"),
    "hard sigmoid": layered((7, 50, 11, 3), "hard_sigmoid"),
    "channels": Network(
        7,
        (Layer("a", (2, 3, 2)),),
        (InputDrive("W_in", "a"), ChannelBias("b", "a", pixels=6), Lateral("W", "a")),
        SoftmaxReadout("a", 3),
    ),
}
SAMPLES = 45
BETA = 1e-4


class Stepwise(NumbaBackend):
    """Does one thing after the other."""

    def _learns(self, plan: Any) -> bool:
        return False


def _backends(network: Network, dtype: type) -> tuple[NumbaBackend, NumbaBackend]:
    params = initial_params(network, np.random.default_rng(3), dtype)
    params.theta[...] += 0.1  # biases too
    return NumbaBackend(network, params), Stepwise(network, params)


def _batch(network: Network, dtype: type) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((SAMPLES, network.inputs)).astype(dtype)
    return x, np.eye(network.outputs, dtype=dtype)[np.arange(SAMPLES) % network.outputs]


def _learn(backend: NumbaBackend, solver: Any, start: Any = None) -> tuple[FloatArray, Report]:
    """Return a gradient, written over what was there, and how it went."""
    gradient = np.full(backend.network.size, 7, backend.dtype)
    ways = Relaxation(9, 1e-2, solver), Relaxation(7, 1e-3, solver)
    batch = _batch(backend.network, backend.params.theta.dtype.type)
    return gradient, estimate_anew(backend, *batch, one_sided(BETA), gradient, *ways, start)


def _use_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> list[tuple[int, int]]:
    """Let any batch gain by cores; return a list that gets the stages and cores of each job."""
    jobs: list[tuple[int, int]] = []

    def counted(job: Any, stages: int, cores: int) -> None:
        jobs.append((stages, cores))
        run_job(job, stages, cores)

    monkeypatch.setattr(threads, "WORK", 1)
    monkeypatch.setattr(threads, "ROWS", 5)
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    monkeypatch.setattr(lesson, "run_job", counted)
    return jobs


@pytest.mark.parametrize("solver", ["sweeps", "fixed_point"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_a_gradient_in_one_piece_is_that_of_its_parts(
    network: Network, dtype: type, solver: str
) -> None:
    whole, stepwise = _backends(network, dtype)
    (found, report), (expected, parts) = _learn(whole, solver), _learn(stepwise, solver)
    # The read-out of the one is a product of tiles, that of the other one of BLAS.
    np.testing.assert_allclose(found, expected, atol=30 * np.finfo(dtype).eps * abs(expected).max())
    couplings = network.blocks[network.couplings[-1].name].span.stop
    if dtype == np.float32 and network != NETWORKS["channels"]:  # they share a sum of many units
        np.testing.assert_array_equal(found[:couplings], expected[:couplings])
    assert report.cost == pytest.approx(parts.cost, rel=1e-6)
    assert (report.free_steps, report.nudged_steps) == (parts.free_steps, parts.nudged_steps)
    assert report.unsettled == parts.unsettled


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_it_begins_where_it_is_told_to(network: Network) -> None:
    start = np.full((SAMPLES, network.units), 0.3, np.float32)
    given = start.copy()
    whole, stepwise = _backends(network, np.float32)
    (found, report), (expected, parts) = (_learn(b, "sweeps", start) for b in (whole, stepwise))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert report.free_steps == parts.free_steps
    np.testing.assert_array_equal(start, given)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("cores", [2, 3])
def test_a_step_is_one_job_and_cores_change_no_bit(
    network: Network, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, _ = _backends(network, np.float32)
    alone, report = _learn(backend, "sweeps")
    jobs = _use_cores(monkeypatch, cores)
    together, same = _learn(backend, "sweeps")
    tied = any(link.tied for link in network.links.values())
    assert jobs == [(4 if tied else 3, cores)]
    np.testing.assert_array_equal(together, alone)
    assert same == report


def test_a_training_is_a_job_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    network = NETWORKS["layered"]
    backend, _ = _backends(network, np.float32)
    jobs = _use_cores(monkeypatch, 2)
    x, y = _batch(network, np.float32)
    fit(backend, x, y, Training(epochs=3, batch_size=15))
    assert jobs == [(3, 2)] * 9


@pytest.mark.parametrize("cores", [1, 2])
def test_what_is_not_finite_is_named_as_by_the_parts(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = NETWORKS["layered"]
    whole, stepwise = _backends(network, np.float32)
    _use_cores(monkeypatch, cores)
    said = []
    for backend in (whole, stepwise):
        backend.params[network.recurrent[0].name][...] = 3e38
        with pytest.raises(DivergenceError) as caught:
            _learn(backend, "sweeps")
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "stopped being finite" in said[0]


def test_bad_batches_are_refused_as_by_clamp() -> None:
    backend, _ = _backends(NETWORKS["looped"], np.float32)
    x, y = _batch(backend.network, np.float32)
    gradient = np.zeros(backend.network.size, np.float32)
    spoiled = x.copy()
    spoiled[2, 1] = np.nan
    for bad, message in (
        ((spoiled, y), "x holds nan at sample 2, column 1"),
        ((x, y[:-1]), f"y has {SAMPLES - 1} samples, x has {SAMPLES}"),
        ((x[:0], y[:0]), "x holds no samples"),
        ((x, y + 1), "expected probabilities"),
    ):
        with pytest.raises(EngineError, match=message):
            estimate_anew(backend, *bad, one_sided(BETA), gradient)
    shared = np.zeros(backend.network.size, np.float32)
    with pytest.raises(EngineError, match="gradient shares memory with x"):
        estimate_anew(backend, shared[:7].reshape(1, 7), y[:1], one_sided(BETA), shared)


def test_what_a_subclass_changes_is_not_passed_over() -> None:
    class Flipped(NumbaBackend):
        def _accumulate(self, clamped, equilibrium, gradient, energy, cost):  # type: ignore[no-untyped-def]
            return super()._accumulate(clamped, equilibrium, gradient, -energy, cost)

    network = NETWORKS["looped"]
    backend, _ = _backends(network, np.float32)
    flipped = Flipped(network, backend.params)
    right, wrong = (Params(network, _learn(b, "sweeps")[0]) for b in (backend, flipped))
    np.testing.assert_array_equal(wrong["W_in"], -right["W_in"])


def test_what_cannot_go_in_one_piece_goes_in_parts() -> None:
    backend, _ = _backends(NETWORKS["looped"], np.float32)
    x, y = _batch(backend.network, np.float32)
    found, expected = np.zeros((2, backend.network.size), np.float32)
    estimate_anew(backend, x, y, centered(0.1), found)
    estimate(backend, backend.clamp(x, y), centered(0.1), expected)
    np.testing.assert_array_equal(found, expected)


def test_a_step_sees_what_the_one_before_has_learnt_and_what_is_loaded() -> None:
    network = NETWORKS["layered"]
    backend, _ = _backends(network, np.float32)
    gradient, _ = _learn(backend, "sweeps")
    backend.apply(-0.3 * gradient)
    again, _ = _learn(backend, "sweeps")
    fresh, _ = _learn(NumbaBackend(network, backend.params), "sweeps")
    np.testing.assert_array_equal(again, fresh)
    assert not np.array_equal(again, gradient)
    backend.load(_backends(network, np.float32)[0].params)
    np.testing.assert_array_equal(_learn(backend, "sweeps")[0], gradient)


def test_what_a_step_found_is_not_written_over_by_the_next() -> None:
    network = NETWORKS["looped"]
    backend, _ = _backends(network, np.float32)
    x, y = _batch(network, np.float32)
    plan = (((0.0,), Relaxation()), ((BETA,), Relaxation(displaced=True)))
    gradient = np.empty(network.size, np.float32)
    learnt = backend.learn(x, y, plan, gradient, energy=1.0, cost=1.0)
    assert learnt is not None
    costs, found = learnt
    kept = [costs.copy(), *(e.state.copy() for e in found)]
    backend.learn(x[::-1].copy(), y, plan, gradient, energy=1.0, cost=1.0)
    for before, after in zip(kept, (costs, *(e.state for e in found)), strict=True):
        np.testing.assert_array_equal(after, before)


def test_batches_that_may_not_be_written_into_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    network = NETWORKS["looped"]
    backend, _ = _backends(network, np.float32)
    start = np.full((SAMPLES, network.units), 0.3, np.float32)
    expected, _ = _learn(backend, "fixed_point", start)
    x, y = _batch(network, np.float32)
    for array in (x, y, start):
        array.flags.writeable = False
    monkeypatch.setattr("tests.engine.compiled.test_lesson._batch", lambda *_: (x, y))
    np.testing.assert_array_equal(_learn(backend, "fixed_point", start)[0], expected)


@pytest.mark.parametrize("cores", [1, 2])
def test_threads_may_learn_from_one_backend_at_the_same_time(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = NETWORKS["layered"]
    backend, _ = _backends(network, np.float32)
    expected, _ = _learn(backend, "sweeps")
    _use_cores(monkeypatch, cores)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(_learn, backend, "sweeps") for _ in range(24)]
    for one in found:
        np.testing.assert_array_equal(one.result()[0], expected)


def test_a_network_of_more_than_matrices_does_not_go_in_one_piece() -> None:
    plan = (((0.0,), Relaxation()), ((BETA,), Relaxation(displaced=True)))
    assert can_learn(NETWORKS["looped"], plan)
    mixed = (((0.0,), Relaxation(solver="anderson")), plan[1])
    assert not can_learn(NETWORKS["looped"], mixed)
    layers, readout = (Layer("a", (2, 4)),), SoftmaxReadout("a", 3)
    assert not can_learn(Network(8, layers, (Hopfield("M", "a", 3),), readout), plan)
    assert not can_learn(layered((7, 9, 3), readout="squared_error"), plan)
