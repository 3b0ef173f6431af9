import gc
import io
import json
import sys
import time

import pytest
from rich.console import Console

from experiments import progress
from experiments.contest import jobs as contest_jobs
from experiments.contest import live_table
from experiments.contest.jobs import run_jobs
from experiments.contest.live_table import LiveTable
from experiments.parity import command, contestants
from experiments.parity.__main__ import main
from experiments.parity.contestants import run_job
from experiments.pool import PoolError
from experiments.records import load_record
from tests.experiments.parity.parity_cases import make_job, timeless, write_csv

NAMES = ("eqprop_looped", "eqprop_layered", "backprop_looped", "backprop_feedforward")


@pytest.fixture
def jobs():
    return [make_job(name, seed) for seed in (42, 43) for name in NAMES]


@pytest.fixture
def elsewhere(monkeypatch):
    """Make sure that a run is done by a worker and not in this process."""

    def refuse(*_):
        raise AssertionError("run in the process of the test")

    monkeypatch.setattr(contestants, "run_job", refuse)


def collect(pairs):
    return {job.key: timeless(record) for job, record in pairs}


@pytest.fixture
def expected(jobs):
    return {job.key: timeless(run_job(job)) for job in jobs}


def test_one_worker_gives_every_job_its_record(jobs, expected, tmp_path):
    assert collect(run_jobs(jobs, tmp_path, 1, None)) == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("elsewhere")
def test_two_workers_give_the_records_of_one(jobs, expected, tmp_path):
    assert collect(run_jobs(jobs, tmp_path, 2, None)) == expected
    assert list(tmp_path.iterdir()) == []


def test_results_come_one_by_one(jobs, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(contestants, "run_job", lambda job, watch: done.append(job.key))
    results = run_jobs(jobs, tmp_path, 1, None)
    next(results)
    assert len(done) < len(jobs)
    assert len(list(results)) == len(jobs) - 1


def test_a_run_notes_its_progress_until_it_is_done(tmp_path, monkeypatch):
    job, notes = make_job("eqprop_looped"), []
    write = contest_jobs.write_text

    def spy(path, text):
        write(path, text)
        notes.append((path, json.loads(path.read_text(encoding="utf-8"))))

    monkeypatch.setattr(contest_jobs, "write_text", spy)
    ((_, record),) = run_jobs([job], tmp_path / "live", 1, None)
    path = tmp_path / "live" / f"{job.key}.json"
    assert notes == [
        (path, {"epoch": point.epoch, "accuracy": point.accuracy, "of": 2})
        for point in record.curve
    ]
    assert not path.exists()


def test_a_worker_that_cannot_note_its_progress_works_all_the_same(tmp_path):
    (tmp_path / "live").write_text("not a folder")
    job = make_job("readout_only")
    ((_, record),) = run_jobs([job], tmp_path / "live", 1, None)
    assert timeless(record) == timeless(run_job(job))


@pytest.fixture
def without_report(monkeypatch):
    monkeypatch.setattr(command, "write_report", lambda *_, **__: None)
    monkeypatch.setattr(command, "print_summary", lambda *_: None)


@pytest.mark.usefixtures("elsewhere", "without_report")
def test_a_cluster_of_two_workers_gives_the_records_of_one_machine(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    data = write_csv(tmp_path / "points.csv")
    call = ["--data", str(data), "--epochs", "1", "--seeds", "2", "--no-controls"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tcp://")
        assert main([*call, "--scheduler", address, "--out", str(tmp_path / "far")]) == 0
    monkeypatch.setattr(contestants, "run_job", run_job)
    assert main([*call, "--workers", "1", "--out", str(tmp_path / "near")]) == 0
    far, near = (sorted((tmp_path / name / "runs").iterdir()) for name in ("far", "near"))
    assert len(far) == 8
    assert [path.name for path in far] == [path.name for path in near]
    for first, second in zip(far, near, strict=True):
        assert timeless(load_record(first)) == timeless(load_record(second))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://host:port"])
def test_a_scheduler_that_does_not_answer_is_one_sentence(address, tmp_path, monkeypatch, capsys):
    distributed = pytest.importorskip("distributed")
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda where, timeout: client(where, timeout="1s"))
    data = write_csv(tmp_path / "points.csv")
    out = tmp_path / "out"
    given = ["--data", str(data), "--scheduler", address, "--out", str(out)]
    assert main(given) == 2
    gc.collect()  # Dask blocks if a client that failed is collected while the next one starts
    printed = capsys.readouterr().out
    assert printed.startswith(f"Error: no Dask scheduler answers at {address} (")
    assert printed.endswith(").\n")
    assert printed.count("\n") == 1
    assert not out.exists()


def test_a_scheduler_without_dask_names_the_extra(jobs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PoolError, match=r"pip install \"settle\[cluster\]\""):
        next(run_jobs(jobs, tmp_path, 1, "tcp://127.0.0.1:8786"))


def show(console, live, finished):
    table = LiveTable(console, live, total=8, done=3)
    with table.shown() as count:
        for _ in range(finished):
            count(make_job("eqprop_looped"))
    return console.file.getvalue()


def test_the_live_table_shows_what_runs_and_what_is_left(tmp_path):
    note = {"epoch": 7, "of": 30, "accuracy": 0.8125}
    (tmp_path / "digits-eqprop_looped-43.json").write_text(json.dumps(note))
    (tmp_path / "digits-half-written.json").write_text('{"epoch"')
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    shown = show(console, tmp_path, finished=2)
    for text in ("5 of 8 runs done, about", "min left", "digits-eqprop_looped-43", "7 of 30"):
        assert text in shown
    assert "81.25%" in shown
    assert "half-written" not in shown


def test_nothing_is_estimated_before_a_run_is_done(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    shown = show(console, tmp_path, finished=0)
    assert "3 of 8 runs done" in shown
    assert "left" not in shown


def test_without_a_terminal_a_line_now_and_then_says_how_far_runs_are(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(live_table, "POLL_SECONDS", 0.01)
    note = {"epoch": 7, "of": 30, "accuracy": 0.8125}
    (tmp_path / "digits-eqprop_looped-43.json").write_text(json.dumps(note))
    table = LiveTable(Console(file=io.StringIO(), force_terminal=False), tmp_path, 8, 3)
    with table.shown():
        time.sleep(0.2)
    line = "runs: 3 of 8, digits-eqprop_looped-43 epoch 7 of 30, 81.25%\n"
    assert capsys.readouterr().err.startswith(line)


def test_without_a_terminal_every_finished_run_is_a_line_on_stderr(tmp_path, capsys):
    assert show(Console(file=io.StringIO(), force_terminal=False), tmp_path, finished=2) == ""
    key = make_job("eqprop_looped").key
    lines = [f"runs: {count} of 8, {key} is done\n" for count in (4, 5)]
    assert capsys.readouterr().err == "".join(lines)
