"""Progress of a command: bars on a terminal, elsewhere a line for what is finished."""

import io
from functools import partial
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import numpy as np
import pytest
from rich.console import Console

from engine import NumbaBackend, Training, fit, initial_params, looped_mlp
from experiments import progress
from experiments.progress import progress_bars, repeating


def make_console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, markup=False)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_a_bar_for_each_title():
    console = make_console(terminal=True)
    with progress_bars(console) as show:
        show("first", 1, 4, "a [note]")
        show("second", 0, None, "no end in sight")
        show("first", 3, 4, "another [note]")
    drawn = console.file.getvalue()
    for text in ("first", "3/4", "another [note]", "second", "0/?", "no end in sight"):
        assert text in drawn


def test_elsewhere_a_thousand_small_steps_are_silent():
    console = make_console(terminal=False)
    with progress_bars(console) as show:
        for done in range(50):
            show("batches", done, 5000, "")
    assert console.file.getvalue() == ""


def test_elsewhere_every_finished_run_gets_its_line_at_once():
    console = make_console(terminal=False)
    with progress_bars(console) as show:
        for done, note in (
            (0, ""),
            (0, "a runs"),
            (1, "a is done"),
            (1, "b runs"),
            (2, "b is done"),
        ):
            show("runs", done, 2, note)
    lines = console.file.getvalue().splitlines()
    assert lines == ["runs: 1 of 2, a is done", "runs: 2 of 2, b is done"]


def test_bars_are_drawn_by_commands_and_never_by_what_runs_in_a_worker():
    room = Path(progress.__file__).parent
    users = {
        path.relative_to(room).as_posix()
        for path in room.rglob("*.py")
        if "progress_bars()" in path.read_text(encoding="utf-8")
    }
    apart = {"contest/live_table.py", "addition/train.py"}
    apart |= {"circuit/train.py", "circuit/spread.py"}  # the work of commands, in their own process
    assert {path for path in users - apart if not path.endswith("command.py")} == set()


def test_elsewhere_long_work_gets_a_line_now_and_then(clock):
    console = make_console(terminal=False)
    with progress_bars(console) as show:
        for done in range(1, 6):
            clock[0] += progress.LINE_SECONDS / 2
            show("runs", 1000 * done, 5000, f"note {done}")
            show("other", 0, None, "")
    lines = console.file.getvalue().splitlines()
    runs = [line for line in lines if line.startswith("runs")]
    assert runs == ["runs: 2,000 of 5,000, note 2", "runs: 4,000 of 5,000, note 4"]
    assert len(lines) == 2 * len(runs)


def test_progress_goes_to_stderr(clock, capsys):
    with progress_bars() as show:
        clock[0] += progress.LINE_SECONDS
        show("runs", 1, 2, "")
    assert capsys.readouterr() == ("", "runs: 1 of 2\n")


def test_a_training_draws_its_bar():
    network = looped_mlp(inputs=2, hidden=3, outputs=2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    console = make_console(terminal=True)
    with progress_bars(console) as show:
        x, y = np.eye(2)[[0, 1, 0]], [0, 1, 0]
        training = Training(epochs=5, batch_size=2)
        fit(backend, x, y, training, progress=partial(show, "training"))
    assert "10/10" in console.file.getvalue()
    assert "cost 0." in console.file.getvalue()


def test_what_is_repeated_ends_with_the_work():
    called, threads = Event(), set(enumerate_threads())

    def work():
        with repeating(called.set, 0.001):
            assert called.wait(10.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert set(enumerate_threads()) <= threads
