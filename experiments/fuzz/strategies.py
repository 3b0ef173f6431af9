"""Hypothesis strategies: networks of every kind, with parameters, a batch and a start.

Shapes are drawn by Hypothesis, so that they shrink; numbers come from a drawn seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.coupling import Coupling
from engine.equilibrium import Clamped, Solver
from engine.errors import EngineError
from engine.learning.checkpoint import describe_network, network_from
from engine.learning.spectral import has_cap, recurrent_norm
from engine.model import dynamics
from engine.model.builders import energy_transformer, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.fuzz.images import images
from hw_sim.chips.catalogue import CHIPS

SIZES = st.integers(1, 7)
BETAS = (0.0, 0.02, -0.02)
SCALES = ("plain", "rank one", "denormal", "large input", "uneven")
"""Kinds of numbers: of order one, recurrent blocks of rank one, all but zero, saturating,
and drives of sizes that differ by powers of ten."""


def looped() -> st.SearchStrategy[Network]:
    """The reference network in any size."""
    return st.builds(looped_mlp, SIZES, SIZES, SIZES)


@st.composite
def stacks(
    draw: st.DrawFn, depth: int = 4, activations: Sequence[str] = ("tanh", "hard_sigmoid")
) -> Network:
    """Layered networks of up to `depth` layers and both read-outs."""
    readouts: tuple[Literal["softmax", "squared_error"], ...] = ("softmax", "squared_error")
    readout = draw(st.sampled_from(readouts))
    outside = 1 if readout == "squared_error" else 2
    sizes = draw(st.lists(SIZES, min_size=1 + outside, max_size=depth + outside))
    return layered(sizes, draw(st.sampled_from(activations)), readout)


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
    """Any network that has a builder, and convolutions in groups."""
    return quadratic_networks() | images() | transformers()


def smooth_networks() -> st.SearchStrategy[Network]:
    """Those without kinks."""
    return looped() | stacks(activations=("tanh",))


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
    scale_recurrent(params, norm)
    return params


def scale_recurrent(params: Params, norm: float) -> None:
    """Bring the spectral norm of the recurrent matrix to `norm`, unless it is zero."""
    found = recurrent_norm(params)
    for coupling in params.network.recurrent:
        params[coupling.name][...] *= norm / found if found > 0.0 else 0.0


def attention_bound(coupling: Coupling, w: FloatArray, tokens: int) -> tuple[float, float]:
    """Bound the norm of the second derivative of `Phi` as `a c^2 + b c^4` for weights `c w`.

    `docs/maths.md` derives it.
    """
    match coupling:
        case Hopfield():
            return float(coupling.sharpness * np.linalg.norm(w, 2) ** 2 / 2), 0.0
        case Attention():
            heads = coupling.split(w, tokens)
            products = [
                np.linalg.norm(q, 2) * np.linalg.norm(k, 2)
                for q, k in zip(heads.query, heads.key, strict=True)
            ]
            width = heads.query.shape[-1]
            first = sum(2 * tokens**0.5 * product for product in products)
            second = sum(2 * coupling.sharpness * width * (tokens + 1) * p**2 for p in products)
            return float(first), float(second)
        case _:
            raise EngineError(f"no bound is known of the coupling '{coupling.name}'.")


def _scale_attention(params: Params, norm: float) -> None:
    """Scale attention and memories, an equal share of `norm` for each."""
    recurrent = params.network.recurrent
    for coupling in recurrent:
        share, block = norm / len(recurrent), params[coupling.name]
        tokens = params.network.shapes[coupling.layers[0]][0]
        a, b = attention_bound(coupling, block.astype(np.float64), tokens)
        square = share / a if b == 0.0 else ((a * a + 4 * b * share) ** 0.5 - a) / (2 * b)
        # The bound of attention grows with queries and keys, whatever its biases are.
        scaled = coupling.split(block, tokens)[:2] if hasattr(coupling, "split") else (block,)
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
    """Draw probabilities for a softmax, states within reach for a squared error.

    No two samples have the same target, so that one that is taken for another is seen.
    """
    tokens = network.reading.positions if network.reading else 0
    if tokens:
        classes = network.outputs // tokens
        sure = np.eye(classes)[rng.integers(classes, size=samples * tokens)]
        spread = rng.dirichlet(np.ones(classes), samples * tokens)
        rows: FloatArray = (0.8 * sure + 0.2 * spread).reshape(samples, -1)
        return rows
    reached: FloatArray = network.of(network.readout.layer, random_states(network, rng, samples))
    return reached


@dataclass(frozen=True)
class Case:
    """A network with parameters whose recurrent norm is `norm`, a batch and a start."""

    network: Network
    params: Params
    norm: float
    x: FloatArray
    y: FloatArray
    start: FloatArray
    beta: float = 0.0
    seed: int = 0
    """For choices of a property, such as a permutation."""
    scale: str = "plain"
    chip: dict[str, Any] | None = None
    """Kind and settings of a simulated chip, for a property of chips."""

    @cached_property
    def backend(self) -> NumbaBackend:
        """The compiled backend with these parameters."""
        return NumbaBackend(self.network, self.params)

    @cached_property
    def clamped(self) -> Clamped:
        """The whole batch."""
        return self.backend.clamp(self.x, self.y)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator, the same each time."""
        return np.random.default_rng(self.seed)

    @property
    def solvers(self) -> list[Solver]:
        """Solvers that the backend and the network have."""
        names: list[Solver] = ["fixed_point", "anderson", "alternating"]
        try:
            _ = self.network.halves
        except EngineError:
            names.remove("alternating")
        return [name for name in names if name in self.backend.solvers]

    def features(self) -> set[str]:
        """Name what is special about it, for the coverage that the fuzzer shows."""
        kind = f"{len(self.network.layers)} layers"
        if "W_rec" in self.params:
            kind = "looped"
        elif self.network.squares:
            kind = "circuit"
        elif not has_cap(self.network):
            kind = "attention"
        elif len(self.network.layers[0].shape) == 3:
            kind = "image"
        bands = {0.5: "weak", 0.95: "strong", 1.0: "at the cap"}
        band = next((name for top, name in bands.items() if self.norm < top), "beyond the cap")
        nudge = {0: "free", 1: "nudged up", -1: "nudged down"}[int(np.sign(self.beta))]
        chip = {f"{self.chip['kind']} chip"} if self.chip else set()
        return chip | {
            kind,
            f"{band} coupling",
            nudge,
            f"{self.scale} numbers",
            self.network.layers[0].activation,
            type(self.network.readout).__name__,
            str(self.params.theta.dtype),
            "one sample" if len(self.x) == 1 else "several samples",
        }

    def as_text(self) -> dict[str, Any]:
        """Return numbers and texts alone, fit for JSON, from which it comes back exactly."""
        arrays = {"theta": self.params.theta, "x": self.x, "y": self.y, "start": self.start}
        return {
            "network": describe_network(self.network),
            "dtype": str(self.params.theta.dtype),
            **{name: array.tolist() for name, array in arrays.items()},
            **{name: getattr(self, name) for name in ("norm", "beta", "seed", "scale", "chip")},
        }

    @classmethod
    def from_text(cls, text: dict[str, Any]) -> "Case":
        """Rebuild what `as_text` described."""
        network, dtype = network_from(text["network"]), np.dtype(text["dtype"])
        theta, x, y, start = (np.array(text[n], dtype) for n in ("theta", "x", "y", "start"))
        rest = {name: text[name] for name in ("norm", "beta", "seed", "scale", "chip")}
        return cls(network, Params(network, theta), x=x, y=y, start=start, **rest)


ALL_FEATURES = frozenset(
    {"looped", "image", "attention", "circuit", *(f"{depth} layers" for depth in range(1, 5))}
    | {f"{band} coupling" for band in ("weak", "strong", "at the cap", "beyond the cap")}
    | {"free", "nudged up", "nudged down", "one sample", "several samples", "float32", "float64"}
    | {f"{scale} numbers" for scale in SCALES}
    | {f"{chip} chip" for chip in CHIPS}
    | {"tanh", "hard_sigmoid", "SoftmaxReadout", "SquaredError", "TokenReadout"}
)
"""What the strategies of this module can reach."""


@st.composite
def cases(
    draw: st.DrawFn,
    any_network: st.SearchStrategy[Network] | None = None,
    low: float = 0.0,
    high: float = 0.8,
    dtype: type = np.float64,
    betas: Sequence[float] = BETAS,
    scales: Sequence[str] = ("plain",),
) -> Case:
    """Draw a whole case with a recurrent norm from `low` to `high`."""
    network = draw(any_network if any_network is not None else networks())
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    norm = draw(st.floats(low, high))
    samples = draw(st.integers(1, 6))
    params = random_params(network, rng, norm, dtype)
    x: FloatArray = random_inputs(network, rng, samples).astype(dtype)
    y: FloatArray = random_targets(network, rng, samples).astype(dtype)
    start: FloatArray = random_states(network, rng, samples).astype(dtype)
    scale = draw(st.sampled_from(scales))
    _spoil(params, x, norm, scale, rng)
    if scale == "denormal" or not network.recurrent:
        norm = recurrent_norm(params)
    beta = draw(st.sampled_from(betas))
    return Case(network, params, norm, x, y, start, beta, seed, scale)


def wild_cases(
    any_network: st.SearchStrategy[Network] | None = None, **limits: Any
) -> st.SearchStrategy[Case]:
    """Cases with numbers of every scale, of networks whose recurrent drive is a matrix."""
    chosen = quadratic_networks() if any_network is None else any_network
    return cases(chosen, scales=SCALES, **limits)


def _spoil(
    params: Params, x: FloatArray, norm: float, scale: str, rng: np.random.Generator
) -> None:
    """Change the numbers in place to those of a scale."""
    if scale == "rank one":
        for coupling in params.network.recurrent:
            block = params[coupling.name]  # of a symmetric one the first row is the first column
            block[...] = np.outer(block[:, 0], block[0])
        scale_recurrent(params, norm)
    elif scale == "denormal":
        params.theta[...] *= np.finfo(params.theta.dtype).tiny / 16
    elif scale == "large input":
        x *= 50.0
    elif scale == "uneven":
        for coupling in params.network.couplings:
            if coupling.clamped:
                block = params[coupling.name]
                block *= 10.0 ** rng.uniform(-8.0, 1.5, block.shape)
