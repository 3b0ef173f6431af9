"""What `fit` tells of its progress, and that it prints nothing."""

import io
from pathlib import Path

import numpy as np
import pytest

from engine import EngineError, NumbaBackend, Training, fit, initial_params, looped_mlp

NETWORK = looped_mlp(inputs=4, hidden=6, outputs=3)
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(20, 4)), RNG.integers(3, size=20)
TRAINING = Training(epochs=3, batch_size=8)
BATCHES = 3 * TRAINING.epochs


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _backend() -> NumbaBackend:
    return NumbaBackend(NETWORK, initial_params(NETWORK, np.random.default_rng(1)))


def test_every_batch_is_told_once_and_in_order() -> None:
    told: list[tuple[int, int, str]] = []
    history = fit(_backend(), X, Y, TRAINING, progress=lambda *now: told.append(now))
    assert [(done, total) for done, total, _ in told] == [
        (done, BATCHES) for done in range(1, BATCHES + 1)
    ]
    notes = [note for _, _, note in told]
    assert notes == [""] * 3 + [epoch.summary() for epoch in history[:-1] for _ in range(3)]


def test_who_watches_changes_nothing() -> None:
    alone, watched = _backend(), _backend()
    fit(alone, X, Y, TRAINING)
    fit(watched, X, Y, TRAINING, progress=lambda *_: None)
    np.testing.assert_array_equal(alone.params.theta, watched.params.theta)


def test_a_resumed_training_is_told_from_where_it_goes_on(tmp_path: Path) -> None:
    def stop(done: int, total: int, note: str) -> None:
        if done == 5:
            raise KeyboardInterrupt

    told: list[int] = []
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        fit(_backend(), X, Y, TRAINING, checkpoint=path, progress=stop)
    fit(
        _backend(),
        X,
        Y,
        TRAINING,
        checkpoint=path,
        resume=True,
        progress=lambda done, total, note: told.append(done),
    )
    assert told == list(range(4, BATCHES + 1))


def test_a_terminal_sees_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", streams[0])
    monkeypatch.setattr("sys.stderr", streams[1])
    fit(_backend(), X, Y, TRAINING)
    assert [stream.getvalue() for stream in streams] == ["", ""]


def test_progress_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(EngineError, match="fit: progress is True, expected a function or None"):
        fit(_backend(), X, Y, TRAINING, progress=True)  # type: ignore[arg-type]
