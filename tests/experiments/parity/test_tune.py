import json
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest

from experiments.options import FIRST_SEED
from experiments.parity import contestants, settings, tune
from experiments.parity.__main__ import main
from experiments.parity.contestants import run_job
from experiments.parity.roster import BASELINES, CONTESTANTS, CONTROLS
from experiments.parity.settings import (
    BEST_BASELINE,
    BUDGETS,
    CHOSEN,
    USER_BUDGET,
    ParitySettings,
    settings_for,
)
from experiments.parity.tune import (
    ADAPTED,
    AFTERWARDS,
    BETAS,
    GRIDS,
    SEEDS,
    afterwards_jobs,
    best_baselines,
    choose,
    tuned_names,
    tuning_jobs,
)
from experiments.tasks import TASKS
from tests.experiments.parity.parity_cases import QUICK, make_job, write_csv
from tests.experiments.parity.parity_records import make_record

RATES = GRIDS["backprop_looped"]["lr"]


def by_contestant(jobs):
    groups = defaultdict(list)
    for job in jobs:
        groups[job.contestant].append(job)
    return groups


every_task = pytest.mark.parametrize("task", list(TASKS.values()), ids=list(TASKS))


@every_task
def test_the_grids_are_covered_for_backprop_as_for_eqprop(task):
    groups = by_contestant(tuning_jobs([task], BUDGETS))
    assert groups.keys() == set(CONTESTANTS)
    seeds = {job.seed for jobs in groups.values() for job in jobs}
    rates = {job.settings.lr for jobs in groups.values() for job in jobs}
    assert len(rates) > 1
    for name, jobs in groups.items():
        tried = {field: {getattr(job.settings, field) for job in jobs} for field in GRIDS[name]}
        assert tried["lr"] == rates
        assert tried["decay"] == {job.settings.decay for jobs in groups.values() for job in jobs}
        assert tried.get("activation", set()) == set(GRIDS[name].get("activation", ()))
        points = {tuple(getattr(job.settings, field) for field in tried) for job in jobs}
        assert points == set(product(*tried.values()))
        assert {job.seed for job in jobs} == seeds
        assert len(jobs) == len(points) * len(seeds)


@every_task
def test_tuning_has_seeds_of_its_own_and_keeps_off_the_test_part(task):
    jobs = tuning_jobs([task], BUDGETS)
    seeds = {job.seed for job in jobs}
    assert seeds <= set(ADAPTED.get(task.name, {}).get("seeds", SEEDS))
    assert max(seeds) < FIRST_SEED  # reported seeds count upwards from there
    assert not any(job.final for job in jobs)
    assert len({job.key for job in jobs}) == len(jobs)


@every_task
def test_a_grid_changes_nothing_but_its_own_values(task):
    budget = BUDGETS[task.name].as_dict()
    for job in tuning_jobs([task], BUDGETS):
        settings = job.settings.as_dict()
        changed = {name for name in budget if settings[name] != budget[name]}
        assert changed <= set(GRIDS[job.contestant])


@every_task
def test_activation_and_beta_are_tried_at_the_point_that_the_first_grid_chose(task):
    budget, point = BUDGETS[task.name], {"lr": 2.5e-3, "decay": 0.0}
    chosen = [{"task": task.name, "contestant": name, "chosen": point} for name in GRIDS]
    jobs = afterwards_jobs([task], BUDGETS, chosen)
    middle = replace(budget, **point)
    for name, group in by_contestant(jobs).items():
        tried = {job.settings for job in group}
        assert middle not in tried
        for axis, values in AFTERWARDS[name].items():
            assert {replace(middle, **{axis: value}) for value in values} <= tried | {middle}
        assert len(tried) == sum(len(values) - 1 for values in AFTERWARDS[name].values())
    assert {job.contestant for job in jobs} == AFTERWARDS.keys()
    for name in CONTESTANTS:  # each has its choice of activations, at one time or the other
        assert "activation" in tuned_names(name)
    keys = [job.key for job in jobs + tuning_jobs([task], BUDGETS)]
    assert len(set(keys)) == len(keys)


@every_task
def test_settings_are_a_point_of_the_grid_or_the_budget(task):
    budget, chosen = BUDGETS[task.name], CHOSEN.get(task.name, {})
    assert chosen.keys() in (GRIDS.keys(), set())
    for name in CONTESTANTS:
        point = chosen.get(name, {})
        assert point.keys() == (set(tuned_names(name)) if chosen else set())
        grid = GRIDS[name] | AFTERWARDS.get(name, {})
        tried = {field: ADAPTED.get(task.name, {}).get(field, grid[field]) for field in point}
        assert all(value in tried[field] for field, value in point.items())
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
    jobs = [job for job in tuning_jobs([task], BUDGETS) if job.contestant == name]
    labels = list(dict.fromkeys(job.label for job in jobs))
    for label, outcomes in zip(labels, points, strict=False):
        for job, (accuracy, cost) in zip(
            [job for job in jobs if job.label == label], outcomes, strict=False
        ):
            record = make_record(task.name, name, job.seed, accuracy)
            pairs.append((job, replace(record, cost=cost)))
    return pairs


CARTPOLE = TASKS["cartpole"]


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([[(0.9, 0.5), (0.9, 0.5)], [(0.94, 0.9), (0.94, 0.9)]], 1),  # accuracy before cost
        ([[(0.9, 0.5), (0.9, 0.5)], [(0.901, 0.9), (0.901, 0.9)]], 0),  # no certain difference
        ([[(0.9, 0.5), (0.9, 0.5)], [(0.9, 0.4), (0.9, 0.4)]], 1),  # cost between equals
        ([[(0.9, 0.4), (0.9, 0.4)], [(0.9, 0.5), (0.9, 0.5)]], 0),
        ([[(0.1 + 0.2, 0.5), (0.6, 0.5)], [(0.3, 0.4), (0.6, 0.4)]], 1),  # equal but for rounding
        ([[(0.99, 0.1), (0.5, 0.1)], [(0.8, 0.9), (0.8, 0.9)]], 1),  # the mean over seeds
        ([[(0.9, 0.1), (0.9, 0.1)], [(0.9, 0.1), (0.9, 0.1)]], 0),  # the first of equals
    ],
)
def test_the_best_point_is_chosen_by_accuracy_and_near_the_best_by_cost(points, best):
    pairs = results(CARTPOLE, "backprop_looped", *points)
    (row,) = choose(pairs)
    assert (row["task"], row["contestant"]) == ("cartpole", "backprop_looped")
    assert row["chosen"] == {"lr": RATES[best], "decay": 0.0, "activation": "tanh"}
    assert row["accuracy"] == pytest.approx(sum(a for a, _ in points[best]) / 2)
    assert row["cost"] == pytest.approx(sum(c for _, c in points[best]) / 2)


def test_tasks_and_contestants_are_chosen_apart():
    good, poor = [(0.9, 0.1)] * 2, [(0.6, 0.9)] * 2
    pairs = results(CARTPOLE, "backprop_looped", good, poor)
    pairs += results(CARTPOLE, "eqprop_looped", poor, good)
    pairs += results(TASKS["acrobot"], "backprop_looped", poor, good)
    rows = {(row["task"], row["contestant"]): row["chosen"] for row in choose(pairs)}
    rest = {"decay": 0.0, "activation": "tanh"}
    assert rows == {
        ("cartpole", "backprop_looped"): {"lr": RATES[0]} | rest,
        ("cartpole", "eqprop_looped"): {"lr": RATES[1], "beta": 0.01} | rest,
        ("acrobot", "backprop_looped"): {"lr": RATES[1]} | rest,
    }


def test_a_beta_tried_afterwards_can_win():
    first = results(CARTPOLE, "eqprop_looped", [(0.9, 0.1)] * 3)
    jobs = afterwards_jobs([CARTPOLE], BUDGETS, choose(first))
    accuracies = {0.01: 0.8, 0.03: 0.95, 0.1: 0.8}
    after = [
        (job, make_record("cartpole", "eqprop_looped", job.seed, accuracies[job.settings.beta]))
        for job in jobs
    ]
    (row,) = choose(first + after)
    assert row["chosen"] == {"lr": RATES[0], "decay": 0.0, "activation": "tanh", "beta": 0.03}


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
    for grid in AFTERWARDS.values():
        monkeypatch.setitem(grid, "activation", ("tanh",))
        if "beta" in grid:
            monkeypatch.setitem(grid, "beta", BETAS[1:])
    monkeypatch.setattr(settings, "USER_BUDGET", QUICK)
    monkeypatch.setattr(tune, "SEEDS", SEEDS[:2])


@pytest.fixture
def tuning(small_grids, tmp_path, monkeypatch):
    """Call the command with `--tune`; it notes the jobs that ran, and may be interrupted."""
    data = write_csv(tmp_path / "points.csv")

    def call(interrupt_after=None):
        call.jobs = []

        def spy(job, watch):
            if len(call.jobs) == interrupt_after:
                raise KeyboardInterrupt
            call.jobs.append(job)
            return run_job(job, watch)

        monkeypatch.setattr(contestants, "run_job", spy)
        given = ["--tune", "--data", str(data), "--out", str(tmp_path / "out"), "--workers", "1"]
        return main(given)

    call.out = tmp_path / "out"
    return call


def test_tune_writes_what_it_chose_on_the_validation_part(tuning, capsys):
    assert tuning() == 0
    tuned = json.loads((tuning.out / "tuning.json").read_text(encoding="utf-8"))
    chosen = {entry["contestant"]: entry for entry in tuned["chosen"]}
    assert chosen.keys() == set(CONTESTANTS)
    for name, entry in chosen.items():
        assert entry["task"] == "points.csv"
        assert entry["chosen"].keys() == set(tuned_names(name))
        ParitySettings(**{**QUICK.as_dict(), **entry["chosen"]})
        assert 0.0 <= entry["accuracy"] <= 1.0
    assert tuned["best_baseline"].keys() == {"points.csv"}
    assert tuned["best_baseline"]["points.csv"] in BASELINES
    assert len(tuning.jobs) == 2 * (1 + 1 + 1 + 2) + 2 * (1 + 1)
    assert not any(job.final for job in tuning.jobs)
    assert not (tuning.out / "runs").exists()
    printed = capsys.readouterr().out
    assert "Chosen on the validation split" in printed
    assert f"All of it: {tuning.out / 'tuning.json'}\n" in printed


def test_interrupted_tuning_is_completed_by_the_next_call(tuning):
    assert tuning(interrupt_after=11) == 130  # in the second grid
    kept = {job.key for job in tuning.jobs}
    assert len(kept) == 11
    assert tuning() == 0
    assert len(tuning.jobs) == 3
    assert not kept & {job.key for job in tuning.jobs}
    assert tuning() == 0
    assert tuning.jobs == []


def test_a_tuning_run_spends_no_time_on_the_cosine(monkeypatch):
    monkeypatch.setattr(contestants, "gradient_cosine", None)
    record = run_job(make_job("eqprop_looped", final=False))
    assert {point.cosine for point in record.curve} == {None}
