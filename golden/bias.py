"""The order of an estimator's bias in beta, measured as a slope and held to theory."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.errors import EngineError
from engine.learning.estimator import SAFE_NUDGE, named_estimator
from golden.fidelity import compare_gradients, eqprop_gradient

ORDERS = {"one_sided": (1, 0.1), "centered": (2, 0.1), "four_point": (4, 0.4)}
"""Theoretical order of every estimator, and how far a measured slope may lie from it."""
TOP_BIAS = 1e-4
"""Relative error at the top of the range of beta: well inside the leading order."""
RANGE = 4.0
"""Top over bottom: there a bias of order 4 is 4e-7, far above the rounding of 1e-13 / beta."""
BETAS = 5


@dataclass(frozen=True)
class BiasOrder:
    """Errors of one estimator over a range of beta, and the slope of their logarithms."""

    estimator: str
    betas: tuple[float, ...]
    errors: tuple[float, ...]
    slope: float
    order: int
    margin: float

    @property
    def passed(self) -> bool:
        """Whether the slope is the theoretical order."""
        return abs(self.slope - self.order) <= self.margin


def measure_bias_order(
    backend: Backend,
    x: FloatArray,
    y: FloatArray,
    name: str,
    trusted: FloatArray,
) -> BiasOrder:
    """Fit `error = c beta^order` to the relative error against a trusted gradient."""
    if name not in ORDERS:
        raise EngineError(f"no order is known for estimator '{name}'; known: {', '.join(ORDERS)}.")
    order, margin = ORDERS[name]

    def bias(beta: float) -> float:
        estimated = eqprop_gradient(backend, x, y, named_estimator(name, beta))
        return compare_gradients(name, estimated, trusted).relative_error

    curvature = backend.network.readout.curvature(backend.params)
    betas = telling_betas(bias, order, curvature)
    errors = [bias(beta) for beta in betas]
    slope = float(np.polyfit(np.log(betas), np.log(errors), 1)[0])
    return BiasOrder(name, tuple(betas), tuple(errors), slope, order, margin)


def telling_betas(bias: Callable[[float], float], order: int, curvature: float) -> list[float]:
    """Return betas at which only the leading term of the bias shows.

    Above the range the next terms of the series bend the slope, below it rounding does. How large
    beta may be differs by orders of magnitude between estimators and networks, so the bias at one
    beta says where it will be `TOP_BIAS`. Beyond `0.5 / curvature` a phase could turn unstable.
    """
    pilot = SAFE_NUDGE / max(curvature, 1.0)
    top = pilot * (TOP_BIAS / bias(pilot)) ** (1 / order)
    top = min(top, 0.5 / max(curvature, 0.1))
    return [float(beta) for beta in np.geomspace(top / RANGE, top, BETAS)]
