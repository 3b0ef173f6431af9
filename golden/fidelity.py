"""How close the gradient of equilibrium propagation comes to the gradient of the loss.

References come in as functions, so that this module needs no autograd; its own reference is the
central difference of the loss along directions that keep lateral blocks symmetric.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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

CONVERGED = Relaxation(max_steps=5000, tolerance=1e-13)
"""What rounding leaves of a step in float64: eps times the terms of a drive, some twenty, of sizes
up to twenty after training. With less, states flicker in their last bits for ever. A gradient is
then off by `tolerance / ((1 - cap) beta)`, 2e-10 at `BETA`: an error is one of the estimator."""
BETA = 0.01
"""The largest nudge of a comparison; a case that it biases too much is nudged less."""
LARGEST_ERROR = 1e-3
"""The bias may be a tenth of it; what is left is room for the errors of the references."""
LEAST_COSINE = 0.9999
"""Asked beside the error, which leaves `1 - error^2 / 2` and more."""
BIAS = LARGEST_ERROR / 10
ATTEMPTS = 6
"""Nudges that are tried. From the second on the leading order predicts the next one, and each may
be a tenth of the one before: down to 1e-8, where rounding is no smaller than a bias may be."""
DIFFERENCE_STEP = 1e-4
"""Balances the error of a central difference, O(step^2), and of the loss, O(1e-13 / step)."""


@dataclass(frozen=True)
class Fidelity:
    """Agreement of an estimated gradient with one reference; `beta` where it was chosen for it."""

    reference: str
    cosine: float
    relative_error: float
    beta: float | None = None

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
    """Compare the estimate on converged phases with every reference.

    Without an estimator it is the centered one, with the nudge that fits.
    """
    beta = fitting_beta(backend, x, y) if estimator is None else None
    estimated = eqprop_gradient(backend, x, y, estimator or centered(beta or BETA))
    return tuple(
        replace(
            compare_gradients(name, estimated, reference(backend.network, backend.params, x, y)),
            beta=beta,
        )
        for name, reference in references.items()
    )


def fitting_beta(backend: Backend, x: FloatArray, y: FloatArray) -> float:
    """Return a nudge of at most `BETA` that biases the centered estimate by at most `BIAS`.

    The estimate is `g(beta) = g + c beta^2 + O(beta^4)`, so `4/3 |g(beta) - g(beta / 2)|` is its
    bias, whatever `g` is: no reference is asked, and an estimate of something else than the
    gradient stays wrong with any nudge. A bias counts relative to the gradient. Where signals fade
    on their way, or the samples of a batch cancel, little is left of that, and a nudge of the usual
    size is too large.
    """
    beta = BETA
    for _ in range(ATTEMPTS):
        whole, half = (eqprop_gradient(backend, x, y, centered(size)) for size in (beta, beta / 2))
        bias = 4 / 3 * float(np.linalg.norm(whole - half) / np.linalg.norm(half))
        if bias <= BIAS:
            return beta
        beta *= max(0.1, 0.9 * (BIAS / bias) ** 0.5)
    raise EngineError(f"no nudge down to {beta:.1e} biases the estimate by less than {BIAS:g}.")


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
    """Estimate the gradient of the mean cost on converged phases, `(network.size,)`.

    The tolerance of the phases in an estimate is scaled with beta. A state can not follow it below
    what rounding leaves, so there it stays as large as it was; a displacement can.
    """
    gradient, free, nudged = np.zeros(backend.network.size), CONVERGED, CONVERGED
    if not backend.displaces:
        betas = [abs(beta) for beta, _ in estimator]
        nudged = replace(CONVERGED, tolerance=CONVERGED.tolerance / min(filter(None, betas)))
        free = nudged if 0.0 in betas else CONVERGED
    report = estimate(backend, backend.clamp(x, y), estimator, gradient, free, nudged)
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
