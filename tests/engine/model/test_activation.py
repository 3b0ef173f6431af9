"""Activations inside a relaxation."""

import numpy as np

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.spectral import recurrent_norm
from engine.model.builders import looped_mlp
from engine.model.params import initial_params


def test_a_relu_network_settles_below_the_bound_of_its_cap() -> None:
    network, norm = looped_mlp(3, 8, 2, "relu"), 0.9
    params = initial_params(network, np.random.default_rng(0), np.float64)
    params["W_rec"][...] *= norm / recurrent_norm(params)
    backend = NumbaBackend(network, params)
    clamped = backend.clamp(np.random.default_rng(1).normal(0.0, 5.0, (20, 3)))
    settled = backend.settle(clamped, relaxation=Relaxation(2000, 1e-12))
    assert settled.converged.all()
    assert settled.state.min() == 0.0
    assert settled.state.max() > 1.0  # no upper end
    sizes, drives = (np.linalg.norm(a, axis=1) for a in (settled.state, clamped.drive))
    assert (sizes <= drives / (1.0 - norm)).all()
