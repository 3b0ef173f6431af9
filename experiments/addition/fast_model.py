"""One model on the compiled kernels: its matrices and tables, their gradients, and its answers.

The kernels know plain matrices and tables. Here they are composed from the factors that a
configuration trains, and gradients go back to the factors by the chain rule.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray
from experiments.addition import kernels
from experiments.addition.config import ModelConfig
from experiments.addition.data import POSITIONS, PROMPT, TARGETS, VOCABULARY, Tokens
from experiments.addition.kernels import LANES, LAYER_EPS, RMS_EPS, Gradients, Scratch, Weights
from experiments.addition.parameters import Blocks, Factors, Layout, qkv_factors, take

BASE = "blocks.0"


def runs_compiled(config: ModelConfig) -> bool:
    """Say whether the kernels can run a model: they know one layer with one head."""
    return config.n_layer == 1 and config.n_head == 1


class _Composed(NamedTuple):
    """What the chain rule needs again."""

    blocks: Blocks
    embedded: FloatArray
    unit: FloatArray
    scale: FloatArray
    normed: FloatArray
    maps: tuple[FloatArray, FloatArray, FloatArray]
    mixing: FloatArray
    proj: FloatArray


class FastModel:
    """A model of one layer and one head, in the precision of its parameters."""

    def __init__(self, config: ModelConfig, frozen: Blocks) -> None:
        self.config, self.frozen = config, frozen
        self.layout = Layout(config)
        self._factors = qkv_factors(config)
        self._memory: tuple[Gradients, Scratch] | None = None

    def loss_and_gradient(self, flat: FloatArray, rows: Tokens) -> tuple[float, FloatArray]:
        """Return the mean cross entropy of the targets of `rows (n, 34)`, and its gradient."""
        weights, composed = self._compose(flat)
        grads, scratch = self._working_memory(weights)
        for array in grads:
            array.fill(0)
        share = np.zeros(-(-len(rows) // LANES) * LANES, flat.dtype)
        share[: len(rows)] = 1 / (len(rows) * TARGETS)
        loss = kernels.loss_and_gradients(
            in_lanes(rows),
            share.reshape(-1, LANES),
            weights,
            self.config.use_rmsnorm,
            grads,
            scratch,
        )
        return loss, self._pull_back(grads, composed)

    def answer(self, flat: FloatArray, prompts: Tokens) -> Tokens:
        """Return the 12 tokens that follow each prompt `(n, 22)`, each the most likely one."""
        weights, _ = self._compose(flat)
        rows = np.zeros((len(prompts), POSITIONS + 1), np.int64)
        rows[:, :PROMPT] = prompts
        lanes = in_lanes(rows)
        _, scratch = self._working_memory(weights)
        kernels.decode_greedily(lanes, weights, self.config.use_rmsnorm, scratch)
        answers: Tokens = lanes.transpose(0, 2, 1).reshape(-1, POSITIONS + 1)[
            : len(prompts), PROMPT:
        ]
        return answers

    def _working_memory(self, weights: Weights) -> tuple[Gradients, Scratch]:
        """Return memory for the kernels, allocated once."""
        if self._memory is None or self._memory[0].up.dtype != weights.up.dtype:
            self._memory = kernels.gradients(weights), kernels.scratch(weights)
        return self._memory

    def _compose(self, flat: FloatArray) -> tuple[Weights, _Composed]:
        blocks = self.layout.views(flat)
        tokens, positions = blocks["token_emb.weight"], self._positions(blocks)
        embedded = positions[:, None] + tokens  # (position, token, d)
        unit, scale = self._normalise(embedded)
        gain = self._norm(blocks, f"{BASE}.ln1")
        normed = unit * gain[0] + gain[1]
        maps, mixing = self._attention_maps(blocks)
        proj = self._linear(blocks, f"{BASE}.attn.proj")
        query, key, value = (_table(normed @ m) for m in maps)
        weights = Weights(
            residual=_table(embedded),
            query=query,
            key=key,
            value=value,
            out=mixing @ proj,
            up=self._linear(blocks, f"{BASE}.mlp.fc1"),
            down=self._linear(blocks, f"{BASE}.mlp.fc2"),
            head=np.ascontiguousarray(tokens.T),
            norm2=self._norm(blocks, f"{BASE}.ln2"),
            norm_f=self._norm(blocks, "ln_f"),
        )
        return weights, _Composed(blocks, embedded, unit, scale, normed, maps, mixing, proj)

    def _pull_back(self, grads: Gradients, was: _Composed) -> FloatArray:
        flat = np.zeros(self.layout.size, grads.up.dtype)
        into = self.layout.views(flat)
        by_table = [np.ascontiguousarray(g.transpose(0, 2, 1)) for g in grads[:4]]
        by_residual, by_qkv = by_table[0], by_table[1:]
        by_normed = np.sum([g @ m.T for g, m in zip(by_qkv, was.maps, strict=True)], axis=0)
        rows = was.normed.reshape(-1, was.normed.shape[-1])
        by_maps: list[FloatArray] = [rows.T @ g.reshape(len(rows), -1) for g in by_qkv]
        self._pull_back_attention(by_maps, grads.out @ was.proj.T, was.blocks, into)
        self._pull_back_linear(f"{BASE}.attn.proj", was.mixing.T @ grads.out, was.blocks, into)
        self._pull_back_linear(f"{BASE}.mlp.fc1", grads.up, was.blocks, into)
        self._pull_back_linear(f"{BASE}.mlp.fc2", grads.down, was.blocks, into)
        for name, grad in ((f"{BASE}.ln2", grads.norm2), ("ln_f", grads.norm_f)):
            self._pull_back_norm(name, grad, into)
        by_gain = np.stack([(by_normed * was.unit).sum((0, 1)), by_normed.sum((0, 1))])
        self._pull_back_norm(f"{BASE}.ln1", by_gain, into)
        slope = by_normed * was.blocks[f"{BASE}.ln1.weight"]
        inner = slope - was.unit * (slope * was.unit).mean(-1, keepdims=True)
        if not self.config.use_rmsnorm:
            inner -= slope.mean(-1, keepdims=True)
        by_embedded = by_residual + was.scale * inner
        into["token_emb.weight"] += by_embedded.sum(0) + grads.head.T
        self._pull_back_positions(by_embedded.sum(1), was.blocks, into)
        return flat

    def _attention_maps(
        self, blocks: Blocks
    ) -> tuple[tuple[FloatArray, FloatArray, FloatArray], FloatArray]:
        """Return maps to queries, keys and values, and the map from mixed values to `v`.

        Scores need only `q k' = x A_q (B_q B_k') A_k' x'`, so keys stop at `A_k` and queries carry
        the rest. Likewise the mixture of `x A_v` is taken before `B_v`.
        """
        scale = 1 / math.sqrt(self.config.d_model)
        (a_q, b_q), (a_k, b_k), (a_v, b_v) = self._dense_factors(blocks)
        if b_q is None or b_k is None or b_v is None:
            return (a_q * a_q.dtype.type(scale), a_k, a_v), np.eye(len(a_v), dtype=a_v.dtype)
        between = b_q @ b_k.T * b_q.dtype.type(scale)
        return (a_q @ between, a_k, a_v), b_v

    def _dense_factors(self, blocks: Blocks) -> list[tuple[FloatArray, FloatArray | None]]:
        pairs: list[tuple[FloatArray, FloatArray | None]] = []
        for name, factors in zip("qkv", self._factors, strict=True):
            a = take(blocks, factors.A)
            if factors.B is None:
                pairs.append((a.T, None))
                continue
            b = take(blocks, factors.B)
            residual = self.frozen.get(f"{BASE}.attn.{name}.frozen")
            pairs.append((a, b) if residual is None else (a @ b + residual, None))
        return pairs

    def _pull_back_attention(
        self, by_maps: list[FloatArray], by_mixing: FloatArray, blocks: Blocks, into: Blocks
    ) -> None:
        scale = by_mixing.dtype.type(1 / math.sqrt(self.config.d_model))
        (a_q, b_q), (_, b_k), _ = self._dense_factors(blocks)
        by_q, by_k, by_v = by_maps
        q, k, v = self._factors
        if b_q is None or b_k is None or q.B is None or k.B is None or v.B is None:
            for factors, by_map in zip(self._factors, (by_q * scale, by_k, by_v), strict=True):
                self._pull_back_dense(factors, by_map, blocks, into)
            return
        by_between = a_q.T @ by_q * scale
        take(into, q.A)[...] += by_q @ (b_q @ b_k.T).T * scale
        take(into, q.B)[...] += by_between @ b_k
        take(into, k.B)[...] += by_between.T @ b_q
        take(into, k.A)[...] += by_k
        take(into, v.A)[...] += by_v
        take(into, v.B)[...] += by_mixing

    def _pull_back_dense(
        self, factors: Factors, by_map: FloatArray, blocks: Blocks, into: Blocks
    ) -> None:
        if factors.B is None:
            take(into, factors.A)[...] += by_map.T
            return
        take(into, factors.A)[...] += by_map @ take(blocks, factors.B).T
        take(into, factors.B)[...] += take(blocks, factors.A).T @ by_map

    def _linear(self, blocks: Blocks, name: str) -> FloatArray:
        """Return a linear map as one matrix `(inputs, outputs)`."""
        if f"{name}.weight" in blocks:
            return np.ascontiguousarray(blocks[f"{name}.weight"].T)
        product: FloatArray = blocks[f"{name}.A"] @ blocks[f"{name}.B"]
        residual = self.frozen.get(f"{name}.frozen")
        return product if residual is None else product + residual

    def _pull_back_linear(
        self, name: str, by_map: FloatArray, blocks: Blocks, into: Blocks
    ) -> None:
        if f"{name}.weight" in blocks:
            into[f"{name}.weight"] += by_map.T
            return
        into[f"{name}.A"] += by_map @ blocks[f"{name}.B"].T
        into[f"{name}.B"] += blocks[f"{name}.A"].T @ by_map

    def _positions(self, blocks: Blocks) -> FloatArray:
        if self.config.pos_rank == 0:
            return blocks["pos_emb.weight"]
        product: FloatArray = blocks["pos_emb.A"] @ blocks["pos_emb.B"]
        return product

    def _pull_back_positions(self, by_position: FloatArray, blocks: Blocks, into: Blocks) -> None:
        if self.config.pos_rank == 0:
            into["pos_emb.weight"] += by_position
            return
        into["pos_emb.A"] += by_position @ blocks["pos_emb.B"].T
        into["pos_emb.B"] += blocks["pos_emb.A"].T @ by_position

    def _norm(self, blocks: Blocks, name: str) -> FloatArray:
        """Return gain and shift, `(2, d)`."""
        gain = blocks[f"{name}.weight"]
        return np.stack([gain, blocks.get(f"{name}.bias", np.zeros_like(gain))])

    def _pull_back_norm(self, name: str, by_norm: FloatArray, into: Blocks) -> None:
        into[f"{name}.weight"] += by_norm[0]
        if not self.config.use_rmsnorm:
            into[f"{name}.bias"] += by_norm[1]

    def _normalise(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `x` normalised along its last axis, and the scale that did it."""
        if not self.config.use_rmsnorm:
            x = x - x.mean(-1, keepdims=True)
        eps = RMS_EPS if self.config.use_rmsnorm else LAYER_EPS
        scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return x * scale, scale


def in_lanes(rows: Tokens) -> npt.NDArray[np.int64]:
    """Return rows `(n, length)` as `(groups, length, LANES)`, filled up with copies of the last."""
    groups = -(-len(rows) // LANES)
    filled = rows[np.minimum(np.arange(groups * LANES), len(rows) - 1)]
    return np.ascontiguousarray(filled.reshape(groups, LANES, -1).transpose(0, 2, 1))


def _table(values: FloatArray) -> FloatArray:
    """Return `(position, token, feature)` as the kernels read it, `(position, feature, token)`."""
    assert values.shape[:2] == (POSITIONS, VOCABULARY)
    return np.ascontiguousarray(values.transpose(0, 2, 1))
