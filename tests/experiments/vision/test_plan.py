"""Who is compared with whom, on what, with which settings and for which goals."""

from dataclasses import replace

import pytest

from experiments.contest.grid import grid_points
from experiments.contest.summary import summarise
from experiments.options import FIRST_SEED
from experiments.vision.choices import DEEP, FULL, NETWORKS, SHALLOW, VISION_TASKS
from experiments.vision.roster import (
    BACKPROP,
    BPTT,
    CONTESTANTS,
    EQPROP,
    GOALS,
    VISION,
    WITHOUT_BPTT,
    roster_for,
)
from experiments.vision.settings import BUDGETS, CHOSEN, USER_BUDGET, settings_for
from experiments.vision.tune import (
    GRID,
    LARGE,
    SEEDS,
    SHORT,
    budget_for,
    choose,
    contestants_on,
    tuning_jobs,
)
from tests.experiments.parity.parity_records import make_record

every_task = pytest.mark.parametrize("task", list(VISION_TASKS.values()), ids=list(VISION_TASKS))


def test_every_name_has_a_title_and_every_goal_is_a_task_of_the_full_table():
    assert VISION.contestants == CONTESTANTS == tuple(VISION.titles)
    assert GOALS.keys() == set(FULL) <= VISION_TASKS.keys()
    assert BUDGETS.keys() == VISION_TASKS.keys()
    assert {task.name for task in VISION_TASKS.values()} == VISION_TASKS.keys()


@every_task
def test_every_network_can_be_built(task):
    large = NETWORKS.values() if task.name != "digits" else ()
    for layers in (BUDGETS[task.name].layers, *large):
        network = replace(BUDGETS[task.name], layers=layers).network(task)
        assert network.inputs == task.inputs
        assert network.outputs == task.classes


def test_the_deep_network_has_seven_layers_and_the_published_one_four():
    deep = settings_for(DEEP, EQPROP).network(VISION_TASKS[DEEP])
    assert [layer.shape[2] for layer in deep.layers] == [16, 16, 16, 32, 32, 32, 64]
    published = replace(USER_BUDGET, layers=NETWORKS["dchn"]).network(VISION_TASKS["cifar10"])
    assert [layer.shape for layer in published.layers] == [
        (16, 16, 128),
        (8, 8, 256),
        (4, 4, 512),
        (2, 2, 512),
    ]


@every_task
def test_backprop_has_the_grid_of_eqprop_and_seeds_that_are_not_reported(task):
    jobs = tuning_jobs([task], {task.name: budget_for(task.name)})
    assert len({job.key for job in jobs}) == len(jobs)
    assert {job.seed for job in jobs} <= set(SEEDS)
    assert max(SEEDS) < FIRST_SEED
    assert not any(job.final for job in jobs)
    points = list(grid_points(GRID))
    for name in contestants_on(task.name):
        tried = [job.settings for job in jobs if job.contestant == name]
        short = SHORT if task.name in LARGE else {}
        expected = {replace(BUDGETS[task.name], **short | point) for point in points}
        assert set(tried) == expected
    assert {job.contestant for job in jobs} == set(contestants_on(task.name))
    assert (BPTT in contestants_on(task.name)) == (task.name not in WITHOUT_BPTT)


@every_task
def test_settings_are_a_point_of_the_grid_or_the_budget(task):
    for name in CONTESTANTS:
        point = CHOSEN.get(task.name, {}).get(name, {})
        assert set(point) in (set(), set(GRID))
        assert all(value in GRID[axis] for axis, value in point.items())
        assert settings_for(task.name, name) == replace(BUDGETS[task.name], **point)


def test_the_best_point_of_each_contestant_is_chosen_apart():
    task, best = VISION_TASKS["digits"], dict(zip(CONTESTANTS, GRID["lr"], strict=True))
    jobs = tuning_jobs([task], {"digits": replace(budget_for("digits"), epochs=3)})
    assert {job.settings.epochs for job in jobs} == {3}
    pairs = [
        (job, make_record("digits", job.contestant, job.seed, 0.6 if is_best else 0.5))
        for job in jobs
        for is_best in [job.settings.lr == best[job.contestant]]
    ]
    chosen = {row["contestant"]: row["chosen"] for row in choose(pairs)}
    assert chosen == {name: {"lr": lr, "decay": 0.0} for name, lr in best.items()}


def records(task, eqprop, backprop, title="a task"):
    levels = {EQPROP: eqprop, BACKPROP: backprop}
    made = [
        replace(make_record(task, name, seed, level + shift), majority_rate=0.1, title=title)
        for name, level in levels.items()
        for seed, shift in ((42, -2e-4), (43, 0.0), (44, 2e-4))
    ]
    return made


@pytest.mark.parametrize(("deep", "reached"), [(0.92, True), (0.9151, True), (0.9149, False)])
def test_the_goal_of_seven_layers_is_half_a_point_below_two(deep, reached):
    runs = [*records(SHALLOW, 0.92, 0.92), *records(DEEP, deep, 0.92)]
    summary = summarise(roster_for(runs), runs, {})
    found = {task.name: task for task in summary.tasks}[DEEP]
    assert found.accuracy_goal is reached
    assert found.gap_goal is (abs(deep - 0.92) <= 0.005)


def test_without_two_layers_there_is_no_goal_for_seven():
    runs = records(DEEP, 0.92, 0.92)
    (task,) = summarise(roster_for(runs), runs, {}).tasks
    assert task.accuracy_goal is None
    assert task.gap_goal is True


def test_the_gap_is_to_the_same_layers_and_to_nothing_else():
    runs = [
        *records("mnist", 0.99, 0.99),
        *(replace(r, contestant=BPTT, accuracy=0.999) for r in records("mnist", 0.9, 0.9)[:3]),
    ]
    (task,) = summarise(VISION, runs, {}).tasks
    assert (task.baseline, task.chosen_on) == (BACKPROP, None)
    assert task.judgements[EQPROP].comparison.difference == pytest.approx(0.0)
    assert task.same_network.comparison.difference == pytest.approx(-0.009)
    lonely = [r for r in runs if r.contestant != BACKPROP]
    (task,) = summarise(VISION, lonely, {}).tasks
    assert task.baseline is None
    assert task.judgements == {}
