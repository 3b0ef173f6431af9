"""Small circuits for the tests of netlists, and the mark of those that run ngspice."""

import shutil

import numpy as np
import pytest

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.model.builders import resistive
from engine.model.params import Params, initial_params

SETTLED = Relaxation(20_000, 1e-13, "sweeps")
needs_ngspice = pytest.mark.skipif(
    not shutil.which("ngspice"),
    reason="ngspice is missing, which runs the netlists; install the package ngspice.",
)


def drawn(
    seed: int, *sizes: int, amplification: float = 1.0
) -> tuple[Params, FloatArray, FloatArray]:
    """Return a circuit, some of its conductances at zero, with samples and targets."""
    rng = np.random.default_rng(seed)
    network = resistive(sizes, amplification=amplification)
    params = initial_params(network, rng, np.float64)
    for name, block in params.items():
        if name in network.squares:
            block[...] = rng.uniform(0.0, 1.0, block.shape) * (rng.random(block.shape) < 0.8)
        else:
            block[...] = rng.normal(0.0, 0.3, block.shape)
    return params, rng.standard_normal((3, sizes[0])), rng.random((3, sizes[-1]))


def settled(params: Params, x: FloatArray, y: FloatArray, beta: float) -> FloatArray:
    """Return the voltages that the engine finds."""
    backend = NumbaBackend(params.network, params)
    found = backend.settle(backend.clamp(x, y), beta, SETTLED)
    assert found.converged.all()
    return found.state
