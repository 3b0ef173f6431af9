"""Tokens at the border of a network: how they enter its energy, and how they are read from it.

A layer of tokens has the shape `(tokens, width)`. The clamped input holds one whole number for
each position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import Array, FloatArray, IntArray, by_sample, namespace
from engine.border import checked
from engine.couplings.dense import Bias
from engine.couplings.effort import Effort
from engine.couplings.link import INPUT, OUTPUT, Link, Shapes
from engine.couplings.readout import Reading, SoftmaxReadout
from engine.errors import EngineError, check_count


def token_shape(what: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the tokens of a layer and the width of each, or refuse a layer that has none."""
    if len(shape) != 2:
        raise EngineError(f"{what} reads tokens, but its layer has shape {shape}.")
    tokens, width = shape
    return tokens, width


@checked
@dataclass(frozen=True)
class Embedding:
    """`Phi = sum_i Emb[x_i] . s_i`: each token drives its position through a row of `Emb`."""

    name: str
    layer: str
    vocabulary: int
    """Tokens there are: rows of `Emb`."""
    spread: float = 0.5
    """Standard deviation of the starting entries."""
    clamped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("vocabulary", self.vocabulary)

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(vocabulary, width)`."""
        tokens, width = token_shape(f"embedding '{self.name}'", shapes[self.layer])
        if shapes[INPUT] != (tokens,):
            raise EngineError(
                f"embedding '{self.name}' feeds {tokens} tokens, but the input has "
                f"{shapes[INPUT][0]}."
            )
        return (self.vocabulary, width)

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`N(0, spread^2)`."""
        return rng.normal(0.0, self.spread, self.shape(shapes))

    def check(self, x: FloatArray) -> None:
        """Refuse inputs `(samples, tokens)` that are not whole numbers below `vocabulary`."""
        wrong = (x < 0) | (x >= self.vocabulary) | (x != np.floor(x))
        if wrong.any():
            sample, place = np.argwhere(wrong)[0]
            raise EngineError(
                f"x holds {x[sample, place]:g} at sample {sample}, position {place}, expected a "
                f"token from 0 to {self.vocabulary - 1}."
            )

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_i Emb[x_i] . s_i`."""
        (s,) = states
        return (self.drive(w, x)[0] * by_sample(s)).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`Emb[x_i]` to each position."""
        return ((self._one_hot(x) @ w).reshape(len(x), -1),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """Row `v` gathers `s_i` over the positions that hold the token `v`."""
        (s,) = states
        return self._one_hot(x).T @ s.reshape(-1, w.shape[1])

    def effort(self, shapes: Shapes) -> Effort:
        """A row is looked up at each token, and learns there; nothing is multiplied."""
        tokens, width = token_shape(f"embedding '{self.name}'", shapes[self.layer])
        words = tokens * width
        learn = {"trace_read": words, "trace_write": words, "state_read": tokens + words}
        return Effort({"weight_read": words, "state_read": tokens}, learn)

    def _one_hot(self, x: Array) -> Array:
        """`(samples * tokens, vocabulary)`; by comparison, which numpy and torch share."""
        places = x.reshape(-1, 1)
        tokens = namespace(x).arange(self.vocabulary, dtype=x.dtype, device=x.device)
        return (places == tokens) * namespace(x).ones_like(places)


@checked
@dataclass(frozen=True)
class Position(Bias):
    """`Phi = sum_i Pos_i . s_i`: a bias that starts at random, so that no two places are alike."""

    spread: float = 0.5
    """Standard deviation of the starting entries."""

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`N(start, spread^2)`."""
        return rng.normal(self.start, self.spread, self.shape(shapes))


@checked
@dataclass(frozen=True)
class TokenReadout:
    """A softmax for each position, with the same `W_out (width, outputs)`; the costs add up.

    Targets and predictions are `(samples, tokens * outputs)`, one position after the other.
    """

    layer: str
    outputs: int
    """Classes of each position."""

    @property
    def each(self) -> SoftmaxReadout:
        """The read-out of one position."""
        return SoftmaxReadout(self.layer, self.outputs)

    def shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`W_out` and `b_out`."""
        return self.each.shapes(token_shape("the read-out", shape)[1:])

    def width(self, shape: tuple[int, ...]) -> int:
        """One probability for each position and class."""
        return shape[0] * self.outputs

    def check(self, y: FloatArray) -> None:
        """Refuse targets that are not probabilities at some position."""
        places = self._by_place(y)
        for place in range(places.shape[1]):
            try:
                self.each.check(places[:, place])
            except EngineError as error:
                raise EngineError(f"at position {place}, {error}") from None

    def targets(self, tokens: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> FloatArray:
        """Return the target of tokens `(samples, tokens)`."""
        labels = np.asarray(tokens)
        if labels.ndim != 2 or labels.dtype.kind not in "iu":
            raise EngineError(
                f"target tokens are {labels.dtype} {labels.shape}, "
                "expected whole numbers (samples, tokens)."
            )
        for label in (labels.min(initial=0), labels.max(initial=0)):
            if not 0 <= label < self.outputs:
                raise EngineError(f"target {label} is outside the {self.outputs} outputs.")
        rows: FloatArray = np.eye(self.outputs, dtype=dtype)[labels].reshape(len(labels), -1)
        return rows

    def read(self, outputs: FloatArray) -> IntArray:
        """Return the likeliest token of each position, `(samples, tokens)`."""
        tokens: IntArray = self._by_place(outputs).argmax(-1)
        return tokens

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, FloatArray]:
        """As for one softmax."""
        return self.each.initial(rng, shape[1:])

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """Class probabilities of every position."""
        return self.each.predict(blocks, _rows(s)).reshape(len(s), -1)

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """Cross entropy, summed over positions."""
        return (
            self.each.cost(blocks, _rows(s), _rows(self._by_place(y))).reshape(len(s), -1).sum(-1)
        )

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`(p_i - y_i) W_out'` to each position."""
        slope = self.each.nudge(blocks, _rows(s), _rows(self._by_place(y)))
        return slope.reshape(len(s), -1)

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """The delta rule, summed over positions."""
        return self.each.correlate(blocks, _rows(s), _rows(self._by_place(y)))

    def _by_place(self, y: Array) -> Array:
        """View `(samples, tokens * outputs)` as `(samples, tokens, outputs)`."""
        return y.reshape(len(y), -1, self.outputs)

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """`||W_out||^2`: positions do not see each other's cost."""
        return self.each.curvature(blocks)

    def reading(self, shape: tuple[int, ...]) -> Reading:
        """A softmax of each token."""
        units = np.arange(prod(shape)).reshape(shape)
        return Reading(Link("W_out", self.layer, OUTPUT, units.size, units, self.outputs), "b_out")


def _rows(s: Array) -> Array:
    """View `(samples, tokens, width)` as one row for each token of each sample."""
    return s.reshape(-1, s.shape[-1])
