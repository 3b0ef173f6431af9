"""One model on the compiled kernels: its matrices and tables, their gradients, and its answers.

The kernels know plain matrices and tables. Here they are composed from the factors that a
configuration trains, and gradients go back to the factors by the chain rule.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray
from experiments.addition import kernels, table_kernels
from experiments.addition.config import ModelConfig
from experiments.addition.data import Tokens
from experiments.addition.kernels import LANES, LAYER_EPS, RMS_EPS, Gradients, Scratch, Weights
from experiments.addition.parameters import Blocks, Factors, Layout, qkv_factors, take
from experiments.addition.sums import POSITIONS, PROMPT, TARGETS
from experiments.addition.table_kernels import Normed, TableSources, TokenTables

BASE = "blocks.0"


def runs_compiled(config: ModelConfig) -> bool:
    """Say whether the kernels can run a model: they know one layer with one head."""
    return config.n_layer == 1 and config.n_head == 1


class _Composed(NamedTuple):
    """What the chain rule needs again."""

    blocks: Blocks
    embedding: TableSources
    mixing: FloatArray
    proj: FloatArray


class _Memory(NamedTuple):
    """What is allocated once."""

    tables: TokenTables
    between: Normed
    by_embedding: TableSources
    by_weights: Gradients
    scratch: Scratch


class FastModel:
    """A model of one layer and one head, in the precision of its parameters."""

    def __init__(self, config: ModelConfig, frozen: Blocks) -> None:
        self.config, self.frozen = config, frozen
        self.layout = Layout(config)
        self._factors = qkv_factors(config)
        self._eps = RMS_EPS if config.use_rmsnorm else LAYER_EPS
        self._memory: _Memory | None = None

    def loss_and_gradient(self, flat: FloatArray, rows: Tokens) -> tuple[float, FloatArray]:
        """Return the mean cross entropy of the targets of `rows (n, 34)`, and its gradient."""
        weights, composed, memory = self._compose(flat)
        for array in (*memory.by_weights, *memory.by_embedding):
            array.fill(0)
        share = np.zeros(-(-len(rows) // LANES) * LANES, flat.dtype)
        share[: len(rows)] = 1 / (len(rows) * TARGETS)
        loss = kernels.loss_and_gradients(
            in_lanes(rows),
            share.reshape(-1, LANES),
            weights,
            self.config.use_rmsnorm,
            memory.by_weights,
            memory.scratch,
        )
        return loss, self._pull_back(memory, composed)

    def answer(self, flat: FloatArray, prompts: Tokens) -> Tokens:
        """Return the 12 tokens that follow each prompt `(n, 22)`, each the most likely one."""
        weights, _, memory = self._compose(flat)
        rows = np.zeros((len(prompts), POSITIONS + 1), np.int64)
        rows[:, :PROMPT] = prompts
        lanes = in_lanes(rows)
        kernels.decode_greedily(lanes, weights, self.config.use_rmsnorm, memory.scratch)
        answers: Tokens = lanes.transpose(0, 2, 1).reshape(-1, POSITIONS + 1)[
            : len(prompts), PROMPT:
        ]
        return answers

    def _compose(self, flat: FloatArray) -> tuple[Weights, _Composed, _Memory]:
        blocks = self.layout.views(flat)
        tokens, positions = blocks["token_emb.weight"], self._positions(blocks)
        maps, mixing = self._attention_maps(blocks)
        norm = self._norm(blocks, f"{BASE}.ln1")
        embedding = TableSources(tokens, positions, norm, *map(np.ascontiguousarray, maps))
        proj = self._linear(blocks, f"{BASE}.attn.proj")
        if self._memory is None or self._memory.tables.key.dtype != flat.dtype:
            tables, between = table_kernels.tables(embedding), table_kernels.normed(embedding)
        else:
            tables, between = self._memory.tables, self._memory.between
        centred = not self.config.use_rmsnorm
        table_kernels.fill(embedding, centred, self._eps, tables, between)
        weights = Weights(
            *tables,
            out=mixing @ proj,
            up=self._linear(blocks, f"{BASE}.mlp.fc1"),
            down=self._linear(blocks, f"{BASE}.mlp.fc2"),
            head=np.ascontiguousarray(tokens.T),
            norm2=self._norm(blocks, f"{BASE}.ln2"),
            norm_f=self._norm(blocks, "ln_f"),
        )
        if self._memory is None or self._memory.tables is not tables:
            by_embedding = table_kernels.gradients(embedding)
            by_weights, scratch = kernels.gradients(weights), kernels.scratch(weights)
            self._memory = _Memory(tables, between, by_embedding, by_weights, scratch)
        return weights, _Composed(blocks, embedding, mixing, proj), self._memory

    def _pull_back(self, memory: _Memory, was: _Composed) -> FloatArray:
        """Return the gradient by the parameters, from those by matrices and tables."""
        by, by_embedding = memory.by_weights, memory.by_embedding
        by_tables = TokenTables(by.residual, by.query, by.key, by.value)
        centred = not self.config.use_rmsnorm
        table_kernels.pull_back(was.embedding, centred, by_tables, memory.between, by_embedding)
        flat = np.zeros(self.layout.size, by.up.dtype)
        into = self.layout.views(flat)
        into["token_emb.weight"] += by_embedding.tokens + by.head.T
        self._pull_back_positions(by_embedding.positions, was.blocks, into)
        self._pull_back_attention(by_embedding, by.out @ was.proj.T, was.blocks, into)
        self._pull_back_linear(f"{BASE}.attn.proj", was.mixing.T @ by.out, was.blocks, into)
        self._pull_back_linear(f"{BASE}.mlp.fc1", by.up, was.blocks, into)
        self._pull_back_linear(f"{BASE}.mlp.fc2", by.down, was.blocks, into)
        self._pull_back_norm(f"{BASE}.ln1", by_embedding.norm, into)
        self._pull_back_norm(f"{BASE}.ln2", by.norm2, into)
        self._pull_back_norm("ln_f", by.norm_f, into)
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
        self, by: TableSources, by_mixing: FloatArray, blocks: Blocks, into: Blocks
    ) -> None:
        scale = by_mixing.dtype.type(1 / math.sqrt(self.config.d_model))
        (a_q, b_q), (_, b_k), _ = self._dense_factors(blocks)
        by_q, by_k, by_v = by.to_query, by.to_key, by.to_value
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
        both = np.zeros((2, len(gain)), gain.dtype)
        both[0] = gain
        if not self.config.use_rmsnorm:
            both[1] = blocks[f"{name}.bias"]
        return both

    def _pull_back_norm(self, name: str, by_norm: FloatArray, into: Blocks) -> None:
        into[f"{name}.weight"] += by_norm[0]
        if not self.config.use_rmsnorm:
            into[f"{name}.bias"] += by_norm[1]


def in_lanes(rows: Tokens) -> npt.NDArray[np.int64]:
    """Return rows `(n, length)` as `(groups, length, LANES)`, filled up with copies of the last."""
    groups = -(-len(rows) // LANES)
    filled = rows[np.minimum(np.arange(groups * LANES), len(rows) - 1)]
    return np.ascontiguousarray(filled.reshape(groups, LANES, -1).transpose(0, 2, 1))
