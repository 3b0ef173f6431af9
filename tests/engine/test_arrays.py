"""Arrays of odd layout and precision are made right at the border, or refused; none is misread."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.arrays import check_apart, checked_array, checked_matrix, checked_precision
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import centered, estimate, one_sided
from engine.learning.optimizer import SGD, Adam
from engine.learning.predict import evaluate, predict_outputs
from engine.learning.run import Run
from engine.learning.training import Training, descend, fit, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params

NETWORKS = [looped_mlp(3, 5, 2), layered((3, 4, 5, 2)), layered((3, 4, 2), "tanh", "squared_error")]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3))
LABELS = np.array([0, 1, 1, 0, 1, 0, 0])
Y = np.eye(2)[LABELS]
WEIGHTS = np.arange(7.0)

Layout = Callable[[np.ndarray], np.ndarray]


def _strided(a: np.ndarray) -> np.ndarray:
    wide = np.full((*a.shape[:-1], 2 * a.shape[-1]), 77, a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def _reversed(a: np.ndarray) -> np.ndarray:
    return a[::-1].copy()[::-1]


def _columns(a: np.ndarray) -> np.ndarray:
    """A column of a table, or a table stored by columns."""
    return np.column_stack([a, a + 99])[:, 0] if a.ndim == 1 else np.asfortranarray(a)


def _unaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    moved = raw[1:].view(a.dtype).reshape(a.shape)
    moved[...] = a
    assert not moved.flags.aligned
    return moved


def _read_only(a: np.ndarray) -> np.ndarray:
    fixed = a.copy()
    fixed.flags.writeable = False
    return fixed


def _swapped(a: np.ndarray) -> np.ndarray:
    return a.astype(a.dtype.newbyteorder())


def _masked(a: np.ndarray) -> np.ndarray:
    return np.ma.masked_array(a, mask=False)


def _double(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64)


def _single(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float32)


def _subclass(a: np.ndarray) -> np.ndarray:
    return a.view(np.memmap)


LAYOUTS: dict[str, Layout] = {
    name.strip("_"): layout
    for name, layout in globals().items()
    if name in {"_strided", "_reversed", "_columns", "_unaligned", "_read_only"}
    or name in {"_swapped", "_masked", "_double", "_single", "_subclass"}
}
SAME: Layout = np.array


def _backend(network: Network, dtype: type) -> NumbaBackend:
    return NumbaBackend(network, initial_params(network, np.random.default_rng(0), dtype))


def _gradient(backend: Backend, layout: Layout, estimator: Any) -> np.ndarray:
    """The estimate from data of this layout."""
    x, y, weights = (a.astype(backend.dtype) for a in (X, Y, WEIGHTS))
    clamped = backend.clamp(layout(x), layout(y), layout(weights))
    start = layout(np.full((7, backend.network.units), 0.25, backend.dtype))
    gradient = np.zeros(backend.network.size, backend.dtype)
    estimate(backend, clamped, estimator, gradient, start=start)
    return gradient


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("network", NETWORKS, ids=["looped", "layered", "squared"])
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_layout_of_what_is_read_changes_nothing(
    network: Network, dtype: type, name: str
) -> None:
    if dtype is np.float64 and name == "single":
        return  # fewer digits are other data
    estimator = one_sided(0.1) if name > "r" else centered(0.1)
    backend, layout = _backend(network, dtype), LAYOUTS[name]
    np.testing.assert_array_equal(
        _gradient(backend, layout, estimator), _gradient(backend, SAME, estimator)
    )
    x, y = X.astype(dtype), Y.astype(dtype)
    np.testing.assert_array_equal(predict_outputs(backend, layout(x)), predict_outputs(backend, x))
    assert evaluate(backend, layout(x), layout(y)) == evaluate(backend, x, y)
    settled = backend.settle(backend.clamp(x, y))
    odd = replace(settled, state=layout(settled.state))
    np.testing.assert_array_equal(backend.predict(odd), backend.predict(settled))
    np.testing.assert_array_equal(
        backend.cost(backend.clamp(x, y), odd), backend.cost(backend.clamp(x, y), settled)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(LAYOUTS))
@pytest.mark.parametrize("opposite", [True, False])
def test_a_state_of_any_layout_accumulates_alike(dtype: type, name: str, opposite: bool) -> None:
    backend, layout = _backend(NETWORKS[0], dtype), LAYOUTS[name]
    clamped = backend.clamp(X, Y)
    plus, minus = (backend.settle(clamped, beta) for beta in (0.1, -0.1))
    if opposite:
        plus = plus.against(minus)
    odd = replace(plus, state=layout(plus.state))
    if opposite:
        odd = replace(odd, opposite=layout(minus.state))
    if dtype is np.float64 and name == "single":
        return
    totals = np.zeros((2, backend.network.size), dtype)
    for total, phase in zip(totals, (plus, odd), strict=True):
        backend.accumulate(clamped, phase, total, energy=1.0, cost=0.5)
    np.testing.assert_array_equal(totals[0], totals[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_an_array_to_write_into_is_right_or_refused_before_anything_is_done(
    name: str, dtype: type
) -> None:
    backend = _backend(NETWORKS[0], dtype)
    clamped, size = backend.clamp(X, Y), backend.network.size
    gradient = LAYOUTS[name](np.full(size, 3.0, dtype))
    settled = backend.settle(clamped)
    calls: list[Callable[[], Any]] = [
        lambda: estimate(backend, clamped, centered(0.1), gradient),
        lambda: estimate(backend, clamped, one_sided(0.1), gradient),
        lambda: backend.accumulate(clamped, settled, gradient, energy=1.0, cost=1.0),
        lambda: Adam().update(gradient, np.zeros((2, size), dtype), 0, 0.1),
        lambda: SGD().update(gradient, np.zeros((1, size), dtype), 0, 0.1),
    ]
    if name == "subclass" or LAYOUTS[name] is {np.float32: _single, np.float64: _double}[dtype]:
        for call in calls:
            call()
        return
    if gradient.dtype != dtype and gradient.dtype.isnative:
        calls = calls[:3]  # an optimizer works in the precision of its gradient
    for call in calls:
        with pytest.raises(EngineError, match=r"^(gradient|memory|the precision) is"):
            call()
        assert (np.asarray(gradient) == 3.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_update_of_any_layout_and_precision_is_the_same(dtype: type) -> None:
    network = NETWORKS[0]
    update = np.linspace(-1, 1, network.size).astype(np.float32).astype(dtype)
    Params(network, update)["W_rec"][...] = 0.25
    plain = _backend(network, dtype)
    plain.apply(update)
    for name, layout in LAYOUTS.items():
        backend = _backend(network, dtype)
        backend.apply(layout(update))
        np.testing.assert_array_equal(backend.params.theta, plain.params.theta, name)


def test_a_run_in_another_precision_does_not_train() -> None:
    backend = _backend(NETWORKS[0], np.float32)
    run, training = Run.start(NETWORKS[0], 2, np.float64, 0), Training(epochs=1)
    before = backend.params.theta.copy()
    with pytest.raises(EngineError, match="gradient is float64, expected float32"):
        train_step(backend, X, Y, training, run, total=10)
    np.testing.assert_array_equal(backend.params.theta, before)
    mixed = replace(run, gradient=run.gradient.astype(np.float32))
    with pytest.raises(EngineError, match="memory is float64, expected float32"):
        descend(backend, training, mixed, total=10)
    short = Run.start(looped_mlp(3, 2, 2), 2, np.float32, 0)
    short.gradient = np.zeros(NETWORKS[0].size, np.float32)
    with pytest.raises(EngineError, match="memory has shape"):
        descend(backend, training, short, total=10)


def test_what_is_written_shares_no_memory_with_what_is_read() -> None:
    backend = _backend(looped_mlp(3, 5, 2), np.float64)
    clamped = backend.clamp(X, Y)
    settled = backend.settle(clamped)
    room = np.zeros(7 * 5 + backend.network.size)
    state = room[: 7 * 5].reshape(7, 5)
    state[...] = settled.state
    with pytest.raises(EngineError, match="gradient shares memory with a state"):
        backend.accumulate(
            clamped, replace(settled, state=state), room[3 : 3 + backend.network.size], energy=1.0
        )
    with pytest.raises(EngineError, match="gradient shares memory with the parameters"):
        estimate(backend, clamped, centered(0.1), backend.params.theta)
    memory = np.zeros((2, 4))
    with pytest.raises(EngineError, match="memory shares memory with gradient"):
        Adam().update(memory[0], memory, 0, 0.1)
    check_apart("a", np.zeros(3), {"b": np.zeros(3), "c": None})


def test_a_batch_of_another_backend_or_made_by_hand_is_refused() -> None:
    one, other = (_backend(network, np.float32) for network in NETWORKS[:2])
    clamped = one.clamp(X, Y)
    for foreign in (other.clamp(X, Y), replace(clamped, x=clamped.x[:2]), replace(clamped)):
        for call in (one.settle, lambda batch: one.cost(batch, one.settle(clamped))):
            with pytest.raises(EngineError, match="not clamped by this backend"):
                call(foreign)
    fewer = one.settle(one.clamp(X[:3], Y[:3]))
    with pytest.raises(EngineError, match="a state has 3 samples, x has 7"):
        one.accumulate(clamped, fewer, np.zeros(one.network.size, np.float32), energy=1.0)
    with pytest.raises(EngineError, match=r"the state has shape \(7, 5\), expected \(samples, 9\)"):
        other.predict(one.settle(clamped))


@pytest.mark.parametrize("value", [3e38, -3e38])
def test_an_update_that_overflows_is_refused_and_nothing_is_applied(value: float) -> None:
    backend = _backend(NETWORKS[0], np.float32)
    size = backend.network.size
    backend.apply(np.full(size, value, np.float32))
    before = backend.params.theta.copy()
    for update in (np.full(size, value, np.float32), np.full(size, 1e300), np.full(size, np.nan)):
        with pytest.raises(DivergenceError):
            backend.apply(update)
        np.testing.assert_array_equal(backend.params.theta, before)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones((2, 3), complex), "x is an array of complex128, expected real numbers"),
        (np.ma.masked_array(np.ones((2, 3)), [[0, 0, 1]] * 2), "x masks some of its values"),
        ([["1", "2", "3"]], "x is an array of <U1"),
        ([[1, 2, 3], [4]], "x is not a numeric array"),
        (np.full((2, 3), 1e39), "x holds 1e.39 at sample 0, column 0, which float32 cannot hold"),
        ([[1, np.nan, 2]], "x holds nan at sample 0, column 1"),
    ],
)
def test_nothing_is_dropped_on_the_way_to_an_array(value: Any, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        checked_matrix("x", value, 3, np.float32)
    with pytest.raises(EngineError, match=message):
        fit(_backend(NETWORKS[0], np.float32), value, LABELS[:2], Training(epochs=1))


def test_weights_are_one_number_for_each_sample() -> None:
    backend = _backend(NETWORKS[0], np.float32)
    for weights in (np.ones((7, 1)), np.ones((1, 7)), np.ones(6), 1.0):
        with pytest.raises(EngineError, match=r"weights have shape .* expected \(7,\)"):
            backend.clamp(X, Y, weights)


def test_a_place_is_named_in_an_array_of_any_rank() -> None:
    with pytest.raises(EngineError, match="a holds inf at place 2"):
        checked_array("a", [0.0, 0.0, np.inf], np.float64)
    with pytest.raises(EngineError, match=r"a holds inf at place \(0, 0, 1\)"):
        checked_array("a", [[[0.0, np.inf]]], np.float64)


@pytest.mark.parametrize("dtype", ["float16", int, None, "words", object(), ">f4"])
def test_a_precision_is_single_or_double(dtype: Any) -> None:
    with pytest.raises(EngineError, match="expected float32 or float64"):
        checked_precision(dtype)
    assert checked_precision("float32") == np.float32
