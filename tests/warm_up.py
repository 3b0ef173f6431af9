"""Kernels that tests share are compiled once, each by one of the processes that run the suite.

Without it every process compiles for itself what the others are compiling at the same moment.
"""

import numpy as np

from engine.compiled.compiler import PLAIN
from engine.equilibrium import Relaxation
from engine.learning.estimator import centered, estimate
from tests.conformance import CANDIDATES, NETWORKS, Trial, only_links

WHOLE = 3000
"""From so many tests on the kernels of all backends are needed."""
COMPILED = ("numba-64", "numba-32", "digital", "crossbar", "spiking")
"""Backends with kernels of their own types, in an order that deals them out evenly."""
SLOPES = centered(0.25)


def compile_share(process: int, processes: int) -> None:
    """Compile what one of some processes is to compile, unless it is in the cache."""
    if PLAIN:
        return
    for name in COMPILED[process::processes]:
        for network in NETWORKS:
            take_a_step(name, network)


def take_a_step(candidate: str, network: str) -> None:
    """Take one training step on a backend, by each of its solvers, if it runs the network."""
    (backend,) = (one for one in CANDIDATES if one.name == candidate)
    if "no link" in backend.unsupported and not only_links(NETWORKS[network]):
        return
    trial = Trial(backend, NETWORKS[network])
    for solver in trial.solvers:
        ways = Relaxation(2, 0.0, solver)  # type: ignore[arg-type]
        gradient = np.zeros(trial.network.size, backend.dtype)
        estimate(trial.backend, trial.clamped, SLOPES, gradient, ways, ways)
    trial.backend.predict(trial.backend.settle(trial.clamped, 0.0, Relaxation(2)))
    trial.backend.apply(gradient)
