"""Conductances: resistors between the nodes of a circuit, whose co-content is the energy.

    Phi = -1/2 sum_ij g_ij (A a_i - b_j)^2

A resistor sends a product of its two ends, as a dense matrix does: its *cross* term, a link. Its
squares weigh on the node itself: `dPhi/db_j = A sum_i g_ij a_i - c_j b_j`, with the stiffness
`c_j = sum_i g_ij`, all conductance that meets at the node. The engine divides the drive of a node
by its stiffness and leak (`engine.model.dynamics`), so `drive` is here what a node hears, without
what it does to itself. `docs/maths.md` has the derivation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Protocol

import numpy as np

from engine.arrays import Array, FloatArray, by_sample, namespace
from engine.border import checked
from engine.couplings.link import FORMS, INPUT, Link, Shapes, dense, says_itself
from engine.errors import EngineError

LEAKS = ("relu", "mirrored_relu", "hard_sigmoid", "linear")
"""Activations with `G(s) = s^2 / 2`: only there the minimum in one node has a closed form."""
LEAST = 1e-6
"""Smallest conductance, in leaks of a node, unless another is asked for."""


class Squares(Protocol):
    """What a coupling whose energy holds squares of states says beside its three closed forms."""

    @property
    def name(self) -> str:
        """Name of the parameter block."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers it touches."""

    @property
    def g_min(self) -> float:
        """Least value of its parameters, kept by each update."""

    @property
    def amplification(self) -> float:
        """What the voltages of its source, or of the input, are multiplied with."""

    def cross(self, shapes: Shapes) -> Link:
        """Return the link that sends its drive; its matrix is `matrix`, not the block."""

    def matrix(self, w: Array) -> Array:
        """Return `(fan_in, fan_out)` of the cross term."""

    def stiffness(self, w: Array) -> tuple[Array, ...]:
        """Return `c (units,)` for each of `layers`: `dPhi/ds = drive - c s`."""

    def compare(self, x: Array, gaps: tuple[Array, ...], middles: tuple[Array, ...]) -> Array:
        """Return what `correlate` says of two states, from their difference and their mean."""


@checked
@dataclass(frozen=True)
class Conductance:
    """Resistors `g (size of source, size of target)` between two layers, `A` is `amplification`.

    With `A` above one an amplifier stands between the source and its resistors: they see `A` times
    the voltage of a node, and it draws `A` times the current that goes through them.
    """

    name: str
    source: str
    target: str
    amplification: float = 1.0
    total: float = 1.0
    """Conductance that meets at a node of the target at the start, on average."""
    g_min: float = LEAST
    """Least conductance of a device."""
    clamped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self.name, self.amplification, self.total, self.g_min)

    @property
    def layers(self) -> tuple[str, ...]:
        """Its two ends."""
        return (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(size of source, size of target)`."""
        return (prod(shapes[self.source]), prod(shapes[self.target]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Uniform from nothing on, so that `total` meets at a node of the target."""
        shape = self.shape(shapes)
        return _uniform(rng, shape, self.total / shape[0], self.g_min)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`-1/2 sum_ij g_ij (A a_i - b_j)^2`."""
        a, b = map(by_sample, states)
        drop = self.amplification * a[:, :, None] - b[:, None, :]
        return -(w * drop**2).sum((-2, -1)) / 2

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`A b g'` to the source, `A a g` to the target, without the stiffness."""
        a, b = map(by_sample, states)
        matrix = self.matrix(w)
        return b @ matrix.T, a @ matrix

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`-1/2 (A a_i - b_j)^2`: what a resistor learns from is its own voltage drop."""
        a, b = map(by_sample, states)
        own = (self.amplification * a) ** 2
        return self.amplification * (a.T @ b) - (own.sum(0)[:, None] + (b * b).sum(0)) / 2

    def cross(self, shapes: Shapes) -> Link:
        """From the source to the target."""
        return dense(self.name, self.source, self.target, shapes)

    def matrix(self, w: Array) -> Array:
        """`A g`."""
        return w if self.amplification == 1.0 else self.amplification * w

    def stiffness(self, w: Array) -> tuple[Array, ...]:
        """`A^2 sum_j g_ij` of the source, `sum_i g_ij` of the target."""
        return self.amplification**2 * w.sum(1), w.sum(0)

    def compare(self, x: Array, gaps: tuple[Array, ...], middles: tuple[Array, ...]) -> Array:
        """`-(A a - b)(A d_a - d_b)`, with the means `a` and `b`."""
        (d_a, d_b), (a, b) = map(by_sample, gaps), map(by_sample, middles)
        own = self.amplification**2 * (a * d_a).sum(0)
        return self.amplification * (a.T @ d_b + d_a.T @ b) - own[:, None] - (b * d_b).sum(0)

    def check_activations(self, activations: Mapping[str, str]) -> None:
        """Refuse layers whose `G` is no leak."""
        _check_leaks(self.name, self.layers, activations)


@checked
@dataclass(frozen=True)
class InputConductance:
    """Resistors `g (2, inputs, size)` from pairs of voltage sources, `+A x` and `-A x`, to a layer.

    A conductance has no sign: what an input is to pull down is joined to its negative source.
    """

    name: str
    layer: str
    amplification: float = 1.0
    """Voltage of a source for an input of one."""
    total: float = 1.0
    """Conductance that meets at a node of the layer at the start, on average."""
    g_min: float = LEAST
    """Least conductance of a device."""
    clamped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.name, self.amplification, self.total, self.g_min)

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(2, inputs, size)`: the positive sources, then the negative ones."""
        return (2, prod(shapes[INPUT]), prod(shapes[self.layer]))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """Uniform from nothing on, so that `total` meets at a node of the layer."""
        shape = self.shape(shapes)
        return _uniform(rng, shape, self.total / (2 * shape[1]), self.g_min)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`-1/2 sum_ij g+_ij (A x_i - s_j)^2 + g-_ij (A x_i + s_j)^2`."""
        (s,) = map(by_sample, states)
        v, s = self.amplification * x[:, :, None], s[:, None, :]
        return -(w[0] * (v - s) ** 2 + w[1] * (v + s) ** 2).sum((-2, -1)) / 2

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`A x (g+ - g-)`, without the stiffness."""
        return (x @ self.matrix(w),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`-1/2 (A x_i - s_j)^2` of the positive sources, `-1/2 (A x_i + s_j)^2` of the others."""
        (s,) = map(by_sample, states)
        product, v = self.amplification * (x.T @ s), self.amplification * x
        squares = ((v * v).sum(0)[:, None] + (s * s).sum(0)) / 2
        return namespace(s).stack([product - squares, -product - squares])

    def cross(self, shapes: Shapes) -> Link:
        """From the input to the layer."""
        return dense(self.name, INPUT, self.layer, shapes)

    def matrix(self, w: Array) -> Array:
        """`A (g+ - g-)`."""
        return self.amplification * (w[0] - w[1])

    def stiffness(self, w: Array) -> tuple[Array, ...]:
        """`sum_i g+_ij + g-_ij`."""
        return (w.sum((0, 1)),)

    def compare(self, x: Array, gaps: tuple[Array, ...], middles: tuple[Array, ...]) -> Array:
        """`(+-A x - s) d`, with the mean `s`."""
        (d,), (s,) = map(by_sample, gaps), map(by_sample, middles)
        product, own = self.amplification * (x.T @ d), (s * d).sum(0)
        return namespace(d).stack([product - own, -product - own])

    def check_activations(self, activations: Mapping[str, str]) -> None:
        """Refuse a layer whose `G` is no leak."""
        _check_leaks(self.name, self.layers, activations)


def squares_of(coupling: Any) -> Squares | None:
    """Return a coupling as one whose energy holds squares of states, if it says so itself."""
    found: Squares | None = coupling if says_itself(coupling, "cross", FORMS) else None
    return found


def _uniform(
    rng: np.random.Generator, shape: tuple[int, ...], mean: float, least: float
) -> FloatArray:
    """Draw from zero to twice the mean, and nothing below the least."""
    return np.maximum(rng.uniform(0.0, 2 * mean, shape), least)


def _check(name: str, amplification: float, total: float, g_min: float) -> None:
    positive = {"amplification": amplification, "total": total, "g_min": g_min}
    for what, value in positive.items():
        if not (math.isfinite(value) and value > 0.0):
            raise EngineError(f"'{name}' has {what} {value}, expected a positive number.")


def _check_leaks(name: str, layers: tuple[str, ...], activations: Mapping[str, str]) -> None:
    for layer in layers:
        if activations[layer] not in LEAKS:
            known = ", ".join(LEAKS)
            raise EngineError(
                f"conductance '{name}' meets layer '{layer}' of {activations[layer]}, whose nodes "
                f"are no leak with diodes; known: {known}."
            )
