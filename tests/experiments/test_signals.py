"""What a signal leaves behind: one line, no process, whole files, and a command that goes on."""

import os
import signal
from pathlib import Path

import pytest

from experiments.parity import command
from experiments.parity.__main__ import main
from experiments.records import load_record
from tests.experiments.parity.parity_cases import write_csv
from tests.experiments.processes import family_of, is_gone, start, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it looks at /proc")
CONTESTANTS = 4


@pytest.fixture
def started():
    """Start commands; whatever is left of them in the end is killed."""
    processes = []

    def begin(module, *given):
        processes.append(start(module, *given))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        for pid in family_of(process):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def endless(started, tmp_path):
    """A command with one finished job and two workers in the middle of others."""
    process = started("tests.experiments.pool_command", tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("*.note"))) == 2, process)
    wait_until((tmp_path / "0.result").exists, process)
    return process


def workers(folder):
    return [int(note.stem) for note in folder.glob("*.note")]


def test_sigterm_is_one_line_and_ends_the_workers(endless):
    endless.terminate()
    printed, errors = endless.communicate(timeout=20)
    assert (endless.returncode, printed, errors) == (143, "Stopped. Results are kept.\n", "")
    assert is_gone(endless)


@pytest.mark.parametrize(
    ("number", "times", "code"),
    [(signal.SIGTERM, 2, 143), (signal.SIGINT, 1, 130)],  # as `timeout` and a terminal do
)
def test_a_signal_for_the_whole_group_ends_in_the_same_way(number, times, code, endless):
    for _ in range(times):
        os.killpg(endless.pid, number)
    printed, errors = endless.communicate(timeout=20)
    assert (endless.returncode, printed, errors) == (code, "Stopped. Results are kept.\n", "")
    assert is_gone(endless)


def test_workers_notice_that_their_parent_was_killed(endless, tmp_path):
    assert set(workers(tmp_path)) < set(family_of(endless))
    endless.kill()
    endless.wait()
    assert is_gone(endless)


def test_a_worker_that_dies_is_one_sentence(endless, tmp_path):
    os.kill(workers(tmp_path)[0], signal.SIGKILL)
    printed, errors = endless.communicate(timeout=20)
    assert (endless.returncode, errors) == (2, "")
    assert printed == (
        "Error: a worker process died (SIGKILL), often for want of memory: try fewer --workers. "
        "Results are kept.\n"
    )
    assert is_gone(endless)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_training_that_was_ended_goes_on(number, started, tmp_path, monkeypatch, capsys):
    data, out = write_csv(tmp_path / "points.csv"), tmp_path / "out"
    given = ["--data", data, "--out", out, "--epochs", "30", "--no-controls"]
    process = started("experiments.parity", *given, "--seeds", "200", "--workers", "2")
    wait_until(lambda: list(out.glob("runs/*-42.json")), process)
    wait_until(lambda: len(list(out.glob("live/*.json"))) == 2, process)
    torn = out / "runs" / f"points.csv-eqprop_looped-50.json.{process.pid}.part"
    torn.write_text("{")  # what a kill in the middle of a write leaves
    process.send_signal(number)
    printed, errors = process.communicate(timeout=20)
    if number == signal.SIGTERM:
        line = "Stopped. Finished runs are kept; the same command goes on from here.\n"
        assert (process.returncode, printed) == (143, line)
        about, *told = errors.splitlines()
        assert about.startswith("points.csv: 80 samples")
        assert all(line.endswith(" is done") for line in told)
        assert not (out / "live").exists()
    assert is_gone(process)
    kept = {path: path.read_bytes() for path in out.glob("runs/*.json")}
    first = [path for path in kept if path.stem.endswith("-42")]
    monkeypatch.setattr(command, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)
    assert main([*map(str, given), "--seeds", "1", "--workers", "1"]) == 0
    assert f"{len(first)} of {CONTESTANTS} runs were done before" in capsys.readouterr().out
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert all(load_record(path) is not None for path in out.glob("runs/*.json"))
    assert list(out.rglob("*.part")) == []
