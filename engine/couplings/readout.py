"""Read-outs: the cost `C(s, y)` that nudges a network, and what it predicts.

`SoftmaxReadout` stands outside the energy and has weights of its own, which learn by the delta
rule `s' (p - y)`. `SquaredError` compares a layer inside the energy with the target directly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np

from engine.arrays import Array, FloatArray, by_sample, namespace
from engine.border import checked
from engine.couplings.link import OUTPUT, Link, says_itself
from engine.errors import EngineError


@dataclass(frozen=True, eq=False)
class Reading:
    """What a read-out is to those who execute, count or draw it.

    With a link the outputs are `p = softmax(s W + b)` at each of its positions, and their error is
    `p - y`. Without one they are the units themselves, and the error is `s - y`.
    """

    link: Link | None = None
    bias: str = ""

    @property
    def positions(self) -> int:
        """Number of softmaxes."""
        return self.link.positions if self.link else 0


FORMS = ("predict", "cost", "nudge", "correlate")


def reading_of(readout: "Readout", shape: tuple[int, ...]) -> Reading | None:
    """Return what a read-out is to its executions, or `None` if it does not say."""
    if not says_itself(readout, "reading", FORMS):
        return None
    found: Reading = readout.reading(shape)  # type: ignore[attr-defined]
    return found


@runtime_checkable
class Readout(Protocol):
    """A cost on the state of one layer, `s (samples, *shape)`, with its parameter blocks."""

    @property
    def layer(self) -> str:
        """Name of the layer it reads."""

    def shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Parameter blocks, given the shape of the layer."""

    def width(self, shape: tuple[int, ...]) -> int:
        """Number of outputs, which is the number of columns of a target."""

    def check(self, y: FloatArray) -> None:
        """Refuse targets `(samples, width)` that the cost does not allow."""

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, FloatArray]:
        """Draw starting values of the blocks."""

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """Outputs `(samples, width)`."""

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`C` for every sample, `(samples,)`."""

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """dC/ds, in any shape that has a row for each sample."""

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """dC/dw of every block, summed over samples."""

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """Bound of the largest curvature of `C` in `s`, which limits a safe beta."""


@checked
@dataclass(frozen=True)
class SoftmaxReadout:
    """Cross entropy of `p = softmax(s W_out + b_out)`, with `W_out (size, outputs)`."""

    layer: str
    outputs: int
    """Classes."""

    def shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`W_out` and `b_out`."""
        return {"W_out": (prod(shape), self.outputs), "b_out": (self.outputs,)}

    def width(self, shape: tuple[int, ...]) -> int:
        """The number of classes."""
        return self.outputs

    def check(self, y: FloatArray) -> None:
        """Refuse rows that are not probabilities."""
        off = np.abs(y.sum(axis=1) - 1)
        if off.max(initial=0.0) > 1e-3 or y.min(initial=0.0) < 0:
            wrong = (off > 1e-3) | (y < 0).any(axis=1)
            sample = int(np.flatnonzero(wrong)[0])
            raise EngineError(f"target {sample} is {y[sample]}, expected probabilities.")

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, FloatArray]:
        """`W_out ~ 0.5 N(0, 1 / size)`: small, so that the first nudges are gentle."""
        size = prod(shape)
        weight = 0.5 * size**-0.5 * rng.standard_normal((size, self.outputs))
        return {"W_out": weight, "b_out": np.zeros(self.outputs)}

    def _logits(self, blocks: Mapping[str, Array], s: Array) -> Array:
        logits = by_sample(s) @ blocks["W_out"] + blocks["b_out"]
        return logits - namespace(logits).amax(logits, -1, keepdims=True)

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """Class probabilities."""
        logits = self._logits(blocks, s)
        odds = namespace(logits).exp(logits)
        return odds / odds.sum(-1, keepdims=True)

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`-sum_k y_k ln p_k`."""
        logits = self._logits(blocks, s)
        xp = namespace(logits)
        return xp.log(xp.exp(logits).sum(-1)) - (y * logits).sum(-1)

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`(p - y) W_out'`."""
        return (self.predict(blocks, s) - y) @ blocks["W_out"].T

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """The delta rule: `s' (p - y)` and its bias."""
        error = self.predict(blocks, s) - y
        return {"W_out": by_sample(s).T @ error, "b_out": error.sum(0)}

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """`||W_out||^2` (spectral): the softmax itself adds a factor below one."""
        weight = blocks["W_out"].astype(np.float64)
        return float(np.linalg.norm(weight.T @ weight, 2))

    def reading(self, shape: tuple[int, ...]) -> Reading:
        """One softmax of the whole layer."""
        units = np.arange(prod(shape))[None]
        return Reading(Link("W_out", self.layer, OUTPUT, units.size, units, self.outputs), "b_out")


@checked
@dataclass(frozen=True)
class SquaredError:
    """`C = |s - y|^2 / 2` on the units of `layer`, which is part of the energy."""

    layer: str

    def shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """No parameters."""
        return {}

    def width(self, shape: tuple[int, ...]) -> int:
        """One output for each unit."""
        return prod(shape)

    def check(self, y: FloatArray) -> None:
        """Any target will do."""

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, FloatArray]:
        """No parameters."""
        return {}

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """The state of the layer."""
        return by_sample(s)

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """Half the squared distance to the target."""
        return ((by_sample(s) - y) ** 2).sum(-1) / 2

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`s - y`."""
        return by_sample(s) - y

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """No parameters."""
        return {}

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """One."""
        return 1.0

    def reading(self, shape: tuple[int, ...]) -> Reading:
        """The units themselves."""
        return Reading()
