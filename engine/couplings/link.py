"""Links: what a bilinear coupling is to those who execute it, count it, cap it or draw it.

    Phi = sum_p a[gather[p]]' W b[p]

One block `W (fan_in, fan_out)` is read at `positions` places: at each it joins some units of the
source, `a[gather[p]]`, to the units `p fan_out` to `(p + 1) fan_out` of the target, `b[p]`. A dense
matrix has one position, a convolution has as many as its output has pixels. A coupling says once
which link it is (`link`), beside its three closed forms, and golden holds the one to the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from engine.arrays import Array, FloatArray, IntArray, by_sample, namespace
from engine.errors import EngineError

INPUT = "input"
"""Name under which the clamped input is known among the shapes of the layers."""
ONE = "one"
"""Source of a bias: a single unit that is always one."""
OUTPUT = "output"
"""Target of a read-out, which lies outside the energy."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Link:
    """One shared block and the places at which it is read."""

    block: str
    source: str
    target: str
    size: int
    """Units of the source."""
    gather: IntArray
    """Units of the source that each position reads, `(positions, fan_in)`; -1 reads zero."""
    fan_out: int
    tied: bool = False
    """Whether source and target are one layer and `W` is symmetric: then `Phi` has a half."""

    def __post_init__(self) -> None:
        if self.tied and (self.source != self.target or not self.whole):
            raise EngineError(f"link '{self.block}' is tied, but does not join a layer to itself.")

    @property
    def positions(self) -> int:
        """Number of places at which the block is read."""
        return len(self.gather)

    @property
    def fan_in(self) -> int:
        """Rows of the block."""
        return int(self.gather.shape[1])

    @property
    def clamped(self) -> bool:
        """Whether what it sends does not depend on the state."""
        return self.source in (INPUT, ONE)

    @cached_property
    def whole(self) -> bool:
        """Whether it is a plain matrix: one position that reads units in their order."""
        return self.positions == 1 and np.array_equal(self.gather[0], np.arange(self.size))

    @property
    def macs(self) -> int:
        """Multiply-adds of one signal, in either direction."""
        return self.positions * self.fan_in * self.fan_out

    @cached_property
    def spread(self) -> float:
        """Factor by which the norm of the link can exceed that of its block.

        A unit read at `m` places is as if it were `m` units: `||link|| <= sqrt(m) ||W||`, with the
        largest `m`. For a plain matrix it is one, and the bound is exact.
        """
        read = self.gather[self.gather >= 0]
        return float(np.sqrt(np.bincount(read).max(initial=1)))

    def windows(self, a: Array) -> Array:
        """Return `a[gather]`, what each position reads: `(samples, positions, fan_in)`."""
        if self.whole:
            return a[:, None]
        padded = namespace(a).concatenate([a, namespace(a).zeros_like(a[:, :1])], -1)
        return padded[:, self.gather]

    def forward(self, w: Array, a: Array) -> Array:
        """Return what arrives at the target, `(samples, positions * fan_out)`."""
        arrived: Array = self.windows(a) @ w.reshape(self.fan_in, self.fan_out)
        return by_sample(arrived)

    def backward(self, w: Array, b: Array) -> Array:
        """Return what arrives at the source, `(samples, size)`, from `b` of the target."""
        sent = b.reshape(len(b), self.positions, -1) @ w.reshape(self.fan_in, self.fan_out).T
        if self.whole:
            return sent[:, 0]
        shape = (len(b), self.size + 1)
        arrived = namespace(b).zeros(shape, dtype=b.dtype, device=b.device)
        for p, units in enumerate(self.gather):  # at one position no unit is read twice
            arrived[:, units] += sent[:, p]
        return arrived[:, : self.size]

    def correlate(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return `sum over samples and positions of a[gather[p]]' b[p]`, `(fan_in, fan_out)`."""
        left = self.windows(a).reshape(-1, self.fan_in)
        right: FloatArray = b.reshape(-1, self.fan_out)
        product: FloatArray = left.T @ right
        return product

    def matrix(self, w: FloatArray) -> FloatArray:
        """Return the link as one matrix `(size of the source, size of the target)`."""
        matrix: FloatArray = self.forward(w, np.eye(self.size, dtype=w.dtype))
        return matrix


def dense(block: str, source: str, target: str, shapes: Shapes, tied: bool = False) -> Link:
    """Return the link of a matrix from all units of the source to all of the target."""
    size = 1 if source == ONE else prod(shapes[source])
    return Link(block, source, target, size, np.arange(size)[None], prod(shapes[target]), tied)


FORMS = ("potential", "drive", "correlate")


def link_of(coupling: Any, shapes: Shapes) -> Link | None:
    """Return the link that a coupling is, or `None` if it is no such product."""
    return coupling.link(shapes) if says_itself(coupling, "link", FORMS) else None


def says_itself(term: Any, lowering: str, forms: Sequence[str]) -> bool:
    """Whether a term of the energy has the `lowering`, and it is that of its own closed forms.

    A class that changes one of the forms must say again what it becomes: it never runs as the one
    that it inherits from.
    """
    kind = type(term)
    owner = next((base for base in kind.__mro__ if lowering in vars(base)), None)
    return owner is not None and all(getattr(kind, f) is getattr(owner, f) for f in forms)
