"""Multiply-adds: by formula, and as torch counts those that it executes."""

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode

from adapters.torch_arrays import torch
from adapters.torch_backend import TorchBackend
from engine.equilibrium import Relaxation
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.params import initial_params
from experiments.benchmark.learners import feedforward, unrolled
from experiments.benchmark.work import (
    StepsTaken,
    backprop_macs,
    eqprop_macs,
    products_of,
    unrolled_macs,
)
from experiments.tasks import TASKS

SAMPLES = 8


def in_place(out, left, right, **_) -> int:
    """Operations of a product that is added in place, which torch does not count by itself."""
    return 2 * left[0] * left[1] * right[1]


def counted(run) -> float:
    """Multiply-adds of a sample, as torch counts them: two operations each."""
    with FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.addmm_: in_place}
    ) as counter:
        run()
    return counter.get_total_flops() / 2 / SAMPLES


@pytest.fixture(scope="module")
def digits():
    return TASKS["digits"].load(7)


@pytest.mark.parametrize("sizes", [(64, 16, 10), (64, 16, 12, 10), (64, 16, 12, 8, 10)])
def test_backprop_has_the_multiply_adds_that_torch_counts(sizes, digits):
    learner = feedforward(sizes, digits, Training(batch_size=SAMPLES))
    rows = torch.arange(SAMPLES)
    found = counted(lambda: learner._update(torch.optim.SGD(learner._parameters, 0.0), rows))
    assert found == backprop_macs(layered(sizes))


def test_bptt_has_the_multiply_adds_that_torch_counts(digits):
    network = looped_mlp(64, 16, 10)
    params = initial_params(network, np.random.default_rng(0))
    learner = unrolled(network, params, 6, digits, Training(batch_size=SAMPLES))
    rows = torch.arange(SAMPLES)
    found = counted(lambda: learner._update(torch.optim.SGD(learner._parameters, 0.0), rows))
    assert found == unrolled_macs(network, 6)


@pytest.mark.parametrize("network", [looped_mlp(20, 16, 5), layered((20, 16, 12, 5))], ids=str)
@pytest.mark.parametrize("steps", [(4, 3), (6, 2)])
def test_eqprop_has_those_that_the_torch_backend_executes(network, steps):
    rng = np.random.default_rng(0)
    backend = TorchBackend(network, initial_params(network, rng), "cpu")
    x = rng.standard_normal((SAMPLES, 20)).astype(np.float32)
    y = np.eye(5, dtype=np.float32)[np.arange(SAMPLES) % 5]
    free, nudged = (Relaxation(count, 0.0) for count in steps)
    training = Training(free=free, nudged=nudged, cap=None)
    run = Run.start(network, 2, np.float32, 0).on(backend)
    found = counted(lambda: train_step(backend, x, y, training, run, 1))
    assert found == eqprop_macs(network, StepsTaken(*steps))


def test_two_nudges_take_their_steps_twice():
    network = looped_mlp(20, 16, 5)
    one, two = (eqprop_macs(network, StepsTaken(4, 3, nudges)) for nudges in (1, 2))
    assert two - one == 2 * 16 * 16 + 2 * 3 * 16 * 5


def test_products_are_sorted_by_what_they_join():
    assert products_of(looped_mlp(20, 16, 5)).tied == 256
    found = products_of(conv_net((8, 8, 1), (2, 3), 5))
    assert (found.first, found.inner, found.read) == (16 * 9 * 2, 4 * 18 * 3, 60)
