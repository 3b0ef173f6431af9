"""How close the gradient of equilibrium propagation comes to the gradient of the loss.

References come in as functions, so that this module needs no autograd; its own reference is the
central difference of the loss along directions that keep lateral blocks symmetric.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import Estimator, centered, estimate
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params
from golden.directions import symmetric_basis

Reference: TypeAlias = Callable[[Network, Params, FloatArray, FloatArray], FloatArray]
"""The gradient of the mean cost, `(network.size,)`, from `network, params, x, y`."""

CONVERGED = Relaxation(max_steps=5000, tolerance=1e-14)
"""A few roundings in float64: an error of the gradient is then one of the estimator."""
BETA = 0.01
LEAST_COSINE = 0.9999
LARGEST_ERROR = 1e-3
DIFFERENCE_STEP = 1e-4
"""Balances the error of a central difference, O(step^2), and of the loss, O(1e-14 / step)."""


@dataclass(frozen=True)
class Fidelity:
    """Agreement of an estimated gradient with one reference."""

    reference: str
    cosine: float
    relative_error: float

    @property
    def passed(self) -> bool:
        """Whether direction and length agree."""
        return self.cosine >= LEAST_COSINE and self.relative_error <= LARGEST_ERROR


def measure_fidelity(
    backend: Backend,
    x: FloatArray,
    y: FloatArray,
    references: Mapping[str, Reference],
    estimator: Estimator | None = None,
) -> tuple[Fidelity, ...]:
    """Compare the estimate on converged phases with every reference; centered by default."""
    estimated = eqprop_gradient(backend, x, y, estimator or centered(BETA))
    return tuple(
        compare_gradients(name, estimated, reference(backend.network, backend.params, x, y))
        for name, reference in references.items()
    )


def compare_gradients(name: str, estimated: FloatArray, trusted: FloatArray) -> Fidelity:
    """Measure `cos(g, g*)` and `|g - g*| / |g*|`."""
    length = float(np.linalg.norm(trusted))
    if not length > 0.0:
        raise EngineError(
            f"reference '{name}' has a gradient of norm {length}, nothing to compare."
        )
    cosine = float(estimated @ trusted) / (length * float(np.linalg.norm(estimated)))
    return Fidelity(name, cosine, float(np.linalg.norm(estimated - trusted)) / length)


def eqprop_gradient(
    backend: Backend, x: FloatArray, y: FloatArray, estimator: Estimator
) -> FloatArray:
    """Estimate the gradient of the mean cost on converged phases, `(network.size,)`."""
    gradient = np.zeros(backend.network.size)
    report = estimate(backend, backend.clamp(x, y), estimator, gradient, CONVERGED)
    if report.unsettled > 0.0:
        raise EngineError(
            f"{report.unsettled:.1%} of the samples of all phases did not settle within "
            f"{CONVERGED.max_steps} steps: their estimate says nothing about the estimator."
        )
    return gradient


def difference_gradient(backend: Backend, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the whole gradient by central differences: two relaxations for each parameter."""
    basis = symmetric_basis(backend.network)
    gradient: FloatArray = directional_derivatives(backend, x, y, basis) @ basis
    return gradient


def directional_derivatives(
    backend: Backend,
    x: FloatArray,
    y: FloatArray,
    directions: FloatArray,
    step: float = DIFFERENCE_STEP,
) -> FloatArray:
    """`(L(theta + step d) - L(theta - step d)) / (2 step)` for every row `d` of `directions`.

    The backend moves its parameters while this runs, and has them back in the end.
    """
    here = backend.params.copy()
    derivatives = np.empty(len(directions))
    try:
        for k, direction in enumerate(directions):
            losses = []
            for sign in (1.0, -1.0):
                backend.load(Params(here.network, here.theta + sign * step * direction))
                losses.append(mean_cost(backend, x, y))
            derivatives[k] = (losses[0] - losses[1]) / (2 * step)
    finally:
        backend.load(here)
    return derivatives


def mean_cost(backend: Backend, x: FloatArray, y: FloatArray) -> float:
    """Return the loss: the mean cost at the free equilibrium."""
    clamped = backend.clamp(x, y)
    free = backend.settle(clamped, relaxation=CONVERGED)
    if not free.converged.all():
        raise EngineError(f"the loss has no gradient away from equilibrium: {free.summary()}.")
    return float(dynamics.cost(backend.network, backend.params, free.state, clamped.y).mean())
