"""The benchmark times the same work for all, compares within rounds, and judges its goals."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from adapters.torch_arrays import torch
from engine.backend import Backend
from engine.learning.training import Training
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.benchmark import command, epochs, floor, growth, timing, turns
from experiments.benchmark.__main__ import main
from experiments.benchmark.defaults import DefaultsRace
from experiments.benchmark.epochs import (
    BACKPROP,
    BPTT,
    EQPROP,
    EQPROP_TORCH,
    LAYERED,
    Entrant,
    Race,
)
from experiments.benchmark.floor import FloorCell, Grid, prepare
from experiments.benchmark.goals import Measurements, judge_goals
from experiments.benchmark.growth import Exponents, FirstStep, GrowthPoint, fit_exponents
from experiments.benchmark.learners import EqPropLearner, feedforward, unrolled
from experiments.benchmark.probe import Setting, TrainingFootprint
from experiments.benchmark.report import BenchmarkResults, build_document, write_report
from experiments.benchmark.timing import REST, WAKE, Spread, TimingEffort, fixed_threads, interleave
from experiments.benchmark.turns import Course
from experiments.tasks import TASKS

ONCE = TimingEffort(0.0, fewest=2, most=2)


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_ratios_are_quartiles_of_each_round_over_its_own_products(monkeypatch):
    costs = {"bare": iter((9, 1, 2, 4)), "numba": iter((7, 3, 4, 4))}
    clock, order = [0.0], []

    def contestant(name):
        def run():
            clock[0] += next(costs[name])
            order.append(name)

        return run

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    times = interleave({name: contestant(name) for name in costs}, TimingEffort(0.0, 3, 9))
    assert order == ["bare", "numba"] * 4
    assert (times["bare"].first, times["numba"].first) == (9, 7)
    assert times["numba"].over(times["bare"]) == Spread(2.0, 1.5, 2.5)


def test_rounds_go_on_until_the_time_is_over_or_they_are_enough(monkeypatch):
    clock = [0.0]

    def run():
        clock[0] += 1.0

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    for effort, count in (
        (TimingEffort(2.5, 1, 9), 3),
        (TimingEffort(0.0, 2, 9), 2),
        (TimingEffort(99.0, 1, 4), 4),
    ):
        assert len(interleave({"one": run}, effort)["one"].rounds) == count


def test_with_threads_a_contestant_rests_and_wakes_its_own_before_it_is_timed(monkeypatch):
    happened, clock = [], itertools.count(0.0, 0.6 * WAKE)  # two untimed runs take as long
    monkeypatch.setattr(timing.time, "sleep", happened.append)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    runs = {name: lambda name=name: happened.append(name) for name in "ab"}
    interleave(runs, TimingEffort(0.0, 1, 1), threads=2)
    assert happened == ["a", "b", REST, "a", "a", "a", REST, "b", "b", "b"]


def test_threads_are_given_back():
    torch.set_num_threads(1)
    with fixed_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("width", [8, 64])
def test_every_sample_of_every_backend_does_all_the_steps(width, monkeypatch):
    steps, relax = [], Backend.settle

    def spy(self, *arguments, **options):
        equilibrium = relax(self, *arguments, **options)
        steps.append(equilibrium.steps)
        return equilibrium

    monkeypatch.setattr(Backend, "settle", spy)
    for run in prepare(width, 16, compiled=False).values():
        run()
    np.testing.assert_array_equal(steps, np.full((2, 16), floor.STEPS))


def test_the_torch_loops_end_where_the_engine_ends(monkeypatch):
    states, relax = [], Backend.settle

    def spy(self, *arguments, **options):
        states.append(relax(self, *arguments, **options).state)

    monkeypatch.setattr(Backend, "settle", spy)
    contestants = prepare(16, 4, compiled=False)
    contestants["Settle, numba"]()
    eager = contestants["torch eager"]().numpy()
    np.testing.assert_allclose(eager, states[0], rtol=0, atol=1e-6)
    rng = np.random.default_rng(0)
    drive, weight = rng.normal(0.0, 0.1, (4, 6)), rng.normal(0.0, 0.1, (6, 6))
    drive, weight = drive.astype(np.float32), weight.astype(np.float32)
    plain, residual = floor._plain_loop(torch.from_numpy(drive), torch.from_numpy(weight))
    loop = floor.EagerLoop(drive, weight)
    np.testing.assert_allclose(loop.run(), plain, rtol=0, atol=1e-6)
    assert residual.shape == (4,)


@pytest.fixture(scope="module")
def digits():
    split = TASKS["digits"].load(epochs.SEED)
    return replace(split, x_train=split.x_train[:320], y_train=split.y_train[:320])


CONTEST = replace(epochs.DIGITS, accuracy=0.5, epochs=3)


def test_all_contestants_learn_the_same_task_with_the_same_number_of_parameters(digits):
    entrants = epochs.prepare_entrants(CONTEST, digits)
    sizes = [entrant.parameters for entrant in entrants.values()]
    assert max(sizes) <= 1.01 * min(sizes)
    for name, entrant in entrants.items():
        learner = entrant.learner
        before = learner.accuracy()
        for _ in range(3):
            learner.train_epoch()
        assert learner.accuracy() > max(0.6, before), name
        assert learner.note


def test_unrolled_backprop_has_the_gradient_and_the_cap_of_the_looped_network(digits):
    from adapters.torch_autograd import bptt_gradient

    network = looped_mlp(64, 12, 10)
    params = initial_params(network, np.random.default_rng(0))
    training = replace(epochs.benchmark_training(CONTEST), batch_size=8)
    learner = unrolled(network, params, 6, digits, training)
    rows = torch.arange(8)
    theta = dict(zip(params, learner._parameters, strict=True))
    learner._update(torch.optim.SGD(learner._parameters, lr=0.0), rows)
    exact = bptt_gradient(network, params, digits.x_train[:8], np.eye(10)[digits.y_train[:8]], 6)
    found = np.concatenate([theta[name].grad.numpy().ravel() for name in network.blocks])
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)
    with torch.no_grad():
        theta["W_rec"] *= 5.0
    learner._after(0)
    assert np.linalg.norm(theta["W_rec"].detach().numpy(), 2) <= training.cap.cap + 1e-5


def test_the_trial_of_adam_changes_nothing(digits):
    training = epochs.benchmark_training(CONTEST)
    first, second = (feedforward((64, 8, 10), digits, training) for _ in range(2))
    fresh = torch.Generator().manual_seed(training.seed)
    expected = torch.empty(8, 64).uniform_(-(64**-0.5), 64**-0.5, generator=fresh)
    torch.testing.assert_close(first._parameters[0].detach(), expected)
    first.train_epoch()
    second.train_epoch()
    torch.testing.assert_close(first._parameters[0], second._parameters[0], rtol=1e-4, atol=1e-5)


def test_a_race_counts_the_seconds_up_to_the_accuracy():
    class Noted:
        note = "n"

    entrants = {
        name: Entrant(Noted(), 5, lambda macs=macs: macs)
        for name, macs in ((BACKPROP, 2.0), (EQPROP, 3.0))
    }

    def race(accuracies):
        courses = {
            BACKPROP: Course([1.0, 2.0, 4.0, 9.0], [1.0] * 4),
            EQPROP: Course([3.0, 4.0, 4.0], accuracies),
        }
        return epochs._race(EQPROP, 1, replace(CONTEST, accuracy=0.9), entrants, courses)

    found = race([0.5, 0.9, 0.8])
    assert (found.epochs_to_accuracy, found.seconds_to_accuracy) == (2, 7.0)
    assert found.ratio == Spread(2.0, 1.5, 2.5)
    assert (found.macs, found.macs_ratio, found.batch) == (3.0, 1.5, 32)
    assert race([0.5, 0.6, 0.7]).seconds_to_accuracy is None


def test_backprop_goes_on_as_long_as_another_and_the_others_stop_at_the_accuracy(
    digits, monkeypatch
):
    trained = []

    class Quick:
        note = ""

        def __init__(self, name, reached):
            self.name, self.reached, self.epochs = name, reached, 0

        def train_epoch(self):
            self.epochs += 1
            trained.append(self.name)

        def accuracy(self):
            return float(self.epochs >= self.reached)

    def entrants(contest, split):
        goals = {BACKPROP: 1, EQPROP: 1, BPTT: 3}
        return {name: Entrant(Quick(name, n), 1, lambda: 1.0) for name, n in goals.items()}

    monkeypatch.setattr(epochs, "prepare_entrants", entrants)
    monkeypatch.setattr(epochs, "_warm_up", lambda *_: None)
    contest = replace(CONTEST, accuracy=0.9, epochs=9, further_batch=None)
    races = epochs.measure_epochs(contest, digits, [1], lambda _: None)
    assert trained == [*[BACKPROP, EQPROP, BPTT] * 2, BACKPROP, BPTT]
    assert [len(race.accuracies) for race in races] == [3, 2, 3]
    trained.clear()
    both = epochs.measure_epochs(replace(contest, further_batch=64), digits, [1], lambda _: None)
    assert [(race.contestant, race.batch) for race in both[3:]] == [(BACKPROP, 64), (EQPROP, 64)]


def test_one_thread_is_timed_by_the_processor_and_more_by_the_clock(monkeypatch):
    monkeypatch.setattr(turns.time, "process_time", iter((1.0, 4.0)).__next__)
    monkeypatch.setattr(turns.time, "perf_counter", iter((1.0, 6.0)).__next__)
    assert turns.epoch_seconds(lambda: None, 1) == 3.0
    assert turns.epoch_seconds(lambda: None, 2) == 5.0


def test_defaults_are_those_of_training_and_learn_as_backprop_does(digits, monkeypatch):
    from experiments.benchmark import defaults
    from experiments.benchmark.learners import EqPropLearner as Learner

    monkeypatch.setattr(defaults, "EPOCHS", 6)
    monkeypatch.setattr(defaults, "SAMPLES", 300)
    seen = []

    class Watched(Learner):
        def __init__(self, backend, split, training):
            seen.append((training, len(split.x_train)))
            super().__init__(backend, split, training)

    monkeypatch.setattr(defaults, "EqPropLearner", Watched)
    races = defaults.measure_defaults(replace(CONTEST, hidden=64), digits, [1], lambda _: None)
    expected = [Training(epochs=6, batch_size=batch) for batch in (32, 64) for _ in range(4)]
    assert [training for training, _ in seen] == expected
    assert {length for _, length in seen} == {256, 300}
    assert [race.contestant for race in races] == [BACKPROP, EQPROP, LAYERED] * 2
    assert [race.batch for race in races] == [32] * 3 + [64] * 3
    for race in races:
        assert race.accuracy > 0.5
        assert race.seconds.median > 0
        assert (race.ratio.median == 1.0) == (race.contestant == BACKPROP)
        assert race.macs_ratio >= 1.0


def test_eqprop_is_trained_by_the_step_of_the_engine(digits, monkeypatch):
    called = []
    from experiments.benchmark import learners

    step = learners.train_step
    monkeypatch.setattr(
        learners, "train_step", lambda *given: (called.append(len(given[1])), step(*given))[1]
    )
    learner = epochs.prepare_entrants(CONTEST, digits)[EQPROP].learner
    assert isinstance(learner, EqPropLearner)
    learner.train_epoch()
    assert sum(called) == 320
    assert max(called) == epochs.benchmark_training(CONTEST).batch_size


def _points(seconds, extra):
    return [
        GrowthPoint(
            "steps", Setting(learner, steps=n), TrainingFootprint(seconds(n), 10**8, extra(n))
        )
        for n in (10, 100, 1000)
        for learner in growth.LEARNERS
    ]


def test_exponents_are_those_of_a_power_law():
    for found in fit_exponents(_points(lambda n: 3.0 * n**1.5, lambda n: 1000 * n)):
        assert found.axis == "steps"
        assert abs(found.time - 1.5) < 1e-12
        assert abs(found.memory - 1.0) < 1e-12
        assert found.flatness > 1.0
    flat = fit_exponents(_points(lambda n: 1.0, lambda n: 5000 + (n == 10) * 150))[0]
    assert abs(flat.flatness - 100 / 5050) < 1e-12


@pytest.mark.parametrize("learner", growth.LEARNERS)
def test_only_the_memory_of_bptt_grows_with_the_steps(learner):
    """One state of each of 200 steps is 13 MB here; the resident memory is counted in pages."""
    few, many = (
        growth.run_probe(Setting(learner, steps=n, width=128, batch=128)) for n in (5, 205)
    )
    states = 200 * 128 * 128 * 4
    assert many.peak >= many.extra >= 0
    assert few.seconds > 0
    if learner != "backprop":  # which takes no steps, and finds its room among the freed pages
        assert many.extra > 0
        assert many.seconds > few.seconds
    if learner == "bptt":
        assert many.extra - few.extra > 0.9 * states
    else:
        assert abs(many.extra - few.extra) < 0.1 * states


def test_a_training_that_fails_is_one_sentence():
    with pytest.raises(OSError, match=r"could not be measured: .*steps is 0|max_steps is 0"):
        growth.run_probe(Setting("eqprop", steps=0, width=4, batch=2))


def _cell(name, ratio, threads=1, width=256):
    return FloorCell(name, width, 64, threads, Spread(ratio, ratio, ratio), 1.0, 1.0)


def _race(name, ratio, seconds, threads=1):
    spread = Spread(ratio, ratio, ratio)
    return Race(name, threads, 64, 10, 2e6, 1.25, spread, spread, (0.98,), 1, seconds, "")


def _measured(numba, eager, ratio, bptt, flatness, first):
    return Measurements(
        cells=[
            _cell("bare products", 1.0),
            _cell("Settle, numba", numba),
            _cell("torch eager", eager),
            _cell("bare products", 1.0, width=64),
            _cell("Settle, numba", 9.0, width=64),  # too narrow for the goal
        ],
        races=[_race(BACKPROP, 1.0, 1.0), _race(EQPROP, ratio, 2.0), _race(BPTT, 9.0, bptt)],
        task="Digits",
        accuracy=0.96,
        exponents=[
            Exponents("steps", "eqprop", 1.0, 0.0, flatness),
            Exponents("steps", "bptt", 1.0, 0.9, 1.0),
        ],
        first_step=FirstStep(Spread(first, first, first), None),
    )


def test_goals_are_reached_at_their_limit_and_missed_beyond_it():
    at = [goal.reached for goal in judge_goals(_measured(1.0, 1.3, 1.3, 6.0, 0.01, 3.0))]
    over = [goal.reached for goal in judge_goals(_measured(1.01, 1.31, 1.31, 5.9, 0.011, 3.01))]
    assert at == [True] * 6
    assert over == [False] * 6


def test_the_goal_of_an_epoch_depends_on_the_threads_and_that_of_the_defaults_does_not():
    races = [_race(EQPROP, ratio, 1.0, threads) for ratio in (1.3, 1.5) for threads in (1, 2)]
    found = judge_goals(Measurements(races=[*races, _race(LAYERED, 1.6, 1.0, 2)]))
    assert [goal.reached for goal in found] == [True, True, False, True, False]
    assert "1.25 x the multiply-adds" in found[0].measured
    spreads = [Spread(ratio, ratio, ratio) for ratio in (1.0, 2.5, 2.6)]
    names = (BACKPROP, EQPROP, LAYERED)
    defaults = [
        DefaultsRace(name, 2, 32, 10, at, at, 1.0, 0.9, 100, "")
        for name, at in zip(names, spreads, strict=True)
    ]
    judged = judge_goals(Measurements(defaults=defaults))
    assert [goal.reached for goal in judged] == [True, False]


@pytest.mark.parametrize(("gain", "reached"), [(0.65, True), (0.66, False)])
def test_a_second_core_is_judged_by_the_shape_that_gains_least(gain, reached):
    def cell(seconds, threads, batch):
        spread = Spread(1.0, 1.0, 1.0)
        return FloorCell("Settle, numba", 256, batch, threads, spread, seconds, 1.0)

    cells = [cell(2.0, 1, 64), cell(4.0, 1, 128), cell(2.0 * gain, 2, 64), cell(2.0, 2, 128)]
    (found,) = (g for g in judge_goals(Measurements(cells=cells)) if "one" in g.wanted)
    assert found.reached is reached
    assert f"{gain:.2f} x at 256 / 64" in found.measured


@pytest.mark.parametrize(("ratio", "reached"), [(1.8, True), (1.9, False)])
def test_the_torch_backend_is_judged_by_the_compiled_one(ratio, reached):
    races = [_race(EQPROP, 1.2, 1.0), _race(EQPROP_TORCH, ratio, 1.0)]
    (found,) = (g for g in judge_goals(Measurements(races=races)) if "torch backend" in g.what)
    assert found.reached is reached
    assert found.measured == f"{ratio / 1.2:.2f} x"


def test_what_was_not_measured_is_not_judged():
    assert judge_goals(Measurements()) == []
    late = _race(BPTT, 9.0, None)
    races = [_race(BACKPROP, 1.0, 1.0), _race(EQPROP, 1.0, 2.0), late]
    last = judge_goals(Measurements(races=races, task="t", accuracy=0.9))[-1]
    assert last.reached is None
    assert "did not reach" in last.measured


def test_the_report_says_what_was_measured(tmp_path):
    points = _points(lambda n: 0.25, lambda n: 2_000_000)
    results = BenchmarkResults(
        "the command", {"cores": "2"}, _measured(0.9, 2, 1.5, 7, 0.0, 1.0), points
    )
    write_report(results, tmp_path)
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert content["measured"]["cells"][1]["ratio"]["median"] == 0.9
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "5 of 6 goals reached." in text
    assert "Missed: epoch, Digits, EqProp, numba, batch 64." in text
    assert "250.0" in text
    assert "the command" in text
    assert (tmp_path / "plots" / "benchmark.png").stat().st_size > 1000
    assert not build_document(BenchmarkResults("c", {}, Measurements()), ()).sections[1].blocks


def test_the_command_runs_the_parts_it_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "QUICK_GRID", Grid((8,), (4,), (), ONCE))
    given = ["--part", "floor", "--quick", "--threads", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert content["machine"]["threads"] == "1"
    assert content["command"].endswith("--part floor --quick --threads 1 --out " + str(tmp_path))
    assert [cell["contestant"] for cell in content["measured"]["cells"]] == [
        "bare products",
        "Settle, numba",
        "torch eager",
        "Settle, torch backend",
    ]
    assert content["measured"]["races"] == []
    printed = capsys.readouterr().out
    assert "30 steps over the bare matrix products, float32, 1 thread(s)" in printed
    assert f"{content['measured']['cells'][1]['ratio']['median']:.2f}" in printed


def test_a_stop_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure_floor", stop)
    assert main(["--part", "floor", "--out", str(tmp_path / "out")]) == 130
    assert "Nothing was written" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_data_that_is_missing_is_said_and_the_next_contest_taken(monkeypatch):
    from experiments.tasks import TaskError

    def missing(seed):
        raise TaskError("mnist is missing.")

    monkeypatch.setitem(epochs.TASKS, "mnist", replace(TASKS["mnist"], load=missing))
    contest, split, notes = epochs.find_contest()
    assert contest.task == "digits"
    assert len(split.x_train) > 0
    assert notes == ["MNIST was not measured: mnist is missing."]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5"])
def test_a_senseless_number_is_refused(value, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([f"--threads={value}"])
    assert stopped.value.code == 2
    assert f"'{value}' is not a whole number of at least 1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
