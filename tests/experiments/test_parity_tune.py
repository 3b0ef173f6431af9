import json
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest

import experiments.parity.__main__ as command
from experiments.parity import contestants, runner, tune
from experiments.parity.contestants import run_job
from experiments.parity.runs import BASELINES, CONTESTANTS, CONTROLS
from experiments.parity.settings import (
    BEST_BASELINE,
    BUDGETS,
    CHOSEN,
    USER_BUDGET,
    Settings,
    settings_for,
)
from experiments.parity.tune import GRIDS, SEEDS, best_baselines, choose, tuning_jobs
from experiments.tasks import TASKS
from tests.experiments.parity_cases import QUICK, make_job, write_csv
from tests.experiments.parity_records import make_record

RATES = GRIDS["backprop_looped"]["lr"]


def by_contestant(jobs):
    groups = defaultdict(list)
    for job in jobs:
        groups[job.contestant].append(job)
    return groups


every_task = pytest.mark.parametrize("task", list(TASKS.values()), ids=list(TASKS))


@every_task
def test_the_grids_are_covered_for_backprop_as_for_eqprop(task):
    groups = by_contestant(tuning_jobs([task]))
    assert groups.keys() == set(CONTESTANTS)
    seeds = {job.seed for jobs in groups.values() for job in jobs}
    rates = {job.settings.lr for jobs in groups.values() for job in jobs}
    assert len(rates) > 1
    for name, jobs in groups.items():
        tried = {field: {getattr(job.settings, field) for job in jobs} for field in GRIDS[name]}
        assert tried["lr"] == rates <= set(GRIDS[name]["lr"])
        assert tried.get("activation", set()) == set(GRIDS[name].get("activation", ()))
        points = {tuple(getattr(job.settings, field) for field in tried) for job in jobs}
        assert points == set(product(*tried.values()))
        assert {job.seed for job in jobs} == seeds
        assert len(jobs) == len(points) * len(seeds)


@every_task
def test_tuning_has_seeds_of_its_own_and_keeps_off_the_test_part(task):
    jobs = tuning_jobs([task])
    assert {job.seed for job in jobs} <= set(SEEDS)
    assert max(SEEDS) < command.FIRST_SEED  # reported seeds count upwards from there
    assert not any(job.final for job in jobs)
    assert len({job.key for job in jobs}) == len(jobs)


@every_task
def test_a_grid_changes_nothing_but_its_own_values(task):
    budget = BUDGETS[task.name].as_dict()
    for job in tuning_jobs([task]):
        settings = job.settings.as_dict()
        changed = {name for name in budget if settings[name] != budget[name]}
        assert changed <= {"epochs", *GRIDS[job.contestant]}
        assert settings["epochs"] <= budget["epochs"]
    assert len({job.settings.epochs for job in tuning_jobs([task])}) == 1


@every_task
def test_settings_are_a_point_of_the_grid_or_the_budget(task):
    budget, chosen = BUDGETS[task.name], CHOSEN.get(task.name, {})
    assert chosen.keys() in (GRIDS.keys(), set())
    for name in CONTESTANTS:
        point = chosen.get(name, {})
        assert point.keys() == (GRIDS[name].keys() if chosen else set())
        assert all(value in GRIDS[name][field] for field, value in point.items())
        assert settings_for(task.name, name) == replace(budget, **point)
    for name in CONTROLS:
        assert settings_for(task.name, name) == settings_for(task.name, "eqprop_looped")


def test_the_best_baseline_is_known_where_the_settings_were_chosen():
    assert BEST_BASELINE.keys() == CHOSEN.keys() <= TASKS.keys()
    assert set(BEST_BASELINE.values()) <= set(BASELINES)


def test_a_users_task_has_one_budget_for_all():
    assert {settings_for("points.csv", name) for name in CONTESTANTS + CONTROLS} == {USER_BUDGET}


def results(task, name, *points):
    """Pair the first points of a grid with invented results `(accuracy, cost)` for each seed."""
    pairs = []
    jobs = [job for job in tuning_jobs([task]) if job.contestant == name]
    labels = list(dict.fromkeys(job.label for job in jobs))
    for label, outcomes in zip(labels, points, strict=False):
        for job, (accuracy, cost) in zip(
            [job for job in jobs if job.label == label], outcomes, strict=True
        ):
            record = make_record(task.name, name, job.seed, accuracy)
            pairs.append((job, replace(record, cost=cost)))
    return pairs


DIGITS = TASKS["digits"]


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([[(0.9, 0.5), (0.9, 0.5)], [(0.91, 0.9), (0.91, 0.9)]], 1),  # accuracy before cost
        ([[(0.9, 0.5), (0.9, 0.5)], [(0.9, 0.4), (0.9, 0.4)]], 1),  # cost between equals
        ([[(0.9, 0.4), (0.9, 0.4)], [(0.9, 0.5), (0.9, 0.5)]], 0),
        ([[(0.99, 0.1), (0.5, 0.1)], [(0.8, 0.9), (0.8, 0.9)]], 1),  # the mean over seeds
        ([[(0.9, 0.1), (0.9, 0.1)], [(0.9, 0.1), (0.9, 0.1)]], 0),  # the first of equals
    ],
)
def test_the_best_point_is_chosen_by_accuracy_then_by_cost(points, best):
    pairs = results(DIGITS, "backprop_looped", *points)
    (row,) = choose(pairs)
    assert (row["task"], row["contestant"]) == ("digits", "backprop_looped")
    assert row["chosen"] == {"lr": RATES[best]}
    assert row["accuracy"] == pytest.approx(sum(a for a, _ in points[best]) / 2)
    assert row["cost"] == pytest.approx(sum(c for _, c in points[best]) / 2)


def test_tasks_and_contestants_are_chosen_apart():
    good, poor = [(0.9, 0.1)] * 2, [(0.6, 0.9)] * 2
    pairs = results(DIGITS, "backprop_looped", good, poor)
    pairs += results(DIGITS, "eqprop_looped", poor, good)
    pairs += results(TASKS["cartpole"], "backprop_looped", poor, good)
    rows = {(row["task"], row["contestant"]): row["chosen"] for row in choose(pairs)}
    betas = GRIDS["eqprop_looped"]["beta"]
    assert rows == {
        ("digits", "backprop_looped"): {"lr": RATES[0]},
        ("digits", "eqprop_looped"): {"lr": RATES[0], "beta": betas[1]},
        ("cartpole", "backprop_looped"): {"lr": RATES[1]},
    }


def row(task, contestant, accuracy, cost=0.1):
    return {"task": task, "contestant": contestant, "accuracy": accuracy, "cost": cost}


def test_the_best_baseline_is_the_best_backprop_contestant_of_each_task():
    looped, feedforward = BASELINES
    rows = [
        row("digits", "eqprop_looped", 0.99),
        row("digits", looped, 0.97),
        row("digits", feedforward, 0.98),
        row("mnist", looped, 0.98, cost=0.05),
        row("mnist", feedforward, 0.98, cost=0.06),
        row("cartpole", "eqprop_layered", 0.99),
    ]
    assert best_baselines(rows) == {"digits": feedforward, "mnist": looped}


@pytest.fixture
def small_grids(monkeypatch):
    for grid in GRIDS.values():
        for name, values in list(grid.items()):
            monkeypatch.setitem(grid, name, values[:2] if name == "activation" else values[:1])
    monkeypatch.setattr(tune, "USER_BUDGET", QUICK)


@pytest.mark.usefixtures("small_grids")
def test_tune_writes_what_it_chose_on_the_validation_part(tmp_path, monkeypatch, capsys):
    data, out, jobs = write_csv(tmp_path / "points.csv"), tmp_path / "out", []

    def spy(job, watch):
        jobs.append(job)
        return run_job(job, watch)

    monkeypatch.setattr(runner, "run_job", spy)
    given = ["--tune", "--data", str(data), "--out", str(out), "--workers", "1"]
    assert command.main(given) == 0
    tuned = json.loads((out / "tuning.json").read_text(encoding="utf-8"))
    chosen = {entry["contestant"]: entry for entry in tuned["chosen"]}
    assert chosen.keys() == set(CONTESTANTS)
    for name, entry in chosen.items():
        assert entry["task"] == "points.csv"
        assert entry["chosen"].keys() == GRIDS[name].keys()
        Settings(**{**QUICK.as_dict(), **entry["chosen"]})
        assert 0.0 <= entry["accuracy"] <= 1.0
    assert tuned["best_baseline"].keys() == {"points.csv"}
    assert tuned["best_baseline"]["points.csv"] in BASELINES
    assert len(jobs) == 2 * (1 + 1 + 1 + 2)
    assert not any(job.final for job in jobs)
    assert not (out / "runs").exists()
    printed = capsys.readouterr().out
    assert "Chosen on the validation split" in printed
    assert f"All of it: {out / 'tuning.json'}\n" in printed


def test_a_tuning_run_spends_no_time_on_the_cosine(monkeypatch):
    monkeypatch.setattr(contestants, "gradient_cosine", None)
    record = run_job(make_job("eqprop_looped", final=False))
    assert {point.cosine for point in record.curve} == {None}
