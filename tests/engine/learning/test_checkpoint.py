"""Saving, loading, and going on where an interrupted run stopped."""

import os
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Bias
from engine.couplings.readout import SquaredError
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError
from engine.learning import checkpoint
from engine.learning.checkpoint import load, save
from engine.learning.optimizer import SGD
from engine.learning.run import Epoch, Run
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training, fit, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz.strategies import networks, random_params

NETWORK = looped_mlp(4, 6, 3)
IN_PLACE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _run(network: Network, rng: np.random.Generator, dtype: type) -> Run:
    """A run in which nothing is as it started."""
    run = Run.start(network, 2, dtype, seed=3)
    run.memory[...] = rng.standard_normal(run.memory.shape)
    for vector in run.vectors.values():
        vector[...] = rng.standard_normal(vector.shape)
    run.rng.permutation(int(rng.integers(1, 99)))
    run.epoch, run.step, run.best_epoch = 2, 34, 1
    run.history = [
        Epoch(1, 0.1, 9.5, 4.25, 1 / 3, 0.7, 0.3, 0.9),
        Epoch(2, 1e-300, 9.0, 4.0, 0.0, 0.6),
    ]
    run.best_theta = rng.standard_normal(network.size).astype(dtype)
    return run


def same_run(one: Run, other: Run) -> bool:
    """Tell whether two runs will go on alike, whatever the time they took."""
    arrays = [
        (one.memory, other.memory),
        *((one.vectors[name], other.vectors[name]) for name in one.vectors),
        (np.array(one.best_theta), np.array(other.best_theta)),
    ]
    histories = [[replace(epoch, seconds=0) for epoch in run.history] for run in (one, other)]
    return (
        all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)
        and set(one.vectors) == set(other.vectors)
        and one.rng.bit_generator.state == other.rng.bit_generator.state
        and (one.epoch, one.step, one.best_epoch) == (other.epoch, other.step, other.best_epoch)
        and histories[0] == histories[1]
    )


@IN_PLACE
@given(networks(), st.integers(0, 99), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_what_is_loaded_is_what_was_saved(
    tmp_path: Path, network: Network, seed: int, dtype: type, with_run: bool
) -> None:
    rng = np.random.default_rng(seed)
    params = random_params(network, rng, 0.8, dtype)
    run = _run(network, rng, dtype) if with_run else None
    save(tmp_path / "deep" / "net", params, run, "settings 'with' \"quotes\" \u00df")
    loaded, again, text = load(str(tmp_path / "deep" / "net"))
    assert loaded.network == network
    assert loaded.theta.dtype == dtype
    np.testing.assert_array_equal(loaded.theta, params.theta)
    assert text == "settings 'with' \"quotes\" \u00df"
    assert (again is None) == (run is None)
    assert run is None or same_run(run, again)


def _data() -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=50)
    return rng.standard_normal((50, 4)) + np.eye(4)[y], y


def _backend(network: Network = NETWORK, seed: int = 0, dtype: type = np.float32) -> NumbaBackend:
    return NumbaBackend(network, initial_params(network, np.random.default_rng(seed), dtype))


RUNS = {
    "adam": (NETWORK, Training(epochs=5, batch_size=16, cap=SpectralCap(0.4, every=3))),
    "sgd": (
        NETWORK,
        Training(
            epochs=5,
            batch_size=16,
            optimizer=SGD(0.1, 0.9),
            cap=SpectralCap(0.4, method="power"),
            beta=0.02,
            frozen=("b",),
        ),
    ),
    "anderson": (
        layered((4, 6, 5, 3)),
        Training(epochs=5, estimator="one_sided", free=Relaxation(20, 1e-5, "anderson"), cap=None),
    ),
    "patience": (NETWORK, Training(epochs=5, patience=5, schedule="constant")),
}


def _stop_after(epochs: int):  # type: ignore[no-untyped-def]
    def on_epoch(epoch: Epoch) -> None:
        if epoch.number == epochs:
            raise KeyboardInterrupt

    return {"on_epoch": on_epoch}


def _stop_within(steps: int):  # type: ignore[no-untyped-def]
    count = iter(range(steps))

    def step(*arguments):  # type: ignore[no-untyped-def]
        if next(count, None) is None:
            raise KeyboardInterrupt
        return train_step(*arguments)

    return {"step": step}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("stop", [_stop_after(1), _stop_after(3), _stop_within(7), _stop_within(1)])
def test_a_resumed_run_is_bit_for_bit_the_uninterrupted_one(
    name: str, stop: dict, tmp_path: Path
) -> None:
    (network, training), whole, halved = RUNS[name], tmp_path / "whole", tmp_path / "halved"
    validation = _data() if training.patience else None
    straight = _backend(network)
    expected = fit(straight, *_data(), training, validation, whole)
    with pytest.raises(KeyboardInterrupt):
        fit(_backend(network), *_data(), training, validation, halved, **stop)
    resumed = _backend(network, seed=0 if not halved.exists() else 9)
    history = fit(resumed, *_data(), training, validation, halved, resume=True)
    np.testing.assert_array_equal(resumed.params.theta, straight.params.theta)
    assert [epoch.cost for epoch in history] == [epoch.cost for epoch in expected]
    (params, run, text), (other, other_run, other_text) = load(whole), load(halved)
    np.testing.assert_array_equal(params.theta, other.theta)
    assert text == other_text
    assert same_run(run, other_run)


def test_an_interrupt_leaves_the_last_complete_epoch_and_nothing_else(tmp_path: Path) -> None:
    path, thetas = tmp_path / "run.npz", []
    backend, training = _backend(), Training(epochs=5, batch_size=16)
    with pytest.raises(KeyboardInterrupt):
        fit(
            backend,
            *_data(),
            training,
            None,
            path,
            on_epoch=lambda _: thetas.append(backend.params.theta.copy()),
            **_stop_within(11),
        )
    assert (backend.params.theta != thetas[-1]).any()
    params, run, _ = load(path)
    np.testing.assert_array_equal(params.theta, thetas[1])
    assert (run.epoch, run.step, len(run.history)) == (2, 8, 2)
    assert os.listdir(tmp_path) == ["run.npz"]


def test_an_interrupt_while_saving_leaves_the_file_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.npz"
    save(path, _backend().params)
    before = path.read_bytes()

    def half(file, **arrays: object) -> None:  # type: ignore[no-untyped-def]
        file.write(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(KeyboardInterrupt):
        save(path, _backend(seed=1).params)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]


def test_resuming_where_nothing_was_saved_starts_afresh(tmp_path: Path) -> None:
    backend, fresh = _backend(), _backend()
    fit(backend, *_data(), Training(epochs=2), checkpoint=tmp_path / "run", resume=True)
    fit(fresh, *_data(), Training(epochs=2))
    np.testing.assert_array_equal(backend.params.theta, fresh.params.theta)


def test_a_finished_run_is_not_trained_further(tmp_path: Path) -> None:
    training = Training(epochs=2)
    done = _backend()
    fit(done, *_data(), training, checkpoint=tmp_path / "run")
    again, seen = _backend(seed=5), []
    history = fit(
        again, *_data(), training, None, tmp_path / "run", resume=True, on_epoch=seen.append
    )
    assert len(history) == 2
    assert not seen
    np.testing.assert_array_equal(again.params.theta, done.params.theta)


def test_a_run_with_other_settings_network_or_no_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(_backend(), *_data(), Training(epochs=2), checkpoint=path)
    backend = _backend(seed=7)
    before = backend.params.theta.copy()
    for other in (Training(epochs=3), Training(epochs=2, optimizer=SGD()), Training(2, seed=1)):
        with pytest.raises(CheckpointError, match="is from a training with other settings"):
            fit(backend, *_data(), other, checkpoint=path, resume=True)
    wider = _backend(looped_mlp(4, 7, 3))
    with pytest.raises(EngineError, match="another network"):
        fit(wider, *_data(), Training(epochs=2), checkpoint=path, resume=True)
    save(path, Params(NETWORK, before))
    with pytest.raises(CheckpointError, match="is from a training with other settings"):
        fit(backend, *_data(), Training(epochs=2), checkpoint=path, resume=True)
    np.testing.assert_array_equal(backend.params.theta, before)


def test_a_run_on_other_data_or_with_another_decay_is_refused(tmp_path: Path) -> None:
    """Long arrays that differ in one place in their middle look alike when they are printed."""
    path, (x, y) = tmp_path / "run", _data()
    network = looped_mlp(4, 60, 3)
    decay = np.zeros((60, 60), np.float32)
    training = Training(epochs=2, decay={"W_rec": decay})
    fit(_backend(network), x, y, training, checkpoint=path)
    other_decay, other_x, other_y = decay.copy(), x.copy(), y.copy()
    other_decay[30, 30], other_x[len(x) // 2, 1], other_y[7] = 0.5, 9.0, (y[7] + 1) % 3
    assert repr(other_decay) == repr(decay)
    backend = _backend(network, seed=7)
    before = backend.params.theta.copy()
    changed = Training(epochs=2, decay={"W_rec": other_decay})
    with pytest.raises(CheckpointError, match="other settings"):
        fit(backend, x, y, changed, checkpoint=path, resume=True)
    for data in ((other_x, y), (x, other_y), (x[:-1], y[:-1])):
        with pytest.raises(CheckpointError, match="on other data"):
            fit(backend, *data, training, checkpoint=path, resume=True)
    with pytest.raises(CheckpointError, match="on other data"):
        fit(backend, x, y, training, (x, y), path, resume=True)
    double = NumbaBackend(network, initial_params(network, np.random.default_rng(0), np.float64))
    with pytest.raises(CheckpointError, match=r"other data|in float32"):
        fit(double, x, y, training, checkpoint=path, resume=True)
    np.testing.assert_array_equal(backend.params.theta, before)
    fit(backend, x.tolist(), y.tolist(), training, checkpoint=path, resume=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_could_not_be_loaded_is_not_saved(value: float, tmp_path: Path) -> None:
    params, path = initial_params(NETWORK, np.random.default_rng(0)), tmp_path / "run"
    run = _run(NETWORK, np.random.default_rng(0), np.float32)
    for spoiled in (run.memory, run.best_theta, next(iter(run.vectors.values())), params.theta):
        before = spoiled.flat[0]
        spoiled.flat[0] = value
        with pytest.raises(EngineError, match="not finite"):
            save(path, params, run)
        spoiled.flat[0] = before
    assert not any(tmp_path.iterdir())
    save(path, params, run)


def test_a_place_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "file" / "run", tmp_path / "folder", "", "a\0b", "/proc/none/run"):
        backend, seen = _backend(), []
        before = backend.params.theta.copy()
        with pytest.raises(CheckpointError):
            fit(backend, *_data(), Training(2), checkpoint=place, on_epoch=seen.append)
        np.testing.assert_array_equal(backend.params.theta, before)
        assert not seen


def test_an_archive_that_unpacks_to_far_more_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    with path.open("wb") as file:
        np.savez_compressed(file, theta=np.zeros(30_000_000, np.uint8))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="unpacks to"):
        load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@dataclass(frozen=True)
class Shaped:
    """A coupling with a field called `kind` and with tuples inside tuples."""

    name: str
    layer: str
    kind: str = "mine"
    ways: tuple[tuple[int, ...], ...] = ((1, 2), (), (3,))
    clamped: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.layer,)

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        return shapes[self.layer]

    initial = Bias.initial
    potential = Bias.potential
    drive = Bias.drive
    correlate = Bias.correlate


def _shaped_network(coupling: object) -> Network:
    return Network(2, (Layer("a", (3,)),), (coupling,), SquaredError("a"))


def test_fields_come_back_as_they_were_whatever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = _shaped_network(Shaped("odd", "a"))
    params = Params(network, np.zeros(network.size))
    with pytest.raises(CheckpointError, match="cannot hold a Shaped"):
        save(tmp_path / "net", params)
    monkeypatch.setitem(checkpoint._KINDS, "Shaped", Shaped)
    save(tmp_path / "net", params)
    loaded, _, _ = load(tmp_path / "net")
    assert loaded.network == network
    assert hash(loaded.network) == hash(network)


def test_a_stranger_with_a_known_name_is_not_saved_as_what_it_is_called(tmp_path: Path) -> None:
    stranger = type("Bias", (Bias,), {"drive": lambda self, w, x, *states: (2 * w + 0 * x[:, :1],)})
    network = _shaped_network(stranger("b", "a"))
    with pytest.raises(CheckpointError, match="cannot hold a Bias"):
        save(tmp_path / "net", Params(network, np.zeros(network.size)))
    assert not any(tmp_path.iterdir())
