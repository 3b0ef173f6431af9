"""Tokens at the border of a network: how they enter its energy, and how they are read from it.

A layer of tokens holds `width` units for each of `tokens` positions, one position after the other.
The clamped input holds one whole number for each position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import Array, FloatArray, IntArray, namespace
from engine.border import checked
from engine.coupling import INPUT, Bias
from engine.errors import EngineError, check_count
from engine.readout import SoftmaxReadout


def width_of(what: str, size: int, tokens: int) -> int:
    """Return the units of one token in a layer of `size`, or refuse the layer."""
    width, rest = divmod(size, tokens)
    if rest or not width:
        raise EngineError(f"{what} reads {tokens} tokens, but its layer has {size} units.")
    return width


def by_token(s: Array, tokens: int) -> Array:
    """View `(samples, tokens * width)` as `(samples, tokens, width)`."""
    return s.reshape(len(s), tokens, s.shape[1] // tokens)


@checked
@dataclass(frozen=True)
class Embedding:
    """`Phi = sum_i Emb[x_i] . s_i`: each token drives its position through a row of `Emb`."""

    name: str
    layer: str
    vocabulary: int
    spread: float = 0.5
    """Standard deviation of the starting entries."""
    clamped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("vocabulary", self.vocabulary)

    @property
    def layers(self) -> tuple[str, ...]:
        """The driven layer."""
        return (self.layer,)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """`(vocabulary, width)`."""
        width = width_of(f"embedding '{self.name}'", sizes[self.layer], sizes[INPUT])
        return (self.vocabulary, width)

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """`N(0, spread^2)`."""
        return rng.normal(0.0, self.spread, shape)

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
        return (self.drive(w, x)[0] * s).sum(-1)

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`Emb[x_i]` to each position."""
        return ((self._one_hot(x) @ w).reshape(len(x), -1),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """Row `v` gathers `s_i` over the positions that hold the token `v`."""
        (s,) = states
        return self._one_hot(x).T @ s.reshape(-1, w.shape[1])

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

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """`N(start, spread^2)`."""
        return rng.normal(self.start, self.spread, shape)


@checked
@dataclass(frozen=True)
class TokenReadout:
    """A softmax for each position, with the same `W_out (width, outputs)`; the costs add up.

    Targets and predictions are `(samples, tokens * outputs)`, one position after the other.
    """

    layer: str
    tokens: int
    outputs: int

    def __post_init__(self) -> None:
        check_count("tokens", self.tokens)

    @property
    def each(self) -> SoftmaxReadout:
        """The read-out of one position."""
        return SoftmaxReadout(self.layer, self.outputs)

    def shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        """`W_out` and `b_out`."""
        return self.each.shapes(width_of("the read-out", size, self.tokens))

    def width(self, size: int) -> int:
        """One probability for each position and class."""
        return self.tokens * self.outputs

    def check(self, y: FloatArray) -> None:
        """Refuse targets that are not probabilities at some position."""
        for place in range(self.tokens):
            try:
                self.each.check(y[:, place * self.outputs : (place + 1) * self.outputs])
            except EngineError as error:
                raise EngineError(f"at position {place}, {error}") from None

    def targets(self, tokens: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> FloatArray:
        """Return the target of tokens `(samples, tokens)`."""
        labels = np.asarray(tokens)
        if labels.ndim != 2 or labels.shape[1] != self.tokens or labels.dtype.kind not in "iu":
            raise EngineError(
                f"target tokens are {labels.dtype} {labels.shape}, "
                f"expected whole numbers (samples, {self.tokens})."
            )
        for label in (labels.min(initial=0), labels.max(initial=0)):
            if not 0 <= label < self.outputs:
                raise EngineError(f"target {label} is outside the {self.outputs} outputs.")
        rows: FloatArray = np.eye(self.outputs, dtype=dtype)[labels].reshape(len(labels), -1)
        return rows

    def read(self, outputs: FloatArray) -> IntArray:
        """Return the likeliest token of each position, `(samples, tokens)`."""
        tokens: IntArray = by_token(outputs, self.tokens).argmax(-1)
        return tokens

    def initial(self, rng: np.random.Generator, size: int) -> dict[str, FloatArray]:
        """As for one softmax."""
        return self.each.initial(rng, size // self.tokens)

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """Class probabilities of every position."""
        return self.each.predict(blocks, by_token(s, self.tokens)).reshape(len(s), -1)

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """Cross entropy, summed over positions."""
        return self.each.cost(blocks, by_token(s, self.tokens), by_token(y, self.tokens)).sum(-1)

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`(p_i - y_i) W_out'` to each position."""
        slope = self.each.nudge(blocks, by_token(s, self.tokens), by_token(y, self.tokens))
        return slope.reshape(len(s), -1)

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """The delta rule, summed over positions."""
        rows = len(s) * self.tokens
        return self.each.correlate(blocks, s.reshape(rows, -1), y.reshape(rows, -1))

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """`||W_out||^2`: positions do not see each other's cost."""
        return self.each.curvature(blocks)
