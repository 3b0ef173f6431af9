"""The contestant that is a circuit: it runs where it is asked for, and is compared like others."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from experiments.contest.summary import summarise
from experiments.parity.__main__ import main
from experiments.parity.circuits import (
    CHOSEN,
    GOALS,
    CircuitJob,
    CircuitSettings,
    circuit_job,
    circuits_table,
)
from experiments.parity.contestants import run_job
from experiments.parity.roster import CIRCUIT, PARITY
from experiments.tasks import TASKS, Task
from experiments.tasks.files import load_table
from tests.experiments.parity.parity_cases import CLASSES, INPUTS, make_job, make_table, write_csv

TINY = Task("tiny", "Tiny", INPUTS, CLASSES, partial(load_table, make_table(400)))


@pytest.fixture(scope="module")
def record():
    settings = CircuitSettings((16,), epochs=30, batch_size=8)
    points = []
    found = CircuitJob(TINY, 42, settings).run(points.append)
    assert tuple(points) == found.curve
    return found


def test_it_learns_and_reports_its_sweeps(record):
    assert record.accuracy > record.majority_rate + 0.25
    assert record.accuracy == record.curve[-1].accuracy
    assert record.curve[-1].cost < record.curve[0].cost
    assert record.parameters == 2 * INPUTS * 16 + 16 * CLASSES + 16 + CLASSES
    assert all(1.0 <= point.free_steps < 10.0 for point in record.curve)
    assert record.settings == json.loads(json.dumps(record.settings))


def test_the_same_seed_gives_the_same_run_and_other_epochs_another():
    job = circuit_job(TINY, 3, 1)
    assert job.settings == replace(CircuitSettings(), epochs=1)
    assert job.key == "tiny-eqprop_circuit-3"
    assert job.run().accuracy == job.run().accuracy
    assert CHOSEN.keys() <= TASKS.keys()
    assert GOALS.keys() <= CHOSEN.keys()


def test_the_table_compares_it_with_the_baseline_seed_by_seed(record):
    baseline = run_job(make_job("backprop_feedforward", load=TINY.load))
    pairs = [(0.97, 0.98), (0.95, 0.97), (0.96, 0.975)]
    records = [
        replace(one, task="mnist", title="MNIST", seed=seed, accuracy=accuracy, n_test=10_000)
        for seed, accuracies in enumerate(pairs, start=42)
        for one, accuracy in zip((record, baseline), accuracies, strict=True)
    ]
    summary = summarise(PARITY, records, {"mnist": "backprop_feedforward"})
    assert not any(CIRCUIT in sentence for sentence in summary.missing)
    table = circuits_table(summary)
    ((title, nodes, count, accuracy, goal, reached, best, gap, verdict),) = table.rows
    assert (title, nodes, count) == ("MNIST", "16", f"{record.parameters:,}")
    assert (accuracy, goal, reached.text) == ("96.00 ± 1.00", "at least 98.00", "missed")
    assert best == "97.50 ± 0.50\n(MLP)"
    assert gap.startswith("\N{MINUS SIGN}1.50\n(")
    gaps = np.array([-0.01, -0.02, -0.015])
    half = 4.302653 * gaps.std(ddof=1) / np.sqrt(3)  # Student's t with two degrees of freedom
    assert summary.tasks[0].judgements[CIRCUIT].comparison.interval == pytest.approx(
        (-0.015 - half, -0.015 + half)
    )
    assert verdict.text.startswith("undecided") or verdict.text.startswith("worse")


def test_nobody_misses_it_where_it_was_not_asked_for(record):
    summary = summarise(PARITY, [run_job(make_job("eqprop_looped"))], {})
    assert circuits_table(summary) is None
    assert not any(PARITY.titles[CIRCUIT] in sentence for sentence in summary.missing)
    both = summarise(
        PARITY, [run_job(make_job("eqprop_looped")), replace(record, task="other")], {}
    )
    assert "Tiny: no run of" in " ".join(both.missing)


def test_the_command_prints_its_row(tmp_path, capsys):
    data = write_csv(tmp_path / "points.csv")
    given = ["--data", str(data), "--seeds", "2", "--epochs", "2", "--no-controls", "--circuits"]
    given += ["--workers", "1", "--out", str(tmp_path / "out")]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert "EqProp on circuits of resistors and diodes" in printed
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    runs = [run for run in results["runs"] if run["contestant"] == CIRCUIT]
    assert [run["seed"] for run in runs] == [42, 43]
    assert all(len(run["settings"]["data"]) == 64 for run in runs)
    assert "EqProp on circuits" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert main(given) == 0
    assert "10 of 10 runs were done before" in capsys.readouterr().out
