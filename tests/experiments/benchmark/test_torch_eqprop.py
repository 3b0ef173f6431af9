"""EqProp in plain torch operations does what the engine does."""

import numpy as np
import pytest

from adapters.torch_arrays import torch
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.estimator import TINY_BETA, estimate, one_sided
from engine.learning.scale import calibrated
from engine.model.builders import conv_net
from engine.model.params import initial_params
from experiments.benchmark.torch_eqprop import LAYOUT, PlainStack, Sweeps, as_blocks


@pytest.mark.parametrize("channels", [(3,), (4, 6), (3, 4, 5)])
@pytest.mark.parametrize("image", [(12, 12, 1), (13, 11, 3)])
def test_its_gradient_is_that_of_the_engine(image, channels):
    rng = np.random.default_rng(1)
    network = conv_net(image, channels, 5)
    x = rng.standard_normal((6, network.inputs)).astype(np.float32)
    y = np.eye(5, dtype=np.float32)[rng.integers(5, size=6)]
    params = calibrated(initial_params(network, rng), x)
    for k in range(len(channels)):  # else the sign of a bias would not matter
        params[f"b_{k + 1}"][...] = rng.normal(0.0, 0.2, channels[k])
    backend, found = NumbaBackend(network, params), np.zeros(network.size, np.float32)
    free, nudged = Relaxation(3, 0.0, "sweeps"), Relaxation(2, 0.0, "sweeps")
    estimate(backend, backend.clamp(x, y), one_sided(TINY_BETA), found, free, nudged)
    planes = torch.from_numpy(x).reshape(6, *image).permute(0, 3, 1, 2)
    planes = planes.contiguous(memory_format=LAYOUT)
    stack = PlainStack(network, params)
    plain = as_blocks(network, stack.gradient(planes, torch.from_numpy(y), Sweeps(3, 2)))
    for name, block in network.blocks.items():
        exact = found[block.span].reshape(block.shape)
        scale = np.abs(exact).max()
        assert scale > 0.0
        np.testing.assert_allclose(plain[name], exact, rtol=0, atol=1e-4 * scale, err_msg=name)
