import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import experiments.parity.__main__ as command
from experiments.parity import runner
from experiments.parity.contestants import run_job
from tests.experiments.parity_cases import timeless, write_csv

ROOT = Path(command.__file__).parents[2]
KEYS = {
    f"points.csv-{name}-42"
    for name in ("eqprop_looped", "eqprop_layered", "backprop_looped", "backprop_feedforward")
}


class Calls:
    """Calls of the command without its report: what they ran, and what they would report."""

    def __init__(self, folder):
        self.data, self.out = write_csv(folder / "points.csv"), folder / "out"
        self.ran, self.reported = [], []
        self.interrupt_after = None

    def __call__(self, *given, epochs=1):
        self.ran.clear()
        self.reported.clear()
        options = ["--data", str(self.data), "--out", str(self.out), "--epochs", str(epochs)]
        return command.main([*options, "--seeds", "1", "--no-controls", "--workers", "1", *given])

    def run(self, job, watch):
        if len(self.ran) == self.interrupt_after:
            raise KeyboardInterrupt
        self.ran.append(job.key)
        return run_job(job, watch)

    def report(self, records, *_, **__):
        self.reported += [timeless(record) for record in records]

    @property
    def files(self):
        return sorted((self.out / "runs").iterdir())


@pytest.fixture
def parity(tmp_path, monkeypatch):
    calls = Calls(tmp_path)
    monkeypatch.setattr(runner, "run_job", calls.run)
    monkeypatch.setattr(command, "write_report", calls.report)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)
    return calls


def test_only_fresh_repeats_what_is_done(parity):
    assert parity() == 0
    assert sorted(parity.ran) == sorted(KEYS)
    records = list(parity.reported)
    assert parity() == 0
    assert parity.ran == []
    assert parity.reported == records
    assert parity("--fresh") == 0
    assert sorted(parity.ran) == sorted(KEYS)
    assert parity.reported == records


def test_more_seeds_run_only_what_is_missing(parity):
    parity()
    assert parity("--seeds", "2") == 0
    assert {key[-3:] for key in parity.ran} == {"-43"}
    assert [record["seed"] for record in parity.reported] == [42] * 4 + [43] * 4


def test_another_number_of_epochs_runs_again(parity):
    parity(epochs=1)
    assert parity(epochs=2) == 0
    assert set(parity.ran) == KEYS
    assert {len(record["curve"]) for record in parity.reported} == {2}


def test_other_content_of_the_file_runs_again(parity):
    parity()
    records = list(parity.reported)
    write_csv(parity.data, seed=1)
    assert parity() == 0
    assert set(parity.ran) == KEYS
    assert parity.reported != records


@pytest.mark.parametrize("content", [b"", b'{"task": "points.csv"', b"\xff\x00", b"[]", b"{}"])
def test_a_corrupt_run_is_run_again(parity, content):
    parity()
    records, damaged = list(parity.reported), parity.files[1]
    damaged.write_bytes(content)
    assert parity() == 0
    assert parity.ran == [damaged.stem]
    assert parity.reported == records


def test_an_interrupted_call_is_completed_by_the_next_one(parity, capsys):
    parity.interrupt_after = 2
    assert parity() == 130
    assert capsys.readouterr().out == (
        "Stopped. Finished runs are kept; the same command goes on from here.\n"
    )
    kept = list(parity.ran)
    assert [path.stem for path in parity.files] == sorted(kept)
    assert parity.reported == []
    parity.interrupt_after = None
    assert parity() == 0
    assert len(kept) == 2
    assert set(parity.ran) == KEYS - set(kept)
    resumed = list(parity.reported)
    parity("--fresh")
    assert parity.reported == resumed


@pytest.mark.skipif(os.name != "posix", reason="there is no signal for a group of processes")
def test_ctrl_c_ends_the_workers_and_keeps_their_runs(tmp_path):
    data, out = write_csv(tmp_path / "points.csv"), tmp_path / "out"
    given = ["--data", data, "--out", out, "--epochs", "30", "--seeds", "50", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.parity", *map(str, given)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as a terminal gives a command
    )
    try:
        deadline = time.monotonic() + 120
        while not list(out.glob("runs/*.json")):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=60)  # until the last worker is gone
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert printed.endswith("the same command goes on from here.\n")
    assert "Traceback" not in errors
    assert list(out.rglob("*.part")) == []
    assert 1 <= len(list(out.glob("runs/*.json"))) < 400
