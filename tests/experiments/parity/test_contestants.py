import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.predict import targets_of
from engine.learning.training import Training, fit
from engine.model.builders import layered, looped_mlp
from engine.model.params import initial_params
from experiments.parity import contestants
from experiments.parity.baselines import FeedForward
from experiments.parity.contestants import (
    EPISODES,
    FlippedBackend,
    ParityJob,
    gradient_cosine,
    run_job,
)
from experiments.parity.roster import CONTESTANTS, CONTROLS, EQPROP
from experiments.parity.settings import BUDGETS, settings_for
from experiments.tasks import CARTPOLE, TASKS, control
from tests.experiments.parity.parity_cases import QUICK, make_job, make_table

ALL = (*CONTESTANTS, *CONTROLS)


@pytest.fixture(scope="module")
def records():
    return {name: run_job(make_job(name)) for name in ALL}


@pytest.mark.parametrize("name", ALL)
def test_every_contestant_trains_and_is_measured(records, name):
    record = records[name]
    assert (record.task, record.contestant, record.seed) == ("tiny", name, 42)
    assert record.n_test == 16
    assert record.majority_rate == 0.5
    assert record.settings == QUICK.as_dict()
    assert [point.epoch for point in record.curve] == [1, 2]
    assert record.accuracy == record.curve[-1].accuracy
    assert 0.0 <= record.accuracy <= 1.0
    assert 0.0 < record.cost < 2.0
    assert record.seconds >= sum(point.seconds for point in record.curve) > 0.0
    assert record.returns is None


@pytest.mark.parametrize("name", ALL)
def test_only_eqprop_reports_its_relaxation_and_its_cosine(records, name):
    for point in records[name].curve:
        extras = (point.free_steps, point.nudged_steps, point.unsettled, point.cosine)
        if name in EQPROP:
            assert point.free_steps > 1
            assert point.nudged_steps > 1
            assert 0.0 <= point.unsettled < 0.5
            assert point.cosine > 0.95
        else:
            assert extras == (None,) * 4


def test_the_watcher_sees_every_epoch_as_it_is_recorded():
    for name in ("eqprop_looped", "backprop_feedforward"):
        seen = []
        record = run_job(make_job(name), seen.append)
        assert tuple(seen) == record.curve


def count_parameters(job):
    if job.contestant == "backprop_feedforward":
        hidden = job.settings.hidden
        return FeedForward((job.task.inputs, hidden, hidden, job.task.classes), "tanh", 0).size
    return job.network.size


@pytest.mark.parametrize("task", list(TASKS.values()), ids=list(TASKS))
def test_contestants_have_the_same_size_and_budget(task):
    jobs = [ParityJob(task, name, 42, settings_for(task.name, name)) for name in ALL]
    sizes = [count_parameters(job) for job in jobs]
    assert max(sizes) <= 1.02 * min(sizes)
    assert min(sizes) > task.inputs * BUDGETS[task.name].hidden
    for field in ("epochs", "batch_size"):
        assert {getattr(job.settings, field) for job in jobs} == {
            getattr(BUDGETS[task.name], field)
        }


def test_the_size_on_record_is_that_of_what_was_trained(records):
    for name in ALL:
        assert records[name].parameters == count_parameters(make_job(name))


@pytest.fixture
def trained(monkeypatch):
    """Return a function that trains a contestant and gives its parameters before and after."""
    seen = []

    def spy(backend, *arguments, **options):
        before = backend.params.copy()
        history = fit(backend, *arguments, **options)
        seen.append((before, backend.params.copy()))
        return history

    monkeypatch.setattr(contestants, "fit", spy)

    def train(name):
        run_job(make_job(name))
        return seen.pop()

    return train


@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("eqprop_looped", set()),
        ("backprop_looped", set()),
        ("no_recurrence", {"W_rec"}),
        ("frozen_recurrence", {"W_rec"}),
        ("readout_only", {"W_in", "b", "W_rec"}),
        ("flipped_sign", set()),
    ],
)
def test_controls_learn_all_but_what_is_taken_away(trained, name, frozen):
    before, after = trained(name)
    unchanged = {block for block in before if np.array_equal(before[block], after[block])}
    assert unchanged == frozen
    assert np.any(before["W_rec"]) == np.any(after["W_rec"]) == (name != "no_recurrence")


def test_controls_start_where_eqprop_starts(trained):
    origin, _ = trained("eqprop_looped")
    for name in ("backprop_looped", "frozen_recurrence", "readout_only", "flipped_sign"):
        before, _ = trained(name)
        np.testing.assert_array_equal(before.theta, origin.theta)


def make_batch(network, samples=12):
    table = make_table(samples)
    return table.x, targets_of(network, table.y, np.float64)


def test_the_flipped_sign_reverses_the_couplings_and_not_the_read_out():
    network = looped_mlp(3, 8, 2)
    params = initial_params(network, np.random.default_rng(1), np.float64)
    gradients = []
    for backend in (NumbaBackend(network, params), FlippedBackend(network, params)):
        clamped = backend.clamp(*make_batch(network))
        settled = backend.settle(clamped)
        gradient = np.zeros(network.size)
        backend.accumulate(clamped, settled, gradient, energy=0.7)
        backend.accumulate(clamped, settled, gradient, energy=-0.2, cost=1.5)
        gradients.append(gradient)
    plain, flipped = gradients
    couplings = {coupling.name for coupling in network.couplings}
    assert couplings == {"W_in", "b", "W_rec"}
    for name, block in network.blocks.items():
        sign = -1.0 if name in couplings else 1.0
        assert np.any(plain[block.span])
        np.testing.assert_array_equal(flipped[block.span], sign * plain[block.span])


CLOSE = Relaxation(500, 1e-10)


@pytest.mark.parametrize("network", [looped_mlp(3, 8, 2), layered((3, 6, 6, 2))])
def test_the_cosine_is_one_for_a_settled_network_and_a_small_beta(network):
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(2), np.float64))
    training = Training(beta=1e-3, free=CLOSE, nudged=CLOSE)
    x, y = make_batch(network)
    assert gradient_cosine(backend, x, y, training) == pytest.approx(1.0, abs=1e-5)


def test_the_cosine_shows_a_gradient_that_points_the_wrong_way():
    network = looped_mlp(3, 8, 2)
    backend = FlippedBackend(network, initial_params(network, np.random.default_rng(2), np.float64))
    training = Training(beta=1e-3, free=CLOSE, nudged=CLOSE)
    x, y = make_batch(network)
    assert gradient_cosine(backend, x, y, training) < 0.99


def test_there_is_no_cosine_where_there_is_no_equilibrium():
    network = looped_mlp(3, 2, 2)
    params = initial_params(network, np.random.default_rng(3), np.float64)
    params["W_rec"][...] = -4.0 * np.eye(2)
    x, y = make_batch(network)
    assert gradient_cosine(NumbaBackend(network, params), 0.1 * x, y, Training(beta=0.01)) is None


@pytest.fixture
def short_cartpole(monkeypatch):
    sizes = {"TRAIN_SAMPLES": 300, "VALID_SAMPLES": 60, "TEST_SAMPLES": 60}
    for name, samples in sizes.items():
        monkeypatch.setattr(control, name, samples)


@pytest.mark.usefixtures("short_cartpole")
@pytest.mark.parametrize("name", ["readout_only", "backprop_feedforward"])
def test_a_control_task_is_also_measured_by_its_return(name):
    record = run_job(ParityJob(CARTPOLE, name, 42, QUICK))
    assert record.returns.keys() == {"clone", "expert", "random"}
    assert {len(episodes) for episodes in record.returns.values()} == {EPISODES}
    assert np.mean(record.returns["random"]) < 100 < np.mean(record.returns["expert"])
    assert record.returns["clone"] != record.returns["expert"]
    assert run_job(ParityJob(CARTPOLE, name, 42, QUICK, final=False)).returns is None
