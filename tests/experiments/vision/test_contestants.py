from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from adapters.torch_arrays import torch
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.predict import targets_of
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.params import initial_params
from experiments.contest.baselines import settled_bptt_step
from experiments.tasks.files import load_table
from experiments.vision import contestants
from experiments.vision.contestants import COSINE_EPOCHS, run_job
from experiments.vision.gradient import cosine, exact_gradient
from experiments.vision.networks import conv_stack
from experiments.vision.roster import BPTT, CONTESTANTS, EQPROP
from tests.experiments.parity.parity_cases import timeless
from tests.experiments.vision.vision_cases import IMAGE, make_job, make_table

LOAD = partial(load_table, make_table(), per_feature=False)
everyone = pytest.mark.parametrize("name", CONTESTANTS)


def load_poisoned(seed):
    """The test part holds what would spoil every result that touched it."""
    parts = LOAD(seed)
    return replace(
        parts, x_test=np.full_like(parts.x_test, np.nan), y_test=np.full_like(parts.y_test, 99)
    )


def load_without_validation(seed):
    parts = LOAD(seed)
    return replace(parts, x_valid=parts.x_valid[:0], y_valid=parts.y_valid[:0])


def load_turned(seed):
    parts = LOAD(seed)
    return replace(parts, y_test=1 - parts.y_test)


@everyone
def test_tuning_never_touches_the_test_part(name):
    clean, poisoned = (
        run_job(make_job(name, load=load, final=False)) for load in (LOAD, load_poisoned)
    )
    assert timeless(poisoned) == timeless(clean)
    assert clean.n_test == len(LOAD(42).y_valid)
    assert clean.measures == {}


@everyone
def test_a_final_run_trains_on_validation_and_only_measures_the_test_part(name):
    record, lacking, turned = (
        run_job(make_job(name, load=load)) for load in (LOAD, load_without_validation, load_turned)
    )
    costs = [point.cost for point in record.curve]
    assert [point.cost for point in lacking.curve] != costs
    assert [point.cost for point in turned.curve] == costs
    assert turned.accuracy == pytest.approx(1.0 - record.accuracy)


def load_poisoned_behind(images, seed):
    """All training images but the first ones hold what would spoil every result."""
    parts = LOAD(seed).joined()
    x_train = parts.x_train.copy()
    x_train[images:] = np.nan
    return replace(parts, x_train=x_train)


@everyone
def test_only_so_many_images_are_trained_on_as_the_settings_say(name):
    few = run_job(make_job(name, load=partial(load_poisoned_behind, 32), images=32))
    assert np.isfinite([point.cost for point in few.curve]).all()
    assert [p.cost for p in few.curve] != [p.cost for p in run_job(make_job(name)).curve]


@everyone
def test_a_seed_is_a_run_with_one_thread_whatever_the_process_has(name):
    record = timeless(run_job(make_job(name)))
    threads = []

    def look(point):
        threads.append({pool["num_threads"] for pool in threadpool_info()})
        threads.append({torch.get_num_threads()})

    before = torch.get_num_threads()
    try:
        with threadpool_limits(2):
            torch.set_num_threads(2)
            assert timeless(run_job(make_job(name), look)) == record
    finally:
        torch.set_num_threads(before)
    assert threads == [{1}] * 4
    assert timeless(run_job(make_job(name, seed=43)))["curve"] != record["curve"]


@everyone
def test_it_learns_the_bars(name):
    load = partial(load_table, make_table(400), per_feature=False)
    record = run_job(make_job(name, load=load, epochs=8, lr=1e-2))
    assert record.majority_rate == 0.5
    assert record.accuracy > 0.8  # of 80: by luck once in ten million times


@everyone
def test_a_curve_is_of_a_few_images_and_the_result_of_all(name, monkeypatch):
    whole = run_job(make_job(name, epochs=3))
    monkeypatch.setattr(contestants, "CURVE_IMAGES", 1)
    record = run_job(make_job(name, epochs=3))
    assert {point.accuracy for point in record.curve} <= {0.0, 1.0}
    assert whole.curve[-1].accuracy == record.accuracy == whole.accuracy
    assert record.n_test == whole.n_test


@everyone
def test_what_is_drawn_agrees_with_what_is_reported(name):
    record = run_job(make_job(name))
    confusion = np.array(record.measures["confusion"])
    assert confusion.sum() == record.n_test
    assert confusion.trace() / record.n_test == pytest.approx(record.accuracy)
    counts = np.bincount(LOAD(42).y_test)
    np.testing.assert_array_equal(confusion.sum(axis=1), counts)
    assert np.shape(record.measures["filters"]) == (3, 3, 3, IMAGE[2])


def test_only_final_eqprop_runs_are_compared_with_autograd(monkeypatch):
    record = run_job(make_job(EQPROP, epochs=5))
    cosines = record.measures["layer_cosines"]
    assert list(cosines) == ["1", "3", "5"]
    assert len(cosines) == COSINE_EPOCHS
    assert {len(layers) for layers in cosines.values()} == {3}
    measured = {str(p.epoch): p.cosine for p in record.curve if p.cosine is not None}
    assert measured.keys() == cosines.keys()
    assert min(measured.values()) > 0.9
    assert run_job(make_job(BPTT)).measures["layer_cosines"] == {}
    monkeypatch.setattr(contestants, "judge_gradient", None)
    assert run_job(make_job(EQPROP, final=False)).measures == {}


@everyone
def test_torch_trains_the_network_of_the_compiled_kernels(name):
    """Sums in another order differ in the last digits, which training enlarges a little."""
    compiled, torched = (run_job(make_job(name, device=device)) for device in ("compiled", "cpu"))
    costs = [[point.cost for point in record.curve] for record in (compiled, torched)]
    np.testing.assert_allclose(*costs, rtol=1e-3)
    np.testing.assert_allclose(compiled.measures["filters"], torched.measures["filters"], atol=1e-2)


def take_step(step, params, x, y):
    """Return the gradient of one step, to which the first moment of Adam is in proportion."""
    settled = Relaxation(400, 1e-12)
    training = Training(beta=1e-3, free=settled, nudged=settled, cap=None)
    run = Run.start(params.network, training.optimizer.moments, np.float64, 0)
    backend = NumbaBackend(params.network, params.copy())
    step(backend, x, targets_of(params.network, y, np.float64), training, run, 10)
    assert run.step == 1
    return run.memory[0]


def test_backprop_from_the_settled_state_has_the_exact_gradient_after_enough_steps():
    network = conv_stack(IMAGE, "3/2-4/2", 3, "tanh", 2)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    table = make_table(12)
    exact = exact_gradient(params, table.x, targets_of(network, table.y, np.float64))
    gradients = [
        take_step(partial(settled_bptt_step, steps=steps), params, table.x, table.y)
        for steps in (1, 4, 40)
    ]
    errors = [1.0 - cosine(gradient, exact) for gradient in gradients]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-9
    assert cosine(take_step(train_step, params, table.x, table.y), exact) > 0.9999
