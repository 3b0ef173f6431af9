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
    difference: Callable[[Array, Array], Array]
    """`sigma(h + e) - sigma(h)` of `h` and `e`, without the cancellation that this has if `e` is
    small: its relative error is that of a few roundings, however small `e` is."""
    low: float
    high: float
    code: int
    """How compiled kernels tell the activations apart."""
    clips: bool = False
    """Whether it is constant beyond an edge, where no small change of a drive is felt."""


def _tanh(h: Array) -> Array:
    return namespace(h).tanh(h)


def _tanh_convex(s: Array) -> Array:
    """`s atanh s + ln(1 - s^2) / 2`, in the form that stays finite at `s = +-1`."""
    xp = namespace(s)
    tiny = np.finfo(np.float32).tiny
    up, down = xp.clip(1 + s, tiny, None), xp.clip(1 - s, tiny, None)
    return (up * xp.log(up) + down * xp.log(down)) / 2


def _tanh_difference(h: Array, e: Array) -> Array:
    """`t (1 - a^2) / (1 + a t)` with `a = tanh h` and `t = tanh e`: the sum formula of tanh."""
    xp = namespace(h)
    a, t = xp.tanh(h), xp.tanh(e)
    return t * ((1 - a) * (1 + a)) / (1 + a * t)


def _hard_sigmoid(h: Array) -> Array:
    return namespace(h).clip(h, 0.0, 1.0)


def _hard_sigmoid_difference(h: Array, e: Array) -> Array:
    """Within the range `e`, as far as its edges allow; from beyond an edge what passes it."""
    xp = namespace(h)
    inside = xp.clip(e, -xp.clip(h, 0.0, 1.0), 1 - xp.clip(h, 0.0, 1.0))
    from_below, from_above = xp.clip(h + e, 0.0, 1.0), xp.clip((h - 1) + e, -1.0, 0.0)
    return xp.where(h <= 0, from_below, xp.where(h >= 1, from_above, inside))


def _relu(h: Array) -> Array:
    return namespace(h).clip(h, 0.0, None)


def _relu_difference(h: Array, e: Array) -> Array:
    """Above zero `e`, as far down as `-h`; from below what comes up."""
    xp = namespace(h)
    return xp.where(h > 0, xp.maximum(e, -h), xp.clip(h + e, 0.0, None))


def _mirrored_relu(h: Array) -> Array:
    return namespace(h).clip(h, None, 0.0)


def _mirrored_relu_difference(h: Array, e: Array) -> Array:
    """That of relu, seen in a mirror."""
    return -_relu_difference(-h, -e)


def _linear(h: Array) -> Array:
    return h + 0.0


def _linear_difference(h: Array, e: Array) -> Array:
    return e + 0.0


def _half_square(s: Array) -> Array:
    """`s^2 / 2`; states stay in the range of the activation, where that is all of `G`."""
    return s * s / 2


ACTIVATIONS = {
    "tanh": Activation(_tanh, _tanh_convex, _tanh_difference, -1.0, 1.0, code=0),
    "hard_sigmoid": Activation(
        _hard_sigmoid, _half_square, _hard_sigmoid_difference, 0.0, 1.0, code=1, clips=True
    ),
    "relu": Activation(_relu, _half_square, _relu_difference, 0.0, math.inf, code=2, clips=True),
    "mirrored_relu": Activation(
        _mirrored_relu,
        _half_square,
        _mirrored_relu_difference,
        -math.inf,
        0.0,
        code=3,
        clips=True,
    ),
    "linear": Activation(_linear, _half_square, _linear_difference, -math.inf, math.inf, code=4),
}
