"""The part `convolution`: the same training for all, its work counted, its goals judged."""

import json
from dataclasses import replace

import numpy as np
import pytest

from adapters.torch_arrays import torch
from engine.learning.spectral import recurrent_norm
from engine.model.builders import conv_net
from engine.model.params import initial_params
from experiments.benchmark import command, learners
from experiments.benchmark import convolution as part
from experiments.benchmark.__main__ import main
from experiments.benchmark.convolution import BACKPROP, EQPROP, PLAIN, SETTLED, SMALL, ImageRace
from experiments.benchmark.goals import Measurements, judge_goals
from experiments.benchmark.growth import GrowthPoint, run_probe
from experiments.benchmark.probe import Setting, TrainingFootprint
from experiments.benchmark.timing import Spread
from experiments.benchmark.torch_eqprop import Sweeps
from experiments.tasks import IMAGE_TASKS, TaskError

TINY = replace(SMALL, channels=(8, 12), images=320, held_out=100, epochs=3, batch_size=16, lr=1e-2)


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def digits():
    return part.some_images(TINY, IMAGE_TASKS["digits"].load(part.SEED))


def test_both_eqprops_take_the_same_way_and_all_learn(digits):
    learners = part.prepare_learners(TINY, digits)
    before = {name: learner.accuracy() for name, learner in learners.items()}
    for learner in learners.values():
        for _ in range(3):
            learner.train_epoch()
    for name, learner in learners.items():
        assert learner.accuracy() > before[name], name
        assert learner.note
    plain, engine = learners[PLAIN]._stack.parameters, learners[EQPROP]._backend.params
    # Both caps lower the direction that leads, but look for it in other ways.
    np.testing.assert_allclose(plain["b_2"], engine["b_2"], rtol=0, atol=2e-3)
    np.testing.assert_allclose(plain["W_out"], engine["W_out"], rtol=0, atol=1e-2)


def test_eqprop_in_plain_torch_stays_under_the_cap(digits):
    learner = part.prepare_learners(TINY, digits)[PLAIN]
    with torch.no_grad():
        learner._stack.weights[1] *= 5.0
    for _ in range(30):
        learner._enforce_cap()
    network = part.network_of(TINY)
    params = initial_params(network, np.random.default_rng(0))
    weight = learner._stack.weights[1].permute(2, 3, 1, 0).reshape(params["W_2"].shape)
    params["W_2"][...] = weight.numpy()
    assert abs(recurrent_norm(params) - TINY.cap) < 0.02


def test_work_is_counted_message_by_message():
    network = conv_net((8, 8, 1), (2, 3), 5)
    image, inner, read = 16 * 9 * 2, 4 * (9 * 2) * 3, 4 * 3 * 5
    found = part.multiply_adds(network, Sweeps(free=3, nudged=2))
    assert found[BACKPROP] == 2 * image + 3 * inner + 3 * read
    # The first free sweep only goes up, and the first nudged one only down.
    up_and_down = (1 + 2 + 2) + (1 + 2)
    assert found[EQPROP] == 2 * image + (up_and_down + 2) * inner + 6 * read
    assert found[PLAIN] == found[EQPROP]


def test_images_that_are_missing_are_said_and_the_digits_taken(monkeypatch):
    def missing(seed):
        raise TaskError("gone.")

    fashion = replace(IMAGE_TASKS["fashion_mnist_10k"], load=missing)
    monkeypatch.setitem(part.IMAGE_TASKS, "fashion_mnist_10k", fashion)
    ((contest, split),), notes = part.find_images()
    assert contest == SMALL
    assert len(split.x_train) == contest.images
    assert notes == [
        "28x28x1, 32-64 was not measured: gone.",
        "32x32x3, 32-64-128 was not measured: gone.",
    ]


def test_smaller_images_lie_in_the_middle_of_larger_ones(digits):
    whole = IMAGE_TASKS["digits"].load(part.SEED)
    large = part.some_images(replace(TINY, image=(11, 10, 3)), whole).x_train
    images = large.reshape(-1, 11, 10, 3)
    inside = images[:, 1:9, 1:9]
    for channel in range(3):
        np.testing.assert_array_equal(inside[..., channel].reshape(-1, 64), digits.x_train)
    assert np.count_nonzero(images) == np.count_nonzero(inside)


def test_the_memory_of_a_convolutional_step_does_not_grow_with_its_sweeps():
    """One state of each of 60 more sweeps would be 18 MB."""
    few, many = (run_probe(Setting("eqprop", n, batch=16, channels=(8, 8))).extra for n in (2, 62))
    assert abs(many - few) < 0.1 * 60 * 16 * (14 * 14 * 8 + 7 * 7 * 8) * 4


def _race(name, ratio, over, accuracies, threads=1):
    whole = Spread(1.0, 1.0, 1.0)
    spreads = (Spread(ratio, ratio, ratio), Spread(over, over, over))
    return ImageRace(name, "T", "4-6", threads, 9, 1.0, whole, *spreads, accuracies, 10_000, "")


def _races(ratio, gain, accuracy, threads=1):
    return [
        _race(BACKPROP, 1.0, 1.0 / ratio, (0.1, 0.5), threads),
        _race(EQPROP, ratio, 1.0, (0.9, accuracy), threads),
        _race(PLAIN, ratio * gain, gain, (0.1, 0.5), threads),
    ]


def _swept(*extra):
    return [
        GrowthPoint("steps", Setting("eqprop", n), TrainingFootprint(1.0, 10**8, size))
        for n, size in enumerate(extra, start=1)
    ]


def test_goals_are_reached_at_their_limit_and_missed_beyond_it():
    # Two standard errors of the difference are 2 sqrt(2 x 0.25 / 10,000), 1.4 points.
    at = Measurements(images=_races(3.0, 1.5, 0.487), sweeps=_swept(991, 1009))
    over = Measurements(images=_races(3.01, 1.49, 0.485), sweeps=_swept(989, 1011))
    assert [goal.reached for goal in judge_goals(at)] == [True] * 4
    assert [goal.reached for goal in judge_goals(over)] == [False] * 4


def test_accuracy_is_judged_where_all_epochs_were_trained():
    races = _races(2.0, 2.0, 0.5) + _races(2.0, 2.0, 0.5, threads=2)
    goals = judge_goals(Measurements(images=races))
    assert [goal.threads for goal in goals] == [1, 1, 1, 2, 2]
    assert ["accuracy" in goal.what for goal in goals] == [False, True, False, False, False]


def test_the_command_measures_and_reports_the_part(tmp_path, monkeypatch, capsys):
    tiny = replace(TINY, epochs=2, timed_epochs=1)
    monkeypatch.setattr(learners, "TRIAL_STEPS", 4)  # which Adam is faster decides nothing here
    monkeypatch.setattr(command, "QUICK_IMAGES", (tiny,))
    monkeypatch.setattr(command, "measure_sweeps", lambda *_: _swept(10**6, 10**6))
    given = ["--part", "convolution", "--quick", "--threads", "1", "2", "--out", str(tmp_path)]
    assert main(given) == 0
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["measured"]
    order = [BACKPROP, EQPROP, PLAIN, SETTLED]
    assert [race["contestant"] for race in found["images"]] == 2 * order
    assert [len(race["accuracies"]) for race in found["images"]] == 4 * [2] + 4 * [1]
    assert found["images"][0]["ratio"]["median"] == 1.0
    assert "Training convolutional networks" in capsys.readouterr().out
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "convolution: peak memory over the sweeps" in text
