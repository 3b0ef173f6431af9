"""Attention and associative memory as couplings: terms of `Phi` in three closed forms each.

The softmax of attention is the slope of a log-sum-exp, so attention descends an energy, and each
of its synapses measures a product of what arrives at its two ends. `docs/maths.md` derives them.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from engine.arrays import Array, FloatArray, namespace
from engine.border import checked
from engine.couplings.effort import Effort, summed
from engine.couplings.link import Shapes
from engine.couplings.tokens import token_shape
from engine.errors import EngineError, check_count

FORBIDDEN = -1e9
"""Added to a score where the mask forbids it: its odds are zero in either precision."""


class Heads(NamedTuple):
    """The parameters of an attention coupling.

    `query` and `key` are `(heads, head_size, width)`, `bias (heads, tokens, tokens)`.
    """

    query: Array
    key: Array
    bias: Array


@checked
@dataclass(frozen=True)
class Attention:
    """`Phi = sum_hi ln sum_j exp(sharpness q_i . k_j + R_ij) / sharpness` among tokens of a layer.

    `q = Wq s`, `k = Wk s` for every head; `j` runs over the positions that token `i` may see. The
    block is flat: `Wq`, `Wk` and `R`, one after the other; `split` returns them as views.
    """

    name: str
    layer: str
    heads: int = 2
    """How many pairs of `Wq` and `Wk` there are."""
    head_size: int = 32
    """Units of a query, and of a key."""
    sharpness: float = 1.0
    """The larger, the more the best match takes of the attention."""
    sees_itself: bool = False
    """Whether a token is among those that it sees."""
    causal: bool = False
    """Whether a token sees only those before it (and itself, if `sees_itself`)."""
    gain: float = 0.2
    """Scale of the starting weights."""
    clamped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field in ("heads", "head_size"):
            check_count(field, getattr(self, field))
        _check_sharpness(self.sharpness)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layer whose tokens see each other."""
        return (self.layer,)

    def allowed(self, tokens: int, like: Array | None = None) -> Array:
        """`(tokens, tokens)`: one where token `i` may see token `j`, else zero.

        It is made where `like` is, and in its precision: nothing is moved to another device.
        """
        like = np.ones(1) if like is None else like
        places = namespace(like).arange(tokens, device=like.device)
        ahead = places - places[:, None]
        seen = ((ahead <= 0) | (not self.causal)) & ((ahead != 0) | self.sees_itself)
        return seen * namespace(like).ones_like(ahead, dtype=like.dtype)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(2 heads head_size width + heads tokens^2,)`."""
        tokens, width = token_shape(f"attention '{self.name}'", shapes[self.layer])
        if not self.allowed(tokens).any():
            raise EngineError(f"attention '{self.name}' lets no token see another.")
        return (self.heads * (2 * self.head_size * width + tokens**2),)

    def split(self, w: Array, tokens: int) -> Heads:
        """View a block as the matrices of its heads."""
        cut = len(w) - self.heads * tokens**2
        query, key = w[:cut].reshape(2, self.heads, self.head_size, -1)
        return Heads(query, key, w[cut:].reshape(self.heads, tokens, tokens))

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`Wq, Wk ~ gain N(0, 1 / width)`, `R = 0`: attention starts out even."""
        w = np.zeros(self.shape(shapes))
        heads = self.split(w, shapes[self.layer][0])
        for matrix in (heads.query, heads.key):
            matrix[...] = rng.normal(0.0, self.gain * matrix.shape[-1] ** -0.5, matrix.shape)
        return w

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_hi ln sum_j exp(score_ij) / sharpness`."""
        scores, _, _, seeing = self._scores(w, *states)
        return (_log_sum_exp(scores) * seeing[:, 0]).sum((-1, -2)) / self.sharpness

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`sum_h Wq' m_i + Wk' n_i`, with `m_i = sum_j P_ij k_j` and `n_j = sum_i P_ij q_i`."""
        (s,) = states
        heads = self.split(w, s.shape[1])
        m, n, _ = self._messages(w, s)
        return ((m @ heads.query + n @ heads.key).sum(1).reshape(len(s), -1),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`m g'` to `Wq`, `n g'` to `Wk` and `P / sharpness` to `R`, summed over samples."""
        (s,) = states
        m, n, p = self._messages(w, s)
        g = s[:, None]
        parts = ((m.mT @ g).sum(0), (n.mT @ g).sum(0), p.sum(0) / self.sharpness)
        return namespace(s).concatenate([part.reshape(-1) for part in parts])

    def effort(self, shapes: Shapes) -> Effort:
        """`Wq` and `Wk` are read at each token, there and back; only pairs that may meet cost.

        Projected tokens and shares are words. The local rule makes them anew.
        """
        tokens, width = token_shape(f"attention '{self.name}'", shapes[self.layer])
        projected, states = tokens * self.heads * self.head_size, tokens * width
        products, pairs = projected * width, self.heads * int(self.allowed(tokens).sum())
        met = pairs * self.head_size
        project = {"mac": 2 * products, "weight_read": 2 * products}
        meet = summed(
            project | {"state_read": 2 * states, "state_write": 2 * projected},  # q and k
            {"mac": met, "weight_read": pairs, "state_read": projected + met},  # q k + R
            _softmax_effort(pairs),
            {"mac": 2 * met, "state_read": 2 * (pairs + met), "state_write": 2 * projected},  # m, n
        )
        traces = 2 * products + pairs
        learn = {"mac": 2 * products, "trace_read": traces, "trace_write": traces}
        ends = {"state_read": 2 * (states + projected) + pairs}
        return Effort(
            drive=summed(meet, project | {"state_read": 2 * projected}),
            correlate=summed(meet, learn | ends),
            words=4 * projected + pairs,
        )

    def probabilities(self, w: Array, s: Array) -> Array:
        """Return what each token attends to, `P (samples, heads, tokens, tokens)`."""
        return self._messages(w, s)[2]

    def _messages(self, w: Array, s: Array) -> tuple[Array, Array, Array]:
        """What arrives at the queries `m`, at the keys `n`, and `P`."""
        scores, q, k, seeing = self._scores(w, s)
        p = _softmax(scores) * seeing
        return p @ k, p.mT @ q, p

    def _scores(self, w: Array, s: Array) -> tuple[Array, Array, Array, Array]:
        """Scores, queries, keys, and one for each token that sees any (`(tokens, 1)`)."""
        heads, xp, g = self.split(w, s.shape[1]), namespace(s), s[:, None]
        q, k = g @ heads.query.mT, g @ heads.key.mT
        allowed = self.allowed(s.shape[1], like=s)
        scores = self.sharpness * (q @ k.mT) + heads.bias + FORBIDDEN * (1 - allowed)
        return scores, q, k, xp.amax(allowed, -1, keepdims=True)


@checked
@dataclass(frozen=True)
class Hopfield:
    """`Phi = sum_i ln sum_m exp(sharpness M_m . s_i) / sharpness`: each token recalls memories.

    The feed-forward part of a transformer as an energy, with `M (memories, width)`
    (Ramsauer et al., 2021).
    """

    name: str
    layer: str
    memories: int
    """Rows of `M`."""
    sharpness: float = 1.0
    """The larger, the more the best match is recalled alone."""
    gain: float = 0.2
    """Scale of the starting memories."""
    clamped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("memories", self.memories)
        _check_sharpness(self.sharpness)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layer whose tokens recall."""
        return (self.layer,)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        """`(memories, width)`."""
        _, width = token_shape(f"memory '{self.name}'", shapes[self.layer])
        return (self.memories, width)

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> FloatArray:
        """`gain N(0, 1 / width)`."""
        shape = self.shape(shapes)
        return rng.normal(0.0, self.gain * shape[1] ** -0.5, shape)

    def potential(self, w: Array, x: Array, *states: Array) -> Array:
        """`sum_i ln sum_m exp(score_im) / sharpness`."""
        return _log_sum_exp(self._scores(w, *states)).sum(-1) / self.sharpness

    def drive(self, w: Array, x: Array, *states: Array) -> tuple[Array, ...]:
        """`sum_m p_im M_m` to each token."""
        (s,) = states
        return ((_softmax(self._scores(w, s)) @ w).reshape(len(s), -1),)

    def correlate(self, w: Array, x: Array, *states: Array) -> Array:
        """`p' s`, summed over samples and tokens."""
        (s,) = states
        recalled = _softmax(self._scores(w, s)).reshape(-1, self.memories)
        return recalled.T @ s.reshape(-1, w.shape[1])

    def effort(self, shapes: Shapes) -> Effort:
        """`M` is read at each token, there and back; shares are words."""
        tokens, width = token_shape(f"memory '{self.name}'", shapes[self.layer])
        shares, states = tokens * self.memories, tokens * width
        products = shares * width
        project = {"mac": products, "weight_read": products}
        recall = summed(
            project | {"state_read": states},
            _softmax_effort(shares),
        )
        learn = {"mac": products, "trace_read": products, "trace_write": products}
        return Effort(
            drive=summed(recall, project | {"state_read": shares}),
            correlate=summed(recall, learn | {"state_read": states + shares}),
            words=shares,
        )

    def _scores(self, w: Array, s: Array) -> Array:
        """How well each token fits each memory, `(samples, tokens, memories)`."""
        return self.sharpness * (s @ w.T)


def _check_sharpness(sharpness: float) -> None:
    if not (math.isfinite(sharpness) and sharpness > 0.0):
        raise EngineError(f"sharpness is {sharpness}, expected a positive number.")


def _softmax(scores: Array) -> Array:
    """Odds of the last axis as shares of their sum."""
    odds = namespace(scores).exp(scores - namespace(scores).amax(scores, -1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def _softmax_effort(scores: int) -> dict[str, int]:
    """An exponential and a division of each score, both written."""
    written = {"state_read": scores, "state_write": 2 * scores}
    return {"activation": scores, "divide": scores} | written


def _log_sum_exp(scores: Array) -> Array:
    """`ln sum exp` over the last axis."""
    xp = namespace(scores)
    peak = xp.amax(scores, -1, keepdims=True)
    return xp.log(xp.exp(scores - peak).sum(-1)) + peak[..., 0]
