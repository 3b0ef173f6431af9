"""Hypothesis strategies: networks of every kind, with parameters, a batch and a start.

Shapes are drawn by Hypothesis, so that they shrink; numbers come from a drawn seed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from engine import dynamics
from engine.arrays import FloatArray
from engine.backend import Clamped
from engine.compiled import NumbaBackend
from engine.network import Network, layered, looped_mlp
from engine.params import Params, initial_params
from engine.readout import SoftmaxReadout
from engine.spectral import recurrent_norm

SIZES = st.integers(1, 7)


def looped() -> st.SearchStrategy[Network]:
    """The reference network in any size."""
    return st.builds(looped_mlp, SIZES, SIZES, SIZES)


@st.composite
def stacks(draw: st.DrawFn, depth: int = 4) -> Network:
    """Layered networks of up to `depth` layers, both activations and both read-outs."""
    readout = draw(st.sampled_from(["softmax", "squared_error"]))
    outside = 1 if readout == "squared_error" else 2
    sizes = draw(st.lists(SIZES, min_size=1 + outside, max_size=depth + outside))
    return layered(sizes, draw(st.sampled_from(["tanh", "hard_sigmoid"])), readout)


def networks() -> st.SearchStrategy[Network]:
    """Any network that has a builder."""
    return looped() | stacks()


def random_params(
    network: Network, rng: np.random.Generator, norm: float, dtype: type = np.float64
) -> Params:
    """Draw parameters of order one whose recurrent matrix has the spectral norm `norm`."""
    params = initial_params(network, rng, dtype)
    for name, block in params.items():
        if block.ndim == 1:
            block[...] = rng.normal(0.0, 0.5, block.shape)
        elif name == "W_out":
            block *= 2.0
    found = recurrent_norm(params)
    for coupling in network.recurrent:
        params[coupling.name][...] *= norm / found if found > 0.0 else 0.0
    return params


def random_states(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw states within the range of every activation, some units at its edges."""
    drives = rng.normal(0.3, 1.0, (samples, network.units))
    states: FloatArray = dynamics.activate(network, drives)
    return states


def random_targets(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw class rows for a softmax, states within reach for a squared error."""
    if isinstance(network.readout, SoftmaxReadout):
        return np.eye(network.outputs)[rng.integers(network.outputs, size=samples)]
    return network.of(network.readout.layer, random_states(network, rng, samples))


@dataclass(frozen=True)
class Case:
    """A network with parameters whose recurrent norm is `norm`, a batch and a start."""

    network: Network
    params: Params
    norm: float
    x: FloatArray
    y: FloatArray
    start: FloatArray

    @cached_property
    def backend(self) -> NumbaBackend:
        return NumbaBackend(self.network, self.params)

    @cached_property
    def clamped(self) -> Clamped:
        return self.backend.clamp(self.x, self.y)

    @property
    def solvers(self) -> list[str]:
        """Solvers that the network has."""
        has_halves = not any(c.name == "W_rec" for c in self.network.couplings)
        return ["fixed_point", "anderson"] + ["alternating"] * has_halves


@st.composite
def cases(
    draw: st.DrawFn,
    any_network: st.SearchStrategy[Network] | None = None,
    low: float = 0.0,
    high: float = 0.8,
    dtype: type = np.float64,
) -> Case:
    """Draw a whole case with a recurrent norm from `low` to `high`."""
    network = draw(any_network if any_network is not None else networks())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    norm = draw(st.floats(low, high))
    samples = draw(st.integers(1, 6))
    params = random_params(network, rng, norm, dtype)
    x = rng.normal(0.0, 1.0, (samples, network.inputs)).astype(dtype)
    y = random_targets(network, rng, samples).astype(dtype)
    start = random_states(network, rng, samples).astype(dtype)
    return Case(network, params, norm if network.recurrent else 0.0, x, y, start)
