"""Optimizers: each parameter changes by its own gradient and its own few words of memory."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from engine.arrays import FloatArray, check_apart, check_writable, checked_precision
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

    def update(
        self, gradient: FloatArray, memory: FloatArray, step: int, rate: float
    ) -> FloatArray:
        """Return the change of the parameters, written over `gradient`.

        `memory (moments, parameters)` starts at zero and is changed in place; `step` counts from
        0 and `rate` is the learning rate now.
        """


@checked
@dataclass(frozen=True)
class SGD:
    """Gradient descent with momentum: `v <- momentum v + g`, `theta <- theta - rate v`."""

    lr: float = 0.1
    momentum: float = 0.0
    moments: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check("SGD", lr=self.lr, momentum=self.momentum)

    @checked
    def update(
        self, gradient: FloatArray, memory: FloatArray, step: int, rate: float
    ) -> FloatArray:
        """Return `-rate v`, written over `gradient`."""
        _check_call(gradient, memory, self.moments, step)
        (velocity,) = memory
        velocity *= self.momentum
        velocity += gradient
        np.multiply(velocity, -rate, out=gradient)
        return gradient


@checked
@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with bias correction."""

    lr: float = 2e-3
    decay1: float = 0.9
    decay2: float = 0.999
    eps: float = 1e-8
    moments: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check("Adam", lr=self.lr, decay1=self.decay1, decay2=self.decay2, eps=self.eps)

    @checked
    def update(
        self, gradient: FloatArray, memory: FloatArray, step: int, rate: float
    ) -> FloatArray:
        """Return `-rate m / (sqrt(v) + eps)`, written over `gradient`."""
        _check_call(gradient, memory, self.moments, step)
        number, (first, second) = gradient.dtype.type, memory
        adam(
            gradient,
            first,
            second,
            number(1 - self.decay1),
            number(1 - self.decay2),
            number(1 / (1 - self.decay2 ** (step + 1))),
            number(-rate / (1 - self.decay1 ** (step + 1))),
            number(self.eps),
        )
        return gradient


def _check_call(gradient: FloatArray, memory: FloatArray, moments: int, step: int) -> None:
    """Refuse arrays that cannot be changed in place together, and a step before the first."""
    if step < 0:
        raise EngineError(f"step is {step}, expected zero or more.")
    check_writable("gradient", gradient, (gradient.size,), checked_precision(gradient.dtype))
    check_writable("memory", memory, (moments, gradient.size), gradient.dtype)
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
