"""What a signal leaves behind: one line, no process, whole files, and a command that goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import experiments.parity.__main__ as parity
from experiments.records import load_record
from tests.experiments.parity_cases import write_csv

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and /proc are of POSIX")
ROOT = Path(parity.__file__).parents[2]
CONTESTANTS = 4
KEPT = "Finished runs are kept; the same command goes on from here.\n"
PATIENCE = 60.0
"""Seconds until workers have begun, on a machine that does other things too."""


def wait_until(happened, process=None, seconds=PATIENCE):
    """Return what `happened` returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        if process is not None and process.poll() is not None:
            pytest.fail(f"it ended by itself: {process.communicate()}")
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def session_of(process):
    """Return the living processes of a command: all that it started share its session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # gone in the meantime
        if int(session) == process.pid and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def workers_of(process):
    """Return the processes that train."""
    found = []
    for pid in session_of(process):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if pid != process.pid and b"resource_tracker" not in command:
            found.append(pid)
    return found


def start(*given):
    return subprocess.Popen(
        [sys.executable, *map(str, given)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


class Training:
    """A parity run of many small trainings, two at once."""

    def __init__(self, folder):
        self.data, self.out = write_csv(folder / "points.csv"), folder / "out"
        self.given = ["--data", self.data, "--out", self.out, "--epochs", "30", "--no-controls"]
        many = [*self.given, "--seeds", "200", "--workers", "2"]
        self.process = start("-m", "experiments.parity", *many)

    @property
    def runs(self):
        return sorted(self.out.glob("runs/*.json"))

    def wait_for_work(self):
        """Wait until a run is kept and both workers are in the middle of others."""
        wait_until(lambda: self.runs and len(list(self.out.glob("live/*.json"))) == 2, self.process)
        return workers_of(self.process)

    def goes_on(self, capsys):
        """Whether the same command finishes the first seed without repeating what was kept."""
        kept = {path: path.read_bytes() for path in self.runs}
        first = [path for path in kept if path.stem.endswith("-42")]
        again = [*self.given, "--seeds", "1", "--workers", "1"]
        assert parity.main(list(map(str, again))) == 0
        assert f"{len(first)} of {CONTESTANTS} runs were done before" in capsys.readouterr().out
        assert all(path.read_bytes() == content for path, content in kept.items())
        assert all(load_record(path) is not None for path in self.runs)
        return list(self.out.rglob("*.part")) == []


@pytest.fixture
def training(tmp_path):
    started = Training(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
    for pid in workers_of(started.process):
        os.kill(pid, signal.SIGKILL)
    started.process.communicate()


def gone(process, seconds=5.0):
    wait_until(lambda: not session_of(process), seconds=seconds)
    return True


def test_sigterm_ends_like_ctrl_c(training, capsys):
    assert len(training.wait_for_work()) == 2
    training.process.terminate()
    printed, errors = training.process.communicate(timeout=20)
    assert training.process.returncode == 143, errors
    assert (printed, errors) == (f"Stopped. {KEPT}", "")
    assert gone(training.process)
    assert training.goes_on(capsys)


def test_sigkill_leaves_no_worker(training, capsys):
    assert len(training.wait_for_work()) == 2
    torn = training.out / "runs" / f"x.json.{training.process.pid}.part"
    torn.write_text("{")  # what a kill in the middle of a write leaves
    training.process.kill()
    training.process.wait()
    assert gone(training.process)
    assert training.goes_on(capsys)


def test_a_worker_that_is_killed_is_one_sentence(training, capsys):
    victim = training.wait_for_work()[0]
    os.kill(victim, signal.SIGKILL)
    printed, errors = training.process.communicate(timeout=20)
    assert training.process.returncode == 2, errors
    assert printed.startswith("Error: a worker process died (SIGKILL)")
    assert printed.endswith(KEPT)
    assert printed.count("\n") == 1
    assert errors == ""
    assert gone(training.process)
    assert training.goes_on(capsys)
