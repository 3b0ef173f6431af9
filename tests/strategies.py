"""Hypothesis strategies: networks of every kind, with parameters, a batch and a start.

Shapes are drawn by Hypothesis, so that they shrink; numbers come from a drawn seed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from engine import dynamics
from engine.arrays import FloatArray
from engine.attention import Attention, Hopfield
from engine.backend import Clamped
from engine.compiled import NumbaBackend
from engine.network import Network, layered, looped_mlp
from engine.params import Params, initial_params
from engine.readout import SoftmaxReadout
from engine.spectral import has_cap, recurrent_norm
from engine.tokens import TokenReadout
from engine.transformer import energy_transformer

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


def transformers() -> st.SearchStrategy[Network]:
    """Energy transformers with every mask, with and without memories."""
    few = st.integers(1, 3)
    return st.builds(
        energy_transformer,
        vocabulary=SIZES,
        length=st.integers(2, 4),
        width=st.integers(1, 5),
        heads=few,
        head_size=st.integers(1, 5),
        outputs=SIZES,
        memories=st.integers(0, 3),
        sharpness=st.sampled_from([0.5, 1.0, 2.0]),
        sees_itself=st.booleans(),
        causal=st.booleans(),
    )


def quadratic_networks() -> st.SearchStrategy[Network]:
    """Networks whose recurrent drive is a matrix, which the spectral cap knows."""
    return looped() | stacks()


def networks() -> st.SearchStrategy[Network]:
    """Any network that has a builder."""
    return quadratic_networks() | transformers()


def random_params(
    network: Network, rng: np.random.Generator, norm: float, dtype: type = np.float64
) -> Params:
    """Draw parameters of order one whose recurrent matrix has the spectral norm `norm`.

    Where that matrix depends on the state, `norm` bounds it for all states.
    """
    params = initial_params(network, rng, dtype)
    for name, block in params.items():
        if block.ndim == 1:
            block[...] = rng.normal(0.0, 0.5, block.shape)
        elif name == "W_out":
            block *= 2.0
    if not has_cap(network):
        _scale_attention(params, norm)
        return params
    found = recurrent_norm(params)
    for coupling in network.recurrent:
        params[coupling.name][...] *= norm / found if found > 0.0 else 0.0
    return params


def attention_bound(coupling: Attention | Hopfield, w: FloatArray) -> tuple[float, float]:
    """Bound the norm of the second derivative of `Phi` as `a c^2 + b c^4` for weights `c w`.

    `docs/maths.md` derives it.
    """
    if isinstance(coupling, Hopfield):
        return coupling.sharpness * np.linalg.norm(w, 2) ** 2 / 2, 0.0
    heads = coupling.split(w)
    products = [
        np.linalg.norm(q, 2) * np.linalg.norm(k, 2)
        for q, k in zip(heads.query, heads.key, strict=True)
    ]
    width, tokens = heads.query.shape[-1], coupling.tokens
    first = sum(2 * tokens**0.5 * product for product in products)
    second = sum(2 * coupling.sharpness * width * (tokens + 1) * p**2 for p in products)
    return float(first), float(second)


def _scale_attention(params: Params, norm: float) -> None:
    """Scale attention and memories, an equal share of `norm` for each."""
    recurrent = params.network.recurrent
    for coupling in recurrent:
        share, block = norm / len(recurrent), params[coupling.name]
        a, b = attention_bound(coupling, block.astype(np.float64))
        square = share / a if b == 0.0 else ((a * a + 4 * b * share) ** 0.5 - a) / (2 * b)
        scaled = coupling.split(block)[:2] if isinstance(coupling, Attention) else (block,)
        for part in scaled:
            part *= square**0.5


def random_inputs(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw tokens for a network that takes them, else numbers of order one."""
    shape = (samples, network.inputs)
    if network.vocabulary is not None:
        return rng.integers(network.vocabulary, size=shape).astype(np.float64)
    return rng.normal(0.0, 1.0, shape)


def random_states(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw states within the range of every activation, some units at its edges."""
    drives = rng.normal(0.3, 1.0, (samples, network.units))
    states: FloatArray = dynamics.activate(network, drives)
    return states


def random_targets(network: Network, rng: np.random.Generator, samples: int) -> FloatArray:
    """Draw class rows for a softmax, states within reach for a squared error."""
    if isinstance(network.readout, TokenReadout):
        shape = (samples, network.readout.tokens)
        tokens = rng.integers(network.readout.outputs, size=shape)
        return network.readout.targets(tokens, np.float64)
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
        """Solvers that the backend and the network have."""
        inside = any(len(coupling.layers) == 1 for coupling in self.network.recurrent)
        return sorted(self.backend.solvers - ({"alternating"} if inside else set()))


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
    x = random_inputs(network, rng, samples).astype(dtype)
    y = random_targets(network, rng, samples).astype(dtype)
    start = random_states(network, rng, samples).astype(dtype)
    return Case(network, params, norm if network.recurrent else 0.0, x, y, start)
