"""Activations `sigma = (G')^-1` and the convex terms `G` they come from.

All are 1-Lipschitz, so the contraction rate of a network is the norm of its recurrent coupling.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.arrays import Array, namespace


@dataclass(frozen=True)
class Activation:
    """One activation: `sigma`, its convex term `G`, and the range `sigma` maps into."""

    sigma: Callable[[Array], Array]
    convex: Callable[[Array], Array]
    low: float
    high: float
    code: int
    """How compiled kernels tell the activations apart."""


def _tanh(h: Array) -> Array:
    return namespace(h).tanh(h)


def _tanh_convex(s: Array) -> Array:
    """`s atanh s + ln(1 - s^2) / 2`, in the form that stays finite at `s = +-1`."""
    xp = namespace(s)
    tiny = np.finfo(np.float32).tiny
    up, down = xp.clip(1 + s, tiny, None), xp.clip(1 - s, tiny, None)
    return (up * xp.log(up) + down * xp.log(down)) / 2


def _hard_sigmoid(h: Array) -> Array:
    return namespace(h).clip(h, 0.0, 1.0)


def _relu(h: Array) -> Array:
    return namespace(h).clip(h, 0.0, None)


def _half_square(s: Array) -> Array:
    """`s^2 / 2`; states stay in the range of the activation, where that is all of `G`."""
    return s * s / 2


ACTIVATIONS = {
    "tanh": Activation(_tanh, _tanh_convex, -1.0, 1.0, code=0),
    "hard_sigmoid": Activation(_hard_sigmoid, _half_square, 0.0, 1.0, code=1),
    "relu": Activation(_relu, _half_square, 0.0, math.inf, code=2),
}
