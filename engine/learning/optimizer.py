"""Optimizers: each parameter changes by its own gradient and its own few words of memory."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from engine.arrays import (
    Array,
    OwnArray,
    check_apart,
    check_tensor,
    check_writable,
    checked_precision,
    namespace,
)
from engine.border import checked
from engine.compiled.moments import adam
from engine.errors import EngineError

Schedule = Literal["constant", "cosine"]


@runtime_checkable
class Optimizer(Protocol):
    """Turns gradients into updates. Settings are frozen; the memory is handed in."""

    moments: ClassVar[int]
    """Words of memory for each parameter."""

    @property
    def lr(self) -> float:
        """Largest learning rate of the schedule."""

    def update(self, gradient: OwnArray, memory: OwnArray, step: int, rate: float) -> Array:
        """Return the change of the parameters, written over `gradient`.

        `memory (moments, parameters)` starts at zero and is changed in place; `step` counts from
        0 and `rate` is the learning rate now.
        """


@checked
@dataclass(frozen=True)
class SGD:
    """Gradient descent with momentum: `v <- momentum v + g`, `theta <- theta - rate v`."""

    lr: float = 0.1
    """Largest learning rate of the schedule."""
    momentum: float = 0.0
    """Share of the last change that goes on."""
    moments: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check("SGD", lr=self.lr, momentum=self.momentum)

    @checked
    def update(self, gradient: OwnArray, memory: OwnArray, step: int, rate: float) -> Array:
        """Return `-rate v`, written over `gradient`."""
        _check_call(gradient, memory, self.moments, step)
        (velocity,) = memory
        velocity *= self.momentum
        velocity += gradient
        return namespace(gradient).multiply(velocity, -rate, out=gradient)


@checked
@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with bias correction."""

    lr: float = 2e-3
    """Largest learning rate of the schedule."""
    decay1: float = 0.9
    """What is kept of the mean gradient `m` in each step."""
    decay2: float = 0.999
    """What is kept of the mean squared gradient `v` in each step."""
    eps: float = 1e-8
    """Keeps the division by the root of `v` finite."""
    moments: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check("Adam", lr=self.lr, decay1=self.decay1, decay2=self.decay2, eps=self.eps)

    @checked
    def update(self, gradient: OwnArray, memory: OwnArray, step: int, rate: float) -> Array:
        """Return `-rate m / (sqrt(v) + eps)`, written over `gradient`."""
        _check_call(gradient, memory, self.moments, step)
        first, second = memory
        shares = 1 - self.decay1, 1 - self.decay2
        correction = 1 / (1 - self.decay2 ** (step + 1))
        rate = -rate / (1 - self.decay1 ** (step + 1))
        if isinstance(gradient, np.ndarray):
            number = gradient.dtype.type
            factors = map(number, (*shares, correction, rate, self.eps))
            adam(gradient, first, second, *factors)
        else:
            _adam(gradient, first, second, shares, correction, rate, self.eps)
        return gradient


def _adam(
    gradient: Array,
    first: Array,
    second: Array,
    shares: tuple[float, float],
    correction: float,
    rate: float,
    eps: float,
) -> None:
    """Do to tensors what the compiled pass does to arrays, without room of its own.

    rate m / (sqrt(v c) + eps) = rate / sqrt(c) m / (sqrt(v) + eps / sqrt(c))
    """
    xp, scale = namespace(gradient), correction**0.5
    first.lerp_(gradient, shares[0])
    second.mul_(1 - shares[1]).addcmul_(gradient, gradient, value=shares[1])
    root = xp.sqrt(second, out=gradient).add_(eps / scale)
    xp.divide(first, root, out=gradient).mul_(rate / scale)


def _check_call(gradient: Array, memory: Array, moments: int, step: int) -> None:
    """Refuse arrays that cannot be changed in place together, and a step before the first."""
    if step < 0:
        raise EngineError(f"step is {step}, expected zero or more.")
    if isinstance(gradient, np.ndarray):
        check_writable("gradient", gradient, (gradient.size,), checked_precision(gradient.dtype))
        check_writable("memory", memory, (moments, gradient.size), gradient.dtype)
    else:
        check_tensor("gradient", gradient, (gradient.numel(),), gradient)
        check_tensor("memory", memory, (moments, len(gradient)), gradient)
    check_apart("memory", memory, {"gradient": gradient})


def scheduled(schedule: str, step: int, total: int, last: float = 0.01) -> float:
    """Return the share of the learning rate at `step` of `total`; cosine ends at `last`."""
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return last + (1 - last) * 0.5 * (1 + float(np.cos(np.pi * min(1.0, step / max(1, total)))))
    raise EngineError(f"unknown schedule '{schedule}'; known: constant, cosine.")


def _check(name: str, lr: float, eps: float = 1.0, **decays: float) -> None:
    if not (math.isfinite(lr) and lr > 0.0):
        raise EngineError(f"{name} has learning rate {lr}, expected a positive number.")
    if not (math.isfinite(eps) and eps > 0.0):
        raise EngineError(f"{name} has eps {eps}, expected a positive number.")
    for decay, value in decays.items():
        if not 0.0 <= value < 1.0:
            raise EngineError(f"{name} has {decay} {value}, expected from 0 to below 1.")
