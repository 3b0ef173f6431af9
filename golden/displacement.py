"""What rounding leaves of a gradient in single precision: nudged states against displacements."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.equilibrium import Relaxation
from engine.errors import EngineError, NudgeWarning
from engine.learning.estimator import Estimator, centered, estimate, one_sided
from engine.learning.scale import START, calibrated
from engine.learning.spectral import AUTO_CAP
from engine.model.builders import conv_net
from engine.model.params import initial_params
from golden.cases import SAMPLES, Case, Factory
from golden.draws import draw_inputs, draw_targets, stream
from golden.fidelity import Reference, compare_gradients

BETAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
DEEPEST = 7
DRAWS = 20
DEEP_BETA = 1e-5
"""So small that hardly a relu crosses its kink; a displacement loses nothing by it."""
LEAST_LAYER_COSINE = 0.999
ROUNDING = 1e-4
"""Relative error at any beta: the tolerance of a phase, over what contracts (a twentieth, at a cap
of 0.95), and a few times that."""
SETTLED = Relaxation(400, 1e-6, "sweeps")
FREE_SWEEPS = 12
NUDGED_SWEEPS = math.ceil(
    math.log(2 * (1 - LEAST_LAYER_COSINE)) / (2 * math.log(START * AUTO_CAP.cap))
)
"""What is left of a displacement after them, at the contraction of the start, turns a gradient by
no more than the angle of that cosine: `contraction^sweeps = sqrt(2 (1 - cosine))`."""


@dataclass(frozen=True)
class Errors:
    """Relative errors of the gradient, one for each of `BETAS`."""

    states: tuple[float, ...]
    displaced: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether a displacement is as exact as states, and loses nothing to rounding."""
        return self.displaced[-1] <= ROUNDING and all(
            moved <= 1.05 * state + ROUNDING
            for moved, state in zip(self.displaced, self.states, strict=True)
        )


def measure_errors(case: Case, factory: Factory, trusted: Reference) -> Errors:
    """Measure the centered estimate on settled phases in float32, with every beta."""
    exact = trusted(case.network, case.params, case.x, case.y)
    backend = case.build(factory, np.float32)
    found = [
        [
            _gradient(backend, case, centered(beta), SETTLED, SETTLED, displaced) - exact
            for beta in BETAS
        ]
        for displaced in (False, True)
    ]
    states, moved = np.linalg.norm(found, axis=-1) / np.linalg.norm(exact)
    return Errors(tuple(states.tolist()), tuple(moved.tolist()))


@dataclass(frozen=True)
class DepthCosines:
    """Cosine with the exact gradient of each layer's matrix, bottom to top."""

    depth: int
    signal: float
    """Size of the top layer as a share of the bottom's."""
    states: tuple[float, ...]
    displaced: tuple[float, ...]

    @property
    def passed(self) -> bool:
        """Whether every layer learns in the right direction."""
        return min(self.displaced) >= LEAST_LAYER_COSINE


def living_case(depth: int, seed: int, trusted: Reference) -> tuple[Case, FloatArray]:
    """Draw a convolutional network of so many layers, its blocks just below their cap.

    Return its exact gradient, too. Where all relus of a layer are off for every sample, those below
    have none to be right about: such a network is drawn again.
    """
    network = conv_net((5, 5, 2), (3,) * depth, 3, stride=1)
    rng = stream(seed, f"depth {depth}")
    for _ in range(DRAWS):
        params = initial_params(network, rng, np.float64)  # without biases: signals have to fade
        x = draw_inputs(network, rng, SAMPLES)
        y = draw_targets(network, x, rng)
        case = Case(f"depth {depth}", calibrated(params, x), x, y)
        exact = trusted(network, case.params, case.x, case.y)
        if all(exact[network.blocks[f"W_{k + 1}"].span].any() for k in range(depth)):
            return case, exact
    raise EngineError(f"{DRAWS} networks of {depth} layers have a layer that nothing passes.")


def measure_depth(
    depth: int, seed: int, factory: Factory, trusted: Reference, sweeps: int = NUDGED_SWEEPS
) -> DepthCosines:
    """Compare layer by layer in float32, after so many nudged sweeps, with one small nudge."""
    case, exact = living_case(depth, seed, trusted)
    network = case.network
    backend = case.build(factory, np.float32)
    free = Relaxation(FREE_SWEEPS, 0.0, "sweeps")
    nudged = Relaxation(sweeps, 0.0, "sweeps")
    cosines = []
    for displaced in (False, True):
        found = _gradient(backend, case, one_sided(DEEP_BETA), free, nudged, displaced)
        spans = [network.blocks[f"W_{k + 1}"].span for k in range(depth)]
        cosines.append(tuple(_cosine(found[span], exact[span]) for span in spans))
    state = backend.settle(backend.clamp(case.x), relaxation=free).state
    bottom, top = (
        network.of(layer.name, state) for layer in (network.layers[0], network.layers[-1])
    )
    return DepthCosines(depth, float(np.sqrt(np.mean(top**2) / np.mean(bottom**2))), *cosines)


def depth_sweep(
    seed: int, factory: Factory, trusted: Reference, sweeps: int = NUDGED_SWEEPS
) -> Iterator[DepthCosines]:
    """Measure networks of one layer to `DEEPEST`."""
    for depth in range(1, DEEPEST + 1):
        yield measure_depth(depth, seed, factory, trusted, sweeps)


def _cosine(found: FloatArray, exact: FloatArray) -> float:
    """Return the cosine; that of nothing, which states may leave of a gradient, is zero."""
    return compare_gradients("trusted", found, exact).cosine if found.any() else 0.0


def _gradient(
    backend: Backend,
    case: Case,
    estimator: Estimator,
    free: Relaxation,
    nudged: Relaxation,
    displaced: bool,
) -> FloatArray:
    """Return the estimate in double precision; what a tiny nudge of states loses is no surprise."""
    gradient = np.zeros(case.network.size, backend.dtype)
    clamped = backend.clamp(case.x, case.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)
        estimate(backend, clamped, estimator, gradient, free, replace(nudged, displaced=displaced))
    return gradient.astype(np.float64)
