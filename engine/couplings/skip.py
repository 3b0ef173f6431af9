"""A skip: two layers of equal shape, each unit joined to its like by one strength for all."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from engine.arrays import Array, FloatArray, by_sample
from engine.border import checked
from engine.couplings.link import Link, Shapes
from engine.errors import EngineError


@checked
@dataclass(frozen=True)
class Skip:
    """`Phi = w sum_u a_u b_u`: the identity between two layers, with one learned strength."""

    name: str
    source: str
    target: str
    gain: float = 0.25
    """The strength at the start, which is its spectral norm."""
    clamped: ClassVar[bool] = False

    @property
    def layers(self) -> tuple[str, ...]:
        """Its two ends."""
        return (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(1, 1)`."""
        source, target = shapes[self.source], shapes[self.target]
        if source != target:
            raise EngineError(
                f"skip '{self.name}' joins layers of one shape, but '{self.source}' has {source} "
                f"and '{self.target}' has {target}."
            )
        return (1, 1)

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """The gain itself."""
        return np.full(self.shape(shapes), float(self.gain))

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`w sum_u a_u b_u`."""
        a, b = map(by_sample, states)
        return w[0, 0] * (a * b).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`w b` to the source, `w a` to the target."""
        a, b = states
        return w[0, 0] * b, w[0, 0] * a

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_u a_u b_u`, summed over samples."""
        a, b = states
        return (a * b).sum().reshape(1, 1)

    def link(self, shapes: Shapes) -> Link:
        """As many positions as a layer has units, each of which reads one."""
        units = prod(shapes[self.source])
        gather = np.arange(units, dtype=np.int64)[:, None]
        return Link(self.name, self.source, self.target, units, gather, 1)
