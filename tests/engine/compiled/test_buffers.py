"""Memory of a relaxation: taken from the kernel once, not in every training step."""

import platform
import resource

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.builders import conv_net
from engine.model.params import initial_params

STEPS = 4


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_a_training_step_is_given_the_memory_of_the_one_before_it() -> None:
    network, rng = conv_net((32, 32, 3), (32, 64), 10), np.random.default_rng(0)
    backend = NumbaBackend(network, initial_params(network, rng))
    x = rng.standard_normal((64, network.inputs)).astype(np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(10, size=64)]
    way = Relaxation(1, 0.0, "sweeps")
    training, run = Training(free=way, nudged=way), Run.start(network, 2, np.float32, 0)

    def step() -> None:
        train_step(backend, x, y, training, run, 2 * STEPS)

    for _ in range(STEPS):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(STEPS):
        step()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    states = 64 * network.units * 4 // resource.getpagesize()
    assert faults < STEPS * states  # one state of the many that a step needs
