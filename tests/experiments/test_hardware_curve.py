"""When a run reached a target, and what it had done until then, from a few noisy looks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.arrays import FloatArray
from experiments.hardware.contest import summarise
from experiments.hardware.curve import (
    Point,
    counts_until,
    epochs_to,
    first_look,
    level_reached,
    look_times,
    reached_at,
    steps_until,
    writes_until,
)
from experiments.hardware.job import Job, Outcome, network_of, run_job
from experiments.hardware.settings import LEARNERS, Settings
from experiments.hardware.target import common_targets, update_reached
from experiments.tasks import Task, task_from_file
from hw_sim.chips.catalogue import CHIPS
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies

EPOCH = 34
"""Updates, as in the digits of the report."""
SAMPLES = 359
"""Of a validation part."""
TARGET = 0.95


def curve_of(updates: FloatArray, accuracies: FloatArray) -> list[Point]:
    """Return looks at a run that does 1000 products in every update."""
    return [
        Point(n, u / EPOCH, float(a), 0.0, n, 1.0, n, [["free", "hidden", "mac", 1000 * n]])
        for n, u, a in zip(updates.astype(int), updates, accuracies, strict=True)
    ]


def learned(updates: FloatArray, pace: float) -> FloatArray:
    """Return the accuracy that a run has after so many updates."""
    return 0.1 + 0.88 * (1.0 - np.exp(-updates / pace))


def crossing(pace: float) -> float:
    """Return the update at which it reaches the target."""
    return -pace * float(np.log(1.0 - (TARGET - 0.1) / 0.88))


def first_whole_epoch(curve: list[Point], target: float) -> float:
    """Return when a run that is only looked at after epochs is first seen above a target."""
    return next(p.update for p in curve if p.epoch.is_integer() and p.accuracy >= target)


def rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.mark.parametrize("spacing", [3, 8, 17, 34])
def test_a_straight_rise_is_crossed_where_it_is_whatever_the_looks(spacing: int) -> None:
    updates = np.arange(spacing, 341, spacing)
    assert reached_at(curve_of(updates, updates / 340), 0.5) == pytest.approx(170)


def errors_of(rule: Callable[[list[Point], float], float | None], noise: bool) -> list[float]:
    """Return by how many updates a rule misses known crossings, of 60 runs of different pace."""
    rng, found = np.random.default_rng(0), []
    updates = np.arange(1, 41) * EPOCH / 4
    for pace in np.linspace(20.0, 45.0, 60):
        seen = learned(updates, pace)
        if noise:
            seen = rng.binomial(SAMPLES, seen) / SAMPLES
        update = rule(curve_of(updates, seen), TARGET)
        assert update is not None
        found.append(update - crossing(pace))
    return found


def test_a_known_crossing_is_found_to_a_fraction_of_an_epoch() -> None:
    """Whole epochs miss it by up to one, and always late."""
    interpolated, whole = (errors_of(rule, noise=False) for rule in (reached_at, first_whole_epoch))
    assert max(np.abs(interpolated)) < EPOCH / 20
    assert max(whole) > 0.9 * EPOCH
    assert min(whole) >= 0.0


def test_noise_of_the_validation_part_is_averaged_out() -> None:
    interpolated, whole = (errors_of(rule, noise=True) for rule in (reached_at, first_whole_epoch))
    assert rms(interpolated) < EPOCH / 2 < rms(whole)
    assert abs(np.mean(interpolated)) < EPOCH / 10 < np.mean(whole)


def test_looks_at_other_times_give_the_same_cost() -> None:
    """And a run that is a little faster costs a little less, where whole epochs make it one."""
    costs = []
    for first in range(1, 10):
        updates = np.arange(first, 341, 8)
        curve = curve_of(updates, learned(updates, 30.0))
        costs.append(counts_until(curve, reached_at(curve, TARGET) or 0.0).total("mac"))
    assert np.ptp(costs) < 0.05 * 1000 * EPOCH
    assert costs == pytest.approx([1000 * crossing(30.0)] * 9, rel=0.02)
    epochs = np.arange(1, 11) * EPOCH
    paces = np.array([0.99, 1.01]) * 30.0 * 3 * EPOCH / crossing(30.0)
    faster, slower = (curve_of(epochs, learned(epochs, pace)) for pace in paces)
    assert first_whole_epoch(slower, TARGET) - first_whole_epoch(faster, TARGET) == EPOCH
    assert (reached_at(slower, TARGET) or 0) - (reached_at(faster, TARGET) or 0) < EPOCH / 4


def test_a_lucky_look_reaches_nothing() -> None:
    updates = np.arange(1, 11) * 8.0
    lucky = np.array([0.5, 0.97, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.92, 0.92])
    curve = curve_of(updates, lucky)
    assert level_reached(curve) == pytest.approx(0.92)
    assert reached_at(curve, 0.95) is None
    assert 5 * 8 < (reached_at(curve, 0.85) or 0.0) < 7 * 8
    assert first_look(curve, 0.95) == curve[-1]
    assert np.isnan(epochs_to(curve, 0.95))


def test_the_target_of_a_seed_is_what_its_worst_learner_kept_less_a_standard_error(
    task: Task,
) -> None:
    """A lucky look does not raise it, nor does another seed change it."""
    updates, outcomes = np.arange(1, 11) * 8.0, []
    outcome = run_job(Job(task, "eqprop", "digital", 42, Settings(hidden=4, epochs=1)))
    assert outcome.n_valid == 18
    for seed, level in ((42, 0.94), (42, 0.9), (43, 0.98)):
        curve = curve_of(updates, np.where(updates == 16, 1.0, level))
        outcomes.append(replace(outcome, seed=seed, n_valid=400, curve=tuple(curve[1:])))
    targets = common_targets(outcomes)
    kept = (1.0 + 8 * 0.9) / 9  # all looks in one, for it began with its best
    assert targets["digital", 42] == pytest.approx(kept - np.sqrt(kept * (1 - kept) / 400))
    assert targets["digital", 43] > 0.97
    for outcome in outcomes:
        assert update_reached(outcome, targets) is not None


def test_what_was_reached_before_the_first_look_counts_as_reached_there() -> None:
    updates = np.arange(1, 6) * 8.0
    curve = curve_of(updates, np.full(5, 0.9))
    assert reached_at(curve, 0.9) == reached_at(curve, 0.2) == 8
    assert first_look(curve, 0.2) == curve[0]


def test_counts_lie_on_straight_lines_between_looks() -> None:
    curve = curve_of(np.array([8.0, 16.0, 34.0]), np.array([0.3, 0.6, 0.9]))
    for update in (2.0, 8.0, 11.5, 16.0, 30.0, 34.0):
        assert counts_until(curve, update).total("mac") == pytest.approx(1000 * update)
    assert writes_until(curve, 25.0) == pytest.approx(25.0)
    # Free steps of a stretch are its last update here, and two nudged phases take one each.
    assert steps_until(curve, 8.0) == pytest.approx(8 + 2)
    assert steps_until(curve, 25.0) == pytest.approx((8 * 8 + 8 * 16 + 9 * 34) / 25 + 2)
    assert epochs_to(curve, 0.9) == pytest.approx(1.0)


def test_looks_are_even_and_end_with_the_run() -> None:
    assert look_times(340, 40)[3::4] == [34 * k for k in range(1, 11)]
    assert set(np.diff([0, *look_times(340, 40)])) == {8, 9}
    assert look_times(3, 40) == [1, 2, 3]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Three clouds that a line almost separates."""
    rng, y = np.random.default_rng(0), np.arange(90) % 3
    path = tmp_path_factory.mktemp("curve") / "clouds.npz"
    np.savez(path, x=rng.standard_normal((90, 4)) + 2.0 * np.eye(4)[y], y=y)
    return task_from_file(Path(path))


@pytest.mark.parametrize("substrate", list(CHIPS))
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_run_is_the_same_however_often_it_is_looked_at(
    task: Task, substrate: str, learner: str
) -> None:
    """A look must not draw from the noise of the crossbar, nor count."""
    settings = Settings(hidden=5, epochs=2, batch_size=9, free_steps=6, nudged_steps=4)
    once, often = (
        run_job(Job(task, learner, substrate, 42, replace(settings, looks=looks)))
        for looks in (1, 3)
    )
    assert [point.epoch for point in once.curve] == [1, 2]
    assert [point.update for point in often.curve] == [2, 4, 6, 8, 10, 12]
    for a, b in zip(once.curve, often.curve[2::3], strict=True):
        assert (a.accuracy, a.most_writes, a.counts) == (b.accuracy, b.most_writes, b.counts)
    steps = np.mean([point.free_steps for point in often.curve[:3]])
    assert steps == pytest.approx(once.curve[0].free_steps)
    assert (once.accuracy, once.inference) == (often.accuracy, often.inference)
    assert once.saturations == often.saturations


def test_an_interpolated_cost_lies_between_those_of_the_looks_around_it(task: Task) -> None:
    settings = Settings(hidden=5, epochs=2, batch_size=9, looks=3)
    outcomes: list[Outcome] = []
    for learner in LEARNERS:
        found = run_job(Job(task, learner, "digital", 42, settings))
        rise = [replace(p, accuracy=0.3 + 0.1 * k) for k, p in enumerate(found.curve)]
        outcomes.append(replace(found, curve=tuple(rise)))
    networks = {who: network_of(Job(task, who, "digital", 42, settings)) for who in LEARNERS}
    technologies = shipped_technologies()
    summary = summarise("", outcomes, [], technologies, ["digital_45nm"], 0.55, networks)
    contest = summary.contests[0]
    design: Design = contest.ours.design
    looked = [Bill(contest.technology, design, point.done) for point in outcomes[0].curve]
    before, after = (bill.energy_j for bill in looked[2:4])
    assert before < contest.ours.energy_j < after
    assert contest.ours.energy_j == pytest.approx((before + after) / 2)
    assert contest.training_energy.nominal == pytest.approx(contest.ours.energy_j)
