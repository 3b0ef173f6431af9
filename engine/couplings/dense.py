"""Couplings with one matrix or one vector: each is one link that reads its source as it lies."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from engine.arrays import Array, FloatArray, by_sample
from engine.border import checked
from engine.couplings.link import INPUT, ONE, Link, Shapes, dense


@checked
@dataclass(frozen=True)
class InputDrive:
    """`Phi = s' W' x`: the clamped input drives a layer through `W (inputs, size)`."""

    name: str
    layer: str
    clamped: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(inputs, size)`."""
        return (prod(shapes[INPUT]), prod(shapes[self.layer]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`N(0, 1 / inputs)`: a standardised input gives a drive of variance one."""
        return rng.normal(0.0, prod(shapes[INPUT]) ** -0.5, self.shape(shapes))

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_ij x_i W_ij s_j`."""
        (s,) = map(by_sample, states)
        return ((x @ w) * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`x W`."""
        return (x @ w,)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`x' s`."""
        (s,) = map(by_sample, states)
        return x.T @ s

    def link(self, shapes: Shapes) -> Link:
        """From the input to the layer."""
        return dense(self.name, INPUT, self.layer, shapes)


@checked
@dataclass(frozen=True)
class Bias:
    """`Phi = b' s`."""

    name: str
    layer: str
    start: float = 0.0
    """What it begins with, at every unit."""
    clamped: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[str, ...]:
        """The biased layer."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(size,)`."""
        return (prod(shapes[self.layer]),)

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """The same value everywhere."""
        return np.full(self.shape(shapes), self.start)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_j b_j s_j`."""
        (s,) = map(by_sample, states)
        return (w * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`b` for every sample."""
        return (w + 0 * x[:, :1],)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum over samples of s`."""
        (s,) = map(by_sample, states)
        return s.sum(0)

    def link(self, shapes: Shapes) -> Link:
        """From a unit that is always one to the layer."""
        return dense(self.name, ONE, self.layer, shapes)


@checked
@dataclass(frozen=True)
class Dense:
    """`Phi = a' W b`: one matrix `W (size of a, size of b)` carries signals both ways."""

    name: str
    source: str
    target: str
    gain: float = 0.5
    """Spectral norm of the starting matrix, about."""
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        """Its two ends."""
        return (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(size of source, size of target)`."""
        return (prod(shapes[self.source]), prod(shapes[self.target]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Gaussian; a matrix of standard normals has norm about `sqrt(rows) + sqrt(columns)`."""
        shape = self.shape(shapes)
        scale = self.gain / (np.sqrt(shape[0]) + np.sqrt(shape[1]))
        return rng.normal(0.0, scale, shape)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_ij a_i W_ij b_j`."""
        a, b = map(by_sample, states)
        return ((a @ w) * b).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`b W'` to the source, `a W` to the target."""
        a, b = map(by_sample, states)
        return b @ w.T, a @ w

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`a' b`."""
        a, b = map(by_sample, states)
        return a.T @ b

    def link(self, shapes: Shapes) -> Link:
        """From the source to the target."""
        return dense(self.name, self.source, self.target, shapes)


@checked
@dataclass(frozen=True)
class Lateral:
    """`Phi = s' W s / 2` within one layer; `W (size, size)` is symmetric."""

    name: str
    layer: str
    gain: float = 0.5
    """Spectral radius of the starting matrix, about."""
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        """The layer coupled to itself."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(size, size)`."""
        return (prod(shapes[self.layer]),) * 2

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Symmetric Gaussian; the semicircle of unit entries has radius `2 sqrt(size)`."""
        shape = self.shape(shapes)
        w = rng.normal(0.0, self.gain / np.sqrt(8 * shape[0]), shape)
        return w + w.T

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_ij s_i W_ij s_j / 2`."""
        (s,) = map(by_sample, states)
        return ((s @ w) * s).sum(-1) / 2

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`s W`, by symmetry."""
        (s,) = map(by_sample, states)
        return (s @ w,)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`s' s / 2`: symmetric, so every local optimizer keeps `W` symmetric."""
        (s,) = map(by_sample, states)
        product = s.T @ s
        return (product + product.T) / 4  # to the last bit, which no BLAS promises

    def link(self, shapes: Shapes) -> Link:
        """From the layer to itself, tied."""
        return dense(self.name, self.layer, self.layer, shapes, tied=True)
