"""What every backend is held to: the backends, the networks, and the formulas that judge them.

A new backend is one more entry of `CANDIDATES`. `test_conformance*.py` run the suite.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from adapters.torch_backend import TorchBackend
from adapters.torch_solvers import Pace
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.dense import Bias, Dense, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import Embedding
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.errors import EngineError
from engine.model import dynamics
from engine.model.builders import (
    conv_net,
    energy_transformer,
    layered,
    looped_mlp,
    residual_net,
    resistive,
)
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from golden.reference import ReferenceBackend
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig

SAMPLES = 6


@dataclass(frozen=True)
class Candidate:
    """A backend and what may be asked of it."""

    name: str
    build: Callable[[Network, Params], Backend]
    dtype: type[np.floating]
    tolerance: float
    """Residual it must reach."""
    error: float
    """Largest difference from the formulas in double precision, where values are of order one."""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """What it does not do, by the name of a solver or a property, each with the reason."""
    rounding: float | None = None
    """Error of a residual; by default that of its precision."""

    def settling(self, solver: str = "fixed_point", damping: float = 1.0) -> Relaxation:
        """Return a relaxation that leads to the tolerance."""
        steps = 100_000 if solver == "ode" else 400
        return Relaxation(steps, self.tolerance, solver, damping)  # type: ignore[arg-type]


PLAIN_STEPS = {
    "anderson": "the scalar reference judges by plain steps only",
    "ode": "the scalar reference judges by plain steps only",
}
IN_DOUBLE = {"overflow of ode": "it integrates in double, where no float32 overflows"}
ON_DEVICE = {"ode": "torch steps tensors where they lie, and scipy integrates arrays of numpy"}
DOUBLE_SUMS = {"overflow": "the scalar reference sums in double, where no float32 overflows"}
BY_BLAS = {"bits": "BLAS sums a row in an order that depends on the rows beside it"}
FLOAT32 = {"dtype": np.float32, "tolerance": 2e-6, "error": 2e-5}
FLOAT64 = {"dtype": np.float64, "tolerance": 1e-11, "error": 1e-9}

WHOLE_STEPS = {
    "anderson": "a substrate has no memory for earlier steps",
    "ode": "a substrate steps by its clock; how a crossbar settles is integrated for its bill",
    "alternating": "a substrate updates all units at once",
    "sweeps": "a substrate updates all units at once",
    "displaced": "a substrate has no word for the drive of its free state",
    "damping": "a substrate takes whole steps",
    "no link": "a substrate holds blocks of products: no attention, no pools, no groups",
}
BOUNDED = {"overflow": "words and conductances saturate, so no drive overflows"}
SMALL_WORDS = {
    "large logits": "a bias beyond the range of its words saturates",
    "small nudges": "what a nudge moves by less than a word of the state is lost",
}
ONE_BY_ONE = {"overflow": "events add to a drive one by one, so opposite infinities never meet"}
WIDE = DigitalConfig(20, 16, 60, None, 20, weight_range=4.0)
IDEAL = CrossbarConfig(on_off_ratio=np.inf)


def masked_torch(network: Network, params: Params) -> TorchBackend:
    """Return torch as on a GPU: seldom asked, and samples that have settled stay in the batch."""
    backend = TorchBackend(network, params, "cpu")
    backend.pace = Pace(3, gathers=False)
    return backend


CANDIDATES = (
    Candidate("reference-32", ReferenceBackend, **FLOAT32, unsupported=PLAIN_STEPS | DOUBLE_SUMS),
    Candidate("reference-64", ReferenceBackend, **FLOAT64, unsupported=PLAIN_STEPS),
    Candidate("numba-32", NumbaBackend, **FLOAT32, unsupported=IN_DOUBLE),
    Candidate("numba-64", NumbaBackend, **FLOAT64),
    Candidate(
        "torch-32", partial(TorchBackend, device="cpu"), **FLOAT32, unsupported=ON_DEVICE | BY_BLAS
    ),
    Candidate(
        "torch-64", partial(TorchBackend, device="cpu"), **FLOAT64, unsupported=ON_DEVICE | BY_BLAS
    ),
    Candidate("torch-masked", masked_torch, **FLOAT64, unsupported=ON_DEVICE | BY_BLAS),
    Candidate(
        "digital",
        partial(DigitalBackend, config=WIDE),
        dtype=np.float64,
        tolerance=2 * 2.0**-WIDE.state_fraction,
        error=20 * WIDE.map_error,
        unsupported=WHOLE_STEPS | BOUNDED | SMALL_WORDS,
        rounding=3 * WIDE.map_error,  # of the activation; inputs and weights are rounded besides
    ),
    Candidate(
        "crossbar",
        partial(CrossbarBackend, config=IDEAL),
        **FLOAT64,
        unsupported=WHOLE_STEPS | BOUNDED,
    ),
    Candidate(
        "spiking",
        partial(SpikingBackend, config=SpikingConfig(threshold=0.0)),
        **FLOAT64,
        unsupported=WHOLE_STEPS | ONE_BY_ONE,
    ),
)


def _with_a_loop(network: Network) -> Network:
    """Let the last layer be coupled to itself."""
    return replace(network, couplings=(*network.couplings, Lateral("L", network.readout.layer)))


NETWORKS = {
    "looped": looped_mlp(4, 6, 3),
    "layered-1": layered((4, 6, 3)),
    "layered-2": layered((4, 6, 5, 3)),
    "layered-3": layered((4, 5, 6, 4, 3)),
    "hard-sigmoid": layered((4, 6, 3), "hard_sigmoid", "squared_error"),
    "convolution": conv_net((5, 6, 2), (3, 2), 3, activation="hard_sigmoid"),
    "pooled-grouped": Network(
        3 * 5 * 2,
        (Layer("low", (3, 5, 2), "hard_sigmoid"), Layer("high", (1, 2, 2))),
        (
            InputConvolution("W_1", "low", (3, 5, 2), groups=2),
            Convolution("W_2", "low", "high", pooling="mean", groups=2),
            ChannelBias("b_1", "low", 0.5, 15),
            ChannelBias("b_2", "high", 0.0, 2),
        ),
        SoftmaxReadout("high", 3),
    ),
    "residual": residual_net((3, 3, 1), (1, 1, 1, 2), 3, activation="hard_sigmoid"),
    "convolution-dense": _with_a_loop(conv_net((5, 4, 1), (3,), 3, activation="tanh")),
    "resistive": resistive((4, 6, 3)),
    "resistive, amplified": resistive((4, 3, 4, 3), amplification=1.3),
    "transformer": energy_transformer(5, 3, width=6),
    "transformer-masked": energy_transformer(
        5, 4, width=3, heads=1, head_size=5, outputs=2, memories=4, causal=True
    ),
    "mixed": Network(
        3,
        (Layer("tokens", (3, 4)), Layer("top", (5,), "hard_sigmoid")),
        (
            Embedding("E", "tokens", 5),
            Attention("A", "tokens", heads=1, head_size=3),
            Dense("W", "tokens", "top"),
            Hopfield("M", "tokens", 4),
            Bias("b", "top", 0.5),
        ),
        SoftmaxReadout("top", 3),
    ),
}


def only_links(network: Network) -> bool:
    """Whether every coupling is a link, as those who hold blocks of products need it."""
    return all(coupling.name in network.links for coupling in network.couplings)


RUNNABLE = {
    f"{candidate.name}-{name}": (candidate, network)
    for candidate in CANDIDATES
    for name, network in NETWORKS.items()
    if only_links(network) or "no link" not in candidate.unsupported
}
"""Every backend with every network that it can run."""


@dataclass(frozen=True)
class Trial:
    """One backend with one network, a batch, and the same in double precision for the judge."""

    candidate: Candidate
    network: Network
    gain: float = 1.0
    """Factor of the recurrent blocks; as they are drawn, every network contracts."""

    @cached_property
    def params(self) -> Params:
        """Weights within the contraction range; biases that keep hard sigmoids off their edges."""
        rng = np.random.default_rng(7)
        params = initial_params(self.network, rng, self.candidate.dtype)
        for name, block in params.items():
            if name.startswith("b"):
                block[...] = 0.3 + 0.1 * rng.standard_normal(block.shape)
        for coupling in self.network.recurrent:
            params[coupling.name][...] *= self.gain
        return params

    @cached_property
    def x(self) -> FloatArray:
        """Inputs, `(SAMPLES, inputs)`."""
        rng, shape = np.random.default_rng(8), (SAMPLES, self.network.inputs)
        if self.network.vocabulary is not None:
            return rng.integers(self.network.vocabulary, size=shape).astype(self.candidate.dtype)
        return rng.normal(0.0, 0.7, shape).astype(self.candidate.dtype)

    @cached_property
    def y(self) -> FloatArray:
        """Targets `(SAMPLES, outputs)`: probabilities, of which no two samples have the same.

        In parts of 64, so that the words of a chip hold them exactly.
        """
        reading, rng = self.network.reading, np.random.default_rng(11)
        tokens = max(1, reading.positions) if reading else 1
        classes = self.network.outputs // tokens
        sure = np.eye(classes)[np.arange(SAMPLES * tokens) % classes]
        shares = rng.multinomial(64, 0.8 * sure + 0.2 / classes) / 64
        targets: FloatArray = shares.reshape(SAMPLES, -1).astype(self.candidate.dtype)
        assert len(np.unique(targets, axis=0)) == SAMPLES
        return targets

    @cached_property
    def uneven(self) -> FloatArray:
        """Starts `(SAMPLES, units)` at, near and far from the free equilibrium, in turns.

        So samples settle at different times, and rows move when they leave.
        """
        rng, settled = np.random.default_rng(10), equilibrium(self)
        far = dynamics.activate(self.network, rng.normal(0.3, 1.0, settled.shape))
        away = np.array([0.0, 0.01, 1.0])[np.arange(SAMPLES) % 3, None]
        starts: FloatArray = (settled + away * (far - settled)).astype(self.candidate.dtype)
        return starts

    @property
    def given(self) -> tuple[Network, bytes, bytes, bytes]:
        """All that the formulas read, as a key."""
        return (self.network, *(part.tobytes() for part in (self.params.theta, self.x, self.y)))

    @cached_property
    def backend(self) -> Backend:
        """The backend under trial."""
        return self.candidate.build(self.network, self.params)

    @cached_property
    def clamped(self) -> Clamped:
        """The whole batch."""
        return self.backend.clamp(self.x, self.y)

    def relax(self, beta: float = 0.0, start: FloatArray | None = None) -> Equilibrium:
        """Let the backend settle to its tolerance."""
        return self.backend.settle(self.clamped, beta, self.candidate.settling(), start)

    @property
    def solvers(self) -> list[str]:
        """Solvers that both the backend and the network have."""
        solvers = set(self.backend.solvers)
        try:
            _ = self.network.halves
        except EngineError:
            solvers.discard("alternating")
        return sorted(solvers)

    @property
    def between_batches(self) -> float:
        """Largest difference of a sample in another batch: none, but for the rounding of BLAS."""
        return self.candidate.error if "bits" in self.candidate.unsupported else 0.0


def image(trial: Trial, state: FloatArray, beta: float = 0.0) -> FloatArray:
    """`T(s)` by the formulas, in double precision."""
    params, x, y = (np.float64(a) for a in (trial.params.theta, trial.x, trial.y))
    blocks = Params(trial.network, params)
    drive = dynamics.clamped_drive(trial.network, blocks, x)
    mapped: FloatArray = dynamics.step(trial.network, blocks, x, y, np.float64(state), beta, drive)
    return mapped


def origin(trial: Trial, solver: str = "fixed_point") -> FloatArray:
    """Where a relaxation begins by itself: `sigma(input drive)`; in sweeps the first layer alone.

    What is above it begins at zero.
    """
    blocks = trial.params.astype(np.float64)
    drive = dynamics.clamped_drive(trial.network, blocks, np.float64(trial.x))
    state: FloatArray = dynamics.activate(trial.network, drive)
    if solver == "sweeps":
        state[:, trial.network.layers[0].size :] = 0.0
    return state


_JUDGED: dict[tuple[Any, ...], Any] = {}
"""What the judge has said of all that it was given: backends of one precision share a sentence."""


def equilibrium(trial: Trial, beta: float = 0.0) -> FloatArray:
    """The fixed point by plain iteration of the formulas."""
    key = ("equilibrium", *trial.given, beta)
    if key not in _JUDGED:
        state = origin(trial)
        while np.abs((mapped := image(trial, state, beta)) - state).max() > 1e-14:
            state = mapped
        _JUDGED[key] = mapped
    return _JUDGED[key].copy()


def walk(
    trial: Trial, relaxation: Relaxation, beta: float = 0.0, start: FloatArray | None = None
) -> Equilibrium:
    """What all solvers but `anderson` have to do, in the plainest words.

    A displaced relaxation starts at `start`, and returns displacements as its states.
    """
    begun = None if start is None else (start.dtype, start.tobytes())
    key = ("walk", *trial.given, relaxation, beta, begun)
    if key not in _JUDGED:
        _JUDGED[key] = _walk(trial, relaxation, beta, start)
    return deepcopy(_JUDGED[key])


def _walk(
    trial: Trial, relaxation: Relaxation, beta: float, start: FloatArray | None
) -> Equilibrium:
    displaced = relaxation.displaced
    state = (
        np.zeros((SAMPLES, trial.network.units)) if displaced else origin(trial, relaxation.solver)
    )
    steps, residual = np.zeros(SAMPLES, np.int64), np.full(SAMPLES, np.inf)
    settled = np.zeros(SAMPLES, bool)
    for _ in range(relaxation.max_steps):
        mapped = stepped(trial, state, beta, relaxation.solver, start if displaced else None)
        steps[~settled] += 1
        residual[~settled] = np.abs(mapped - state).max(-1)[~settled]
        settled = residual <= relaxation.tolerance
        moved = state + relaxation.damping * (mapped - state)
        state = np.where(settled[:, None], state, moved)
    return Equilibrium(state, steps, residual, settled, beta)


def stepped(
    trial: Trial,
    state: FloatArray,
    beta: float,
    solver: str,
    start: FloatArray | None = None,
) -> FloatArray:
    """`T(s)` as a solver means it: turn by turn; of a displacement if it has a start."""
    network, mapped = trial.network, np.array(state, np.float64)
    for layers in network.turns(solver, nudged=beta != 0.0):
        seen = mapped.copy()
        there = image(trial, seen, beta) if start is None else further(trial, start, seen, beta)
        for name in layers:
            mapped[:, network.columns[name]] = there[:, network.columns[name]]
    return mapped


def further(trial: Trial, start: FloatArray, displacement: FloatArray, beta: float) -> FloatArray:
    """`D(d)` from `start`, as the difference of two activations, in double precision."""
    network, blocks = trial.network, trial.params.astype(np.float64)
    x, y, here = (np.float64(a) for a in (trial.x, trial.y, start))
    drive = dynamics.clamped_drive(network, blocks, x)
    drive = drive + dynamics.recurrent_drive(network, blocks, x, here)
    more = dynamics.recurrent_drive(network, blocks, x, displacement)
    if beta != 0.0:
        pull = dynamics.nudge(network, blocks, here + displacement, y)
        more = more - beta * dynamics.eased(network, blocks, pull)
    found: FloatArray = dynamics.activate(network, drive + more)
    return found - dynamics.activate(network, drive)


def slopes(trial: Trial, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """dE/dtheta and dC/dtheta summed over samples, each `(network.size,)`, by the formulas."""
    network, state = trial.network, np.float64(state)
    blocks, x, y = trial.params.astype(np.float64), np.float64(trial.x), np.float64(trial.y)
    energy, cost = (Params(network, np.zeros(network.size)) for _ in range(2))
    for coupling in network.couplings:
        ends = [network.of(name, state) for name in coupling.layers]
        energy[coupling.name][...] = -coupling.correlate(blocks[coupling.name], x, *ends)
    read = network.of(network.readout.layer, state)
    for name, slope in network.readout.correlate(blocks, read, y).items():
        cost[name][...] = slope
    return energy.theta, cost.theta


def mean_cost(trial: Trial, state: FloatArray) -> float:
    """Mean cost of a state, in double precision."""
    blocks = trial.params.astype(np.float64)
    return float(dynamics.cost(trial.network, blocks, np.float64(state), trial.y).mean())


def assert_close(found: FloatArray, expected: FloatArray, error: float) -> None:
    """Fail where two arrays differ by more than `error`, whatever their size."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=error)


def around(beta: float, free: Relaxation, nudged: Relaxation) -> Plan:
    """Return the plan of a free phase, and of two opposite nudges from where it ends."""
    return (((0.0,), free), ((beta, -beta), nudged))
