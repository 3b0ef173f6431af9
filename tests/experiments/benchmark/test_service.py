"""Parts of the benchmark that time answers, and training in two processes."""

from itertools import pairwise

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.benchmark import prediction
from experiments.benchmark.epochs import EpochContest
from experiments.benchmark.goals import Measurements, judge_goals
from experiments.benchmark.parallel import (
    MANY,
    PROCESSES,
    QUICK,
    ParallelResults,
    RoundTimes,
    StepModel,
    all_reduce_seconds,
    fit_model,
    measure_parallel,
    predicted_steps,
)
from experiments.benchmark.prediction import (
    CLASSES,
    RIVALS,
    SERVED,
    PredictionTime,
    bare_products,
    measure_prediction,
)
from experiments.benchmark.service_tables import parallel_tables, prediction_table
from experiments.benchmark.timing import Spread
from experiments.reporting.document import Table
from experiments.tasks import TASKS


def _answer(what: str, batch: int, seconds: float, ratio: float) -> PredictionTime:
    return PredictionTime(what, RIVALS[what], batch, seconds, 1e-3, Spread(ratio, ratio, ratio), 9)


def test_one_sample_has_a_goal_in_seconds_and_classes_one_over_their_rival() -> None:
    answers = [_answer(SERVED, 1, 9e-5, 3.0), _answer(SERVED, 1000, 1.0, 9.0)]
    answers += [_answer(CLASSES, 1, 1.0, 1.9), _answer(CLASSES, 1000, 1.0, 2.1)]
    goals = judge_goals(Measurements(predictions=answers))
    assert [goal.reached for goal in goals] == [True, True, False]
    slow = judge_goals(Measurements(predictions=[_answer(SERVED, 1, 1.1e-4, 1.0)]))
    assert [goal.reached for goal in slow] == [False]


def test_the_bare_products_are_those_of_a_prediction() -> None:
    network = looped_mlp(5, 4, 3)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    x = np.ones((2, 5), np.float32)
    p = backend.params
    expected = x @ p["W_in"] @ p["W_rec"] @ p["W_rec"] @ p["W_out"]
    np.testing.assert_allclose(bare_products(backend, x, 2), expected, rtol=1e-5)


def test_predictions_are_timed_against_their_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "BATCHES", (1, 30))
    monkeypatch.setattr(prediction, "ROUND_SECONDS", 1e-3)
    monkeypatch.setattr(prediction, "SAMPLES", 200)
    contest = EpochContest("digits", 0.9, 1, hidden=16)
    found = measure_prediction(contest, TASKS["digits"].load(0), lambda note: None, rounds=2)
    assert {(t.what, t.batch) for t in found} == {(w, b) for w in RIVALS for b in (1, 30)}
    for t in found:
        assert t.rival == RIVALS[t.what]
        assert t.seconds > 0.0
        assert t.ratio.low <= t.ratio.median <= t.ratio.high
        assert t.steps > 1.0
    assert len(prediction_table(found).rows) == len(found)


def _times(model: StepModel, batch: int, size: int) -> RoundTimes:
    """What a machine would measure that is just as the model says."""
    alone = {rows: [model.compute(rows)] * 3 for rows in (batch // 4, batch // 2, batch)}
    sums = {
        sent: [all_reduce_seconds(2, sent, model.latency, model.bandwidth)] * 3
        for sent in (2**10, 2**16, 2**22)
    }
    strong, weak = (model.seconds(2, rows, size) for rows in (batch // 2, batch))
    return RoundTimes(alone, [strong] * 3, [weak] * 3, [0.0] * 3, sums)


def test_the_model_is_found_again_in_what_it_predicts() -> None:
    model = StepModel(fixed=2e-3, per_row=3e-5, latency=4e-5, bandwidth=2e9)
    found = fit_model(_times(model, 64, 10_000))
    for name in ("fixed", "per_row", "latency", "bandwidth"):
        assert getattr(found, name) == pytest.approx(getattr(model, name), rel=1e-6)


def test_a_line_never_begins_below_zero() -> None:
    times = RoundTimes({16: [1e-3], 32: [4e-3]}, [1.0], [1.0], [0.0], {8: [1e-3], 16: [2e-3]})
    assert fit_model(times).fixed == 0.0
    assert fit_model(times).per_row > 0.0


def test_a_ring_sends_each_share_of_the_array_twice() -> None:
    size, bandwidth = 12_000, 1e6
    for count in (2, 3, 4):
        steps = 2 * (count - 1)
        sent = steps * size / count / bandwidth
        assert all_reduce_seconds(count, size, 0.0, bandwidth) == pytest.approx(sent)
        assert all_reduce_seconds(count, 0, 1e-3, bandwidth) == pytest.approx(steps * 1e-3)
    assert all_reduce_seconds(1, size, 1.0, bandwidth) == 0.0


def test_predicted_efficiencies_fall_from_one() -> None:
    model = StepModel(1e-3, 1e-5, 1e-5, 1e9)
    results = ParallelResults(QUICK, 10_000, _times(model, QUICK.batch, 40_000), model, ())
    found = predicted_steps(results, 1e-5, 1e9)
    assert [count for count, _, _ in found] == list(MANY)
    assert found[0][1:] == (1.0, 1.0)
    for (_, strong, weak), (_, fewer, less) in pairwise(found):
        assert 0.0 < fewer < strong
        assert 0.0 < less < weak
    faster = predicted_steps(results, 1e-5, 1e12)
    assert all(ours[2] <= theirs[2] for ours, theirs in zip(found, faster, strict=True))


def test_two_processes_are_measured_and_reported() -> None:
    results = measure_parallel(QUICK, lambda note: None)
    times = results.times
    for taken in (*times.alone.values(), times.strong, times.weak, *times.sums.values()):
        assert len(taken) == QUICK.rounds
        assert min(taken) > 0.0
    assert all(waited < step for waited, step in zip(times.waited, times.strong, strict=True))
    assert [s.rows for s in results.scalings] == [QUICK.batch // PROCESSES, QUICK.batch]
    goals = judge_goals(Measurements(parallel=results))
    assert len(goals) == len(results.scalings)
    for goal, scaling in zip(goals, results.scalings, strict=True):
        assert goal.reached == (0.8 <= scaling.over_measured <= 1.2)
    tables = parallel_tables(results)
    assert all(isinstance(table, Table) and table.rows for table in tables)
    assert "PREDICTED" in tables[-1].title
