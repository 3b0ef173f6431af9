"""The training loop: what it changes, what it leaves, when it stops, what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.readout import SquaredError
from engine.errors import DivergenceError, EngineError, NudgeWarning
from engine.learning.estimator import four_point, symmetric
from engine.learning.optimizer import SGD, Adam
from engine.learning.predict import evaluate
from engine.learning.run import Epoch, Run
from engine.learning.spectral import SpectralCap, recurrent_norm
from engine.learning.training import Training, descend, fit
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import initial_params

NETWORK = looped_mlp(5, 12, 3)


def _backend(network: Network = NETWORK, dtype: type = np.float32, gain: float = 1.0):  # type: ignore[no-untyped-def]
    params = initial_params(network, np.random.default_rng(0), dtype)
    for coupling in network.recurrent:
        params[coupling.name][...] *= gain
    return NumbaBackend(network, params)


def _data(seed: int = 1, samples: int = 90) -> tuple[FloatArray, IntArray]:
    """Three overlapping clouds, so that a validation set gets worse in the end."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=samples)
    return rng.standard_normal((samples, 5)) + 0.8 * np.eye(5)[y], y


@pytest.mark.parametrize("estimator", ["one_sided", "centered", "four_point"])
@pytest.mark.parametrize(
    "network",
    [
        NETWORK,
        layered((5, 12, 3)),
        layered((5, 9, 8, 7, 3)),
        layered((5, 9, 3), "hard_sigmoid", "squared_error"),
    ],
    ids=["looped", "one", "three", "hard"],
)
def test_the_cost_falls(network: Network, estimator: str) -> None:
    training = Training(epochs=10, estimator=estimator, beta=0.02, optimizer=Adam(1e-2))
    history = fit(_backend(network), *_data(), training)
    costs = [epoch.cost for epoch in history]
    assert [epoch.number for epoch in history] == list(range(1, 11))
    assert costs[-1] < 0.9 * costs[0]
    assert all(late < early for early, late in zip(costs, costs[2:], strict=False))


def test_targets_may_be_labels_or_rows() -> None:
    x, y = _data()
    by_label, by_row = _backend(), _backend()
    fit(by_label, x, y, Training(epochs=2))
    fit(by_row, x, np.eye(3)[y], Training(epochs=2))
    np.testing.assert_array_equal(by_label.params.theta, by_row.params.theta)


def test_the_seed_decides_the_order_and_nothing_else_is_random() -> None:
    backends = [_backend() for _ in range(3)]
    for backend, seed in zip(backends, (7, 7, 8), strict=True):
        fit(backend, *_data(), Training(epochs=2, seed=seed))
    first, same, other = (backend.params.theta for backend in backends)
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("frozen", [("W_rec",), ("W_in", "b"), ("W_out", "b_out")])
def test_frozen_blocks_do_not_change(frozen: tuple[str, ...], dtype: type) -> None:
    backend = _backend(dtype=dtype)
    before = backend.params.copy()
    fit(backend, *_data(), Training(epochs=2, frozen=frozen))
    for name in NETWORK.blocks:
        unchanged = np.array_equal(backend.params[name], before[name])
        assert unchanged == (name in frozen), name


def test_decay_shrinks_its_block_and_no_other() -> None:
    once = Training(epochs=1, batch_size=90, schedule="constant", optimizer=SGD(0.1), cap=None)
    before, plain, decayed = _backend(), _backend(), _backend()
    fit(plain, *_data(), once)
    fit(decayed, *_data(), replace(once, decay={"W_in": 0.5, "W_rec": 0.5}))
    for name in NETWORK.blocks:
        shrunk = 0.1 * 0.5 * before.params[name] if name in ("W_in", "W_rec") else 0.0
        expected = plain.params[name] - shrunk
        np.testing.assert_allclose(decayed.params[name], expected, rtol=1e-5, atol=1e-7)


def test_a_frozen_block_does_not_decay() -> None:
    backend = _backend()
    before = backend.params["W_in"].copy()
    fit(backend, *_data(), Training(epochs=1, frozen=("W_in",), decay={"W_in": 0.5}))
    assert np.array_equal(backend.params["W_in"], before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cap", [SpectralCap(0.9), SpectralCap(0.9, every=3)], ids=["1", "3"])
def test_a_frozen_block_above_the_cap_is_capped_once(cap: SpectralCap, dtype: type) -> None:
    backend = _backend(dtype=dtype, gain=4.0)
    assert recurrent_norm(backend.params) > 1.0
    seen = []
    training = Training(epochs=3, frozen=("W_rec",), cap=cap)
    fit(backend, *_data(), training, on_epoch=lambda _: seen.append(backend.params["W_rec"].copy()))
    assert recurrent_norm(backend.params) <= 0.9 + 1e-6
    np.testing.assert_allclose(seen[-1], seen[0], rtol=0, atol=1e-6)


def test_the_cap_holds_from_the_first_relaxation_on() -> None:
    backend = _backend(gain=4.0)
    norms = []

    class Watched(NumbaBackend):
        def _relax(self, *arguments):  # type: ignore[no-untyped-def]
            norms.append(recurrent_norm(self.params))
            return super()._relax(*arguments)

    fit(Watched(NETWORK, backend.params), *_data(), Training(epochs=1, cap=SpectralCap(0.8)))
    assert len(norms) > 1
    assert max(norms) <= 0.8 + 1e-6


def test_each_epoch_is_reported_when_it_ends() -> None:
    seen: list[Epoch] = []
    x, y = _data()
    backend = _backend()
    history = fit(backend, x, y, Training(epochs=3), validation=_data(2, 40), on_epoch=seen.append)
    assert seen == history
    result = evaluate(backend, *_data(2, 40), Training().settled)
    assert (history[-1].valid_cost, history[-1].valid_accuracy) == (result.cost, result.accuracy)
    assert f"validation {result.accuracy:.2%}" in history[-1].summary()
    for epoch in history:
        assert epoch.seconds > 0.0
        assert 1.0 < epoch.nudged_steps <= 15.0
        assert 1.0 < epoch.free_steps <= 30.0
        assert epoch.unsettled == 0.0


def test_patience_stops_early_and_takes_the_best() -> None:
    backend, thetas = _backend(), []
    training = Training(epochs=200, patience=5, optimizer=SGD(1.0), schedule="constant", beta=0.02)
    history = fit(
        backend,
        *_data(samples=45),
        training,
        validation=_data(2, 60),
        on_epoch=lambda _: thetas.append(backend.params.theta.copy()),
    )
    scores = [(epoch.valid_accuracy, -epoch.valid_cost) for epoch in history]
    best = scores.index(max(scores))
    assert len(history) == best + 1 + 5
    assert len(history) < 200
    np.testing.assert_array_equal(backend.params.theta, thetas[best])
    assert (thetas[-1] != thetas[best]).any()


def test_without_patience_the_last_epoch_stays() -> None:
    backend, thetas = _backend(), []
    fit(
        backend,
        *_data(),
        Training(epochs=4, optimizer=SGD(3.0)),
        validation=_data(2, 60),
        on_epoch=lambda _: thetas.append(backend.params.theta.copy()),
    )
    np.testing.assert_array_equal(backend.params.theta, thetas[-1])


def test_training_is_silent_when_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    fit(_backend(), *_data(), Training(epochs=2))
    assert capfd.readouterr() == ("", "")


X, Y = _data()
HOLED = np.where(np.arange(5) == 3, np.nan, X)


@pytest.mark.parametrize(
    ("x", "y", "settings", "validation", "message"),
    [
        (X, np.where(Y == 2, 3, Y), {}, None, "label 3 is outside the 3 outputs"),
        (X, Y - 1, {}, None, "label -1 is outside the 3 outputs"),
        (X, Y.astype(float), {}, None, "class labels are float64, expected whole numbers"),
        (X, Y[1:], {}, None, "y has 89 samples, x has 90"),
        (X, np.eye(4)[Y], {}, None, r"y has shape \(90, 4\), expected \(samples, 3\)"),
        (X[:0], Y[:0], {}, None, "y has 0 samples, x has 0; need some of both"),
        (X[:, 1:], Y, {}, None, r"x has shape \(90, 4\), expected \(samples, 5\)"),
        (HOLED, Y, {}, None, "x holds nan at sample 0, column 3"),
        (X, np.full((90, 3), np.inf), {}, None, "y holds inf at sample 0, column 0"),
        ([["a"] * 5], [0], {}, None, "x is an array of <U1, expected real numbers"),
        (X, 2 * np.eye(3)[Y], {}, None, "target 0 is .*, expected probabilities"),
        (X, Y, {}, (X, np.ones((90, 3))), "target 0 is .*, expected probabilities"),
        (X, Y, {"frozen": ("W_2",)}, None, "no parameter block 'W_2' to freeze; known: W_in, b"),
        (X, Y, {"decay": {"W_2": 0.1}}, None, "no parameter block 'W_2' to decay; known: W_in, b"),
        (X, Y, {"decay": {"b": -0.1}}, None, "decay of 'b' is -0.1, expected zero or more"),
        (X, Y, {"patience": 3}, None, "patience 3 needs a validation set"),
        (X, Y, {}, (X[:, 1:], Y), "x has shape"),
        (X, Y, {}, (X, Y[1:]), "y has 89 samples, x has 90"),
        (X, Y, {}, (X, Y + 1), "label 3 is outside"),
        (X, Y, {}, (HOLED, Y), "x holds nan"),
    ],
)
def test_bad_data_is_refused_before_anything_changes(
    x: object, y: object, settings: dict, validation: object, message: str, tmp_path: Path
) -> None:
    backend = _backend(gain=4.0)
    before = backend.params.theta.copy()
    with pytest.raises(EngineError, match=message):
        fit(backend, x, y, Training(epochs=1, **settings), validation, tmp_path / "run.npz")
    np.testing.assert_array_equal(backend.params.theta, before)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0, expected at least 1"),
        ({"epochs": 2.5}, r"epochs is 2\.5"),
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"batch_size": 2.5}, r"batch_size is 2\.5"),
        ({"patience": 0}, "patience is 0, expected at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        Training(**settings)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_step_that_overflows_leaves_the_parameters_finite() -> None:
    backend = _backend()
    with pytest.raises(DivergenceError):
        fit(backend, 1e30 * X, Y, Training(epochs=3, optimizer=SGD(1e30), cap=None))
    assert np.isfinite(backend.params.theta).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_cap_does_not_hide_an_update_that_is_not_finite() -> None:
    for network in (NETWORK, layered((5, 9, 8, 3))):
        backend, before = _backend(network), _backend(network).params.theta
        run = Run.start(network, 1, np.float32, seed=0)
        run.gradient[:] = np.inf
        with pytest.raises(DivergenceError, match="update holds"):
            descend(backend, Training(optimizer=SGD(1.0)), run, total=1)
        np.testing.assert_array_equal(backend.params.theta, before)


def test_an_estimator_is_a_name_a_function_or_pairs() -> None:
    training = Training(epochs=2, beta=0.05)
    thetas = []
    for estimator in ("four_point", four_point, lambda beta: symmetric(beta, 4), four_point(0.05)):
        backend = _backend()
        fit(backend, X, Y, replace(training, estimator=estimator))
        thetas.append(backend.params.theta.copy())
    for theta in thetas[1:]:
        np.testing.assert_array_equal(theta, thetas[0])
    six = _backend()
    fit(six, X, Y, replace(training, estimator=lambda beta: symmetric(beta, 6)))
    assert np.isfinite(six.params.theta).all()


@pytest.mark.parametrize(
    "estimator", ["six_point", ((0.1, 1.0),), lambda beta: ((beta, 1.0),), ((0.1, np.nan),)]
)
def test_an_estimator_that_is_none_is_refused_at_once(estimator: object) -> None:
    with pytest.raises(EngineError, match="estimator"):
        Training(estimator=estimator)


def test_pairs_with_a_large_beta_are_warned_of() -> None:
    with pytest.warns(NudgeWarning, match="beta 40"):
        fit(_backend(), X, Y, Training(epochs=1, estimator=four_point(40.0)))


def test_a_network_without_parameters_has_nothing_to_learn_and_says_how_it_went() -> None:
    network = Network(2, (Layer("a", (3,)),), (), SquaredError("a"))
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    x, y = np.zeros((4, 2)), np.ones((4, 3))
    (epoch,) = fit(backend, x, y, Training(epochs=1))
    assert epoch.cost == pytest.approx(1.5)  # half of three squares
