"""What a reader says is what the slow way says; a class that it calls certain never changes."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given

from engine.compiled import reader
from engine.compiled.backend import NumbaBackend
from engine.compiled.reader import NetworkReader
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError
from engine.learning.predict import Predictor
from engine.model.builders import layered, looped_mlp
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import Case, cases

UNITS, CLASSES = 12, 4
WAYS = (Relaxation(), Relaxation(7, 1e-3), Relaxation(40, 1e-9, damping=0.7))


def _slow(backend: NumbaBackend, x: np.ndarray, way: Relaxation) -> np.ndarray:
    outputs: np.ndarray = backend.predict(backend.settle(backend.clamp(x), relaxation=way))
    return outputs


def _backend(dtype: type = np.float32, seed: int = 0) -> NumbaBackend:
    network = looped_mlp(5, UNITS, CLASSES)
    return NumbaBackend(network, initial_params(network, np.random.default_rng(seed), dtype))


def _reader(backend: NumbaBackend, way: Relaxation) -> NetworkReader:
    found = backend.reader(way)
    assert isinstance(found, NetworkReader)
    return found


def _slow_to_settle() -> NumbaBackend:
    """A network whose slowest direction, which contracts by 0.97 a step, is what is read out."""
    backend = _backend(np.float64)
    params, rng = backend.params.copy(), np.random.default_rng(3)
    directions, _ = np.linalg.qr(rng.standard_normal((UNITS, UNITS)))
    pace = np.r_[0.97, np.linspace(-0.3, 0.3, UNITS - 1)]
    matrix = (directions * pace) @ directions.T
    params["W_rec"][...] = (matrix + matrix.T) / 2
    params["W_in"][...] *= 0.02  # small states: the activation does not contract
    params["W_out"][...] = 0.05 * rng.standard_normal((UNITS, CLASSES))
    params["W_out"][:, 0] += 40.0 * directions[:, 0]
    params["b_out"][...] = np.r_[-0.3, 0.1 * np.arange(CLASSES - 1)]
    backend.load(params)
    return backend


@given(cases())
def test_outputs_are_those_of_the_slow_way(case: Case) -> None:
    backend = NumbaBackend(case.network, case.backend.params)
    for way in WAYS:
        found = _reader(backend, way).outputs(case.x)
        np.testing.assert_allclose(found, _slow(backend, case.x, way), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_that_take_turns_are_read_as_the_slow_way_reads_them(dtype: type) -> None:
    network = layered((5, 9, 7, 3))
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0), dtype))
    x, way = np.random.default_rng(1).standard_normal((40, 5)).astype(dtype), Relaxation()
    sweeps = Relaxation(solver="sweeps")
    for chosen in (way, sweeps):
        found = _reader(backend, chosen).outputs(x)
        exact = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, _slow(backend, x, chosen), rtol=0, atol=exact)


def test_a_sample_is_answered_with_the_same_bits_in_every_batch() -> None:
    read = _reader(_backend(), Relaxation())
    x = np.random.default_rng(1).standard_normal((50, 5)).astype(np.float32)
    whole = read.outputs(x)
    for rows in (slice(0, 1), slice(3, 9), slice(20, 50)):
        np.testing.assert_array_equal(read.outputs(x[rows].copy()), whole[rows])


def test_a_class_that_is_certain_is_that_of_the_equilibrium() -> None:
    backend, rng = _slow_to_settle(), np.random.default_rng(1)
    x = rng.standard_normal((3000, 5))
    settled = _slow(backend, x, Relaxation(3000, 1e-12)).argmax(1)
    early = _slow(backend, x, Relaxation(3000, max(reader.LOOKS))).argmax(1)
    assert (early != settled).mean() > 0.1  # a look alone would often be wrong
    read = _reader(backend, Relaxation(3000, 1e-10))
    drive = read._drive(x)
    for tolerance in reader.LOOKS:
        guess, certain, _ = read._look(drive, tolerance, None)
        np.testing.assert_array_equal(guess[certain], settled[certain])
    np.testing.assert_array_equal(read.classes(x), settled)


def test_many_classes_are_certain_before_the_state_has_settled() -> None:
    backend = _backend()
    params = backend.params.copy()
    params["W_out"][...] *= 8.0  # outputs that are as far apart as those of a trained network
    backend.load(params)
    x = np.random.default_rng(1).standard_normal((400, 5)).astype(np.float32)
    read = _reader(backend, Relaxation())
    _, certain, _ = read._look(read._drive(x), reader.LOOKS[0], None)
    assert 0.5 < certain.mean() < 1.0
    np.testing.assert_array_equal(read.classes(x), read.outputs(x).argmax(1))


def test_few_steps_leave_the_class_to_where_they_end() -> None:
    backend, way = _slow_to_settle(), Relaxation(3, 1e-10)
    x = np.random.default_rng(1).standard_normal((100, 5))
    slow = _slow(backend, x, way).argmax(1)
    np.testing.assert_array_equal(_reader(backend, way).classes(x), slow)


def test_a_network_that_need_not_contract_is_read_without_looks() -> None:
    backend = _backend(np.float64)
    params = backend.params.copy()
    params["W_rec"][...] *= 40.0
    backend.load(params)
    way = Relaxation(50, 1e-6)
    assert _reader(backend, way)._contraction >= 1.0
    x = np.random.default_rng(1).standard_normal((60, 5))
    slow = _slow(backend, x, way).argmax(1)
    np.testing.assert_array_equal(_reader(backend, way).classes(x), slow)


def test_a_predictor_follows_the_parameters() -> None:
    backend = _backend()
    x, predictor = np.ones((1, 5), np.float32), Predictor(backend)
    before = predictor.predict_outputs(x)
    update = np.full(backend.network.size, 0.1, np.float32)
    backend.apply(update)
    after = predictor.predict_outputs(x)
    assert (after != before).any()
    np.testing.assert_allclose(after, _slow(backend, x, Relaxation()), rtol=0, atol=1e-6)
    other = initial_params(backend.network, np.random.default_rng(9))
    backend.load(other)
    loaded = predictor.predict_outputs(x)
    np.testing.assert_allclose(loaded, _slow(backend, x, Relaxation()), rtol=0, atol=1e-6)


def test_a_predictor_follows_the_relaxation() -> None:
    backend, x = _slow_to_settle(), np.ones((1, 5))
    predictor, rough = Predictor(backend), Relaxation(2, 1e-9)
    fine = predictor.predict_outputs(x)
    np.testing.assert_allclose(predictor.predict_outputs(x, rough), _slow(backend, x, rough))
    assert (predictor.predict_outputs(x, rough) != fine).any()


def test_a_backend_that_changes_a_step_is_not_read_around_it() -> None:
    class Shifted(NumbaBackend):
        def _drive(self, x: np.ndarray) -> np.ndarray:
            return super()._drive(x) + 1

    backend = Shifted(_backend().network, _backend().params)
    x = np.ones((1, 5), np.float32)
    assert backend.reader(Relaxation()) is None
    found = Predictor(backend).predict_outputs(x)
    np.testing.assert_array_equal(found, _slow(backend, x, Relaxation()))


def test_anderson_mixing_is_read_the_slow_way() -> None:
    backend, x = _backend(), np.ones((2, 5), np.float32)
    way = Relaxation(solver="anderson")
    found = Predictor(backend).predict_outputs(x, way)
    np.testing.assert_array_equal(found, _slow(backend, x, way))


@pytest.mark.parametrize("many", [3, 200])
def test_a_divergence_names_the_sample(many: int) -> None:
    network = looped_mlp(5, UNITS, CLASSES, "relu")
    params = Params(network, np.full(network.size, 1.0, np.float32))
    backend = NumbaBackend(network, params)
    x = np.full((many, 5), -10.0, np.float32)  # which leaves every unit at zero
    x[2] = 1.0
    with pytest.raises(DivergenceError, match="sample 2 stopped being finite"):
        Predictor(backend).predict(x, Relaxation(500))


def test_a_predictor_can_be_pickled_and_shared_by_threads() -> None:
    predictor = Predictor(_backend())
    x = np.random.default_rng(1).standard_normal((64, 5)).astype(np.float32)
    whole = predictor.predict_outputs(x)
    copied = pickle.loads(pickle.dumps(predictor))
    assert copied._prepared is None  # it holds addresses of a process
    np.testing.assert_array_equal(copied.predict_outputs(x), whole)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(predictor.predict_outputs, [x[k : k + 1] for k in range(64)]))
    np.testing.assert_array_equal(np.concatenate(rows), whole)
