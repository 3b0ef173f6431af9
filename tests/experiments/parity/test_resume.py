import pytest

from experiments.parity import command, contestants
from experiments.parity.__main__ import main
from experiments.parity.contestants import run_job
from tests.experiments.parity.parity_cases import timeless, write_csv

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
        return main([*options, "--seeds", "1", "--no-controls", "--workers", "1", *given])

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
    monkeypatch.setattr(contestants, "run_job", calls.run)
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
