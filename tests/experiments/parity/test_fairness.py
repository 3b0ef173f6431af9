from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from adapters.torch_arrays import torch
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.optimizer import Adam, scheduled
from engine.learning.predict import targets_of
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap, recurrent_norm
from engine.learning.training import Training, fit, train_step
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.contest.baselines import bptt_step
from experiments.parity.baselines import FeedForward
from experiments.parity.contestants import run_job
from experiments.parity.roster import CONTESTANTS
from experiments.tasks.files import load_table
from tests.experiments.parity.parity_cases import make_job, make_table, timeless

LOAD = partial(load_table, make_table())
main_contestants = pytest.mark.parametrize("name", CONTESTANTS)


def load_poisoned(seed):
    """The test part holds what would spoil every result that touched it."""
    parts = LOAD(seed)
    return replace(
        parts, x_test=np.full_like(parts.x_test, np.nan), y_test=np.full_like(parts.y_test, 99)
    )


def load_joined(seed):
    return LOAD(seed).joined()


def load_without_validation(seed):
    parts = LOAD(seed)
    return replace(parts, x_valid=parts.x_valid[:0], y_valid=parts.y_valid[:0])


def load_turned(seed):
    """Every label of the test part is the other one."""
    parts = LOAD(seed)
    return replace(parts, y_test=1 - parts.y_test)


@main_contestants
def test_tuning_never_touches_the_test_part(name):
    clean, poisoned = (
        run_job(make_job(name, load=load, final=False)) for load in (LOAD, load_poisoned)
    )
    assert timeless(poisoned) == timeless(clean)
    assert clean.n_test == len(LOAD(42).y_valid)


@main_contestants
def test_a_final_run_trains_on_validation_too(name):
    record, joined, fewer = (
        timeless(run_job(make_job(name, load=load))) | {"measures": None}  # which describe the data
        for load in (LOAD, load_joined, load_without_validation)
    )
    assert joined == record
    assert fewer != record


@main_contestants
def test_the_test_part_of_a_final_run_is_only_measured(name):
    record, turned = (run_job(make_job(name, load=load)) for load in (LOAD, load_turned))
    assert [point.cost for point in turned.curve] == [point.cost for point in record.curve]
    assert turned.accuracy == pytest.approx(1.0 - record.accuracy)


@main_contestants
def test_the_same_seed_gives_the_same_record_and_another_one_another(name):
    record = timeless(run_job(make_job(name, seed=42)))
    torch.manual_seed(1)  # what else draws in the process does not matter
    np.random.seed(1)  # noqa: NPY002
    assert timeless(run_job(make_job(name, seed=42))) == record
    other = timeless(run_job(make_job(name, seed=43)))
    assert [point["cost"] for point in other["curve"]] != [p["cost"] for p in record["curve"]]


@main_contestants
def test_a_run_has_one_thread_whatever_the_process_has(name):
    record = timeless(run_job(make_job(name)))
    threads = []

    def look(point):
        threads.append({pool["num_threads"] for pool in threadpool_info()})
        threads.append({torch.get_num_threads()})

    before = torch.get_num_threads()
    try:
        with threadpool_limits(2):
            torch.set_num_threads(2)
            outside = {pool["num_threads"] for pool in threadpool_info()}
            assert timeless(run_job(make_job(name), look)) == record
    finally:
        torch.set_num_threads(before)
    assert outside == {2}
    assert threads == [{1}] * 4


NETWORK = looped_mlp(3, 8, 2)
SETTLED = Relaxation(200, 1e-12)


def take_step(step, training, norm=0.5, seed=0):
    """Take one step from the same state; return the run and the backend after it."""
    params = initial_params(NETWORK, np.random.default_rng(seed), np.float64)
    params["W_rec"][...] *= norm / recurrent_norm(params)
    backend = NumbaBackend(NETWORK, params)
    run = Run.start(NETWORK, training.optimizer.moments, np.float64, seed)
    table = make_table(24)
    step(backend, table.x, targets_of(NETWORK, table.y, np.float64), training, run, 10)
    return run, backend


def test_bptt_differs_from_eqprop_by_no_more_than_the_estimate_of_the_gradient():
    training = Training(beta=1e-3, free=SETTLED, nudged=SETTLED, optimizer=Adam(2e-3))
    (run, backend), (other, other_backend) = (
        take_step(step, training) for step in (train_step, bptt_step)
    )
    gradient, exact = run.memory[0], other.memory[0]  # the first moment of Adam is in proportion
    cosine = gradient @ exact / np.linalg.norm(gradient) / np.linalg.norm(exact)
    assert cosine > 0.999
    assert run.step == other.step == 1
    np.testing.assert_allclose(backend.params.theta, other_backend.params.theta, atol=1e-4)


def test_bptt_stops_at_a_frozen_block_and_at_the_cap():
    training = Training(free=SETTLED, optimizer=Adam(0.5), cap=SpectralCap(0.6), frozen=("W_in",))
    start = take_step(lambda *_: None, training, norm=0.55)[1].params
    after = take_step(bptt_step, training, norm=0.55)[1].params
    np.testing.assert_array_equal(after["W_in"], start["W_in"])
    assert recurrent_norm(start) == pytest.approx(0.55)
    assert recurrent_norm(after) == pytest.approx(0.6)


def test_all_contestants_see_the_samples_in_the_same_order(monkeypatch):
    samples = 20  # each of a class of its own, so that the labels tell the order
    x = np.random.default_rng(0).normal(size=(samples, 3)).astype(np.float32)
    y = np.arange(samples)
    training = Training(epochs=2, batch_size=8, beta=0.02, seed=5)
    orders = []
    for step in (train_step, bptt_step):
        order = []

        def spy(backend, x, y, *rest, step=step, order=order):
            order.append(y.argmax(axis=1).tolist())
            return step(backend, x, y, *rest)

        network = looped_mlp(3, 8, samples)
        backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
        fit(backend, x, y, training, step=spy)
        orders.append(order)
    order = []
    entropy = torch.nn.functional.cross_entropy

    def spy_entropy(outputs, labels):
        order.append(labels.tolist())
        return entropy(outputs, labels)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", spy_entropy)
    FeedForward((3, 8, 8, samples), "tanh", 5).fit(x, y, training, 0.0, lambda epoch: None)
    assert [len(rows) for rows in order] == [8, 8, 4] * 2
    assert orders == [order, order]


def test_the_feed_forward_baseline_has_the_optimizer_and_schedule_of_eqprop(monkeypatch):
    made = []

    class Spy(torch.optim.AdamW):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.rates = []
            made.append(self)

        def step(self):
            self.rates.append(self.param_groups[0]["lr"])
            return super().step()

    monkeypatch.setattr(torch.optim, "AdamW", Spy)
    table, training = make_table(40), Training(epochs=3, batch_size=16, optimizer=Adam(3e-3))
    model = FeedForward((3, 8, 8, 2), "relu", 0)
    model.fit(table.x.astype(np.float32), table.y, training, 0.2, lambda epoch: None)
    (optimizer,) = made
    expected = [3e-3 * scheduled(training.schedule, step, 9) for step in range(9)]
    assert optimizer.rates == pytest.approx(expected)
    weights, biases = optimizer.param_groups
    for group in (weights, biases):
        assert group["betas"] == (training.optimizer.decay1, training.optimizer.decay2)
        assert group["eps"] == training.optimizer.eps
    assert {p.ndim: g["weight_decay"] for g in (weights, biases) for p in g["params"]} == {
        2: 0.2,
        1: 0.0,
    }


def test_the_start_of_the_feed_forward_baseline_is_its_seed_alone():
    x = make_table().x.astype(np.float32)

    def start(seed, activation="tanh"):
        return FeedForward((3, 8, 8, 2), activation, seed).outputs(x)

    expected = start(5)
    torch.manual_seed(5)
    torch.rand(3)  # as another thread of a worker would
    np.testing.assert_array_equal(start(5), expected)
    assert not np.array_equal(start(6), expected)
    assert not np.array_equal(start(5, "relu"), expected)
