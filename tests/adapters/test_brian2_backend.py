"""Brian2 computes the same relaxation and the same local rule as the engine."""

import numpy as np
import pytest

from engine import NumbaBackend, Relaxation, centered, estimate
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params

pytest.importorskip("brian2", reason="Brian2 is an extra")
from adapters.brian2_backend import Brian2Backend

NETWORKS = {
    "looped": looped_mlp(3, 5, 2),
    "layered": layered((3, 4, 3, 2)),
    "squared": layered((3, 4, 2), "hard_sigmoid", "squared_error"),
    "convolution": conv_net((3, 4, 2), (2, 3), 2),
}
FEW = Relaxation(2, 1e-12, displaced=False)
"""Each step is a run of Brian2, which is slow to start."""


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_relaxation_and_gradient_agree_with_the_engine(network: Network) -> None:
    rng = np.random.default_rng(0)
    params = initial_params(network, rng, np.float64)
    x, y = rng.standard_normal((3, network.inputs)), np.eye(2)[[0, 1, 0]]
    found = []
    for make in (NumbaBackend, Brian2Backend):
        backend = make(network, params)
        clamped = backend.clamp(x, y)
        free = backend.settle(clamped, relaxation=FEW)
        gradient = np.zeros(network.size)
        estimate(backend, clamped, centered(0.2), gradient, FEW, FEW)
        found.append((free.state, free.steps, gradient))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    assert np.abs(found[0][2]).max() > 1e-3


def test_an_update_changes_what_brian2_runs() -> None:
    network = NETWORKS["looped"]
    backend = Brian2Backend(network, initial_params(network, np.random.default_rng(0), np.float64))
    x = np.ones((1, 3))
    before = backend.settle(backend.clamp(x), relaxation=Relaxation(2, 0.0)).state
    backend.apply(np.full(network.size, 0.1))
    after = backend.settle(backend.clamp(x), relaxation=Relaxation(2, 0.0)).state
    assert np.abs(after - before).min() > 1e-3
