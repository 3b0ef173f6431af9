"""The parameters of a model: names and shapes of the published checkpoint, start values, sharing.

A low-rank map is `y = x A B`; a full-rank one is stored as torch does, `y = x weight'`. All trained
parameters lie in one flat array, and blocks are views of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from engine.arrays import FloatArray
from experiments.addition.config import ModelConfig, TrainConfig
from experiments.addition.sums import DIGITS, PROMPT, SUM_DIGITS, TARGETS

Blocks: TypeAlias = dict[str, FloatArray]
Start: TypeAlias = float | Literal["ones", "zeros"]
"""Deviation of a normal start, or a constant one."""

EMBEDDING_STD = 0.02
"""Of embeddings, and of full-rank maps, in the published code."""

RISE = 0.2
"""Of the helix of an aligned start, in units of its radius: almost a circle, which two dimensions
of the keys can tell, so that the others are left for digits."""

TOKENS, POSITION = "token_emb", "pos_emb"
HEAD = "lm_head.weight"
"""The output map: in the file, but the same matrix as the token embedding."""


@dataclass(frozen=True)
class Part:
    """One block: its shape and how it starts."""

    shape: tuple[int, ...]
    start: Start


@dataclass(frozen=True)
class Slot:
    """Where a factor is stored; `third` is the one of three that are stored side by side."""

    name: str
    third: int | None = None


@dataclass(frozen=True)
class Factors:
    """Of a query, key or value map `x A B`, or of `x weight'` where `B` is `None`."""

    A: Slot
    B: Slot | None


def qkv_factors(config: ModelConfig, layer: int = 0) -> tuple[Factors, Factors, Factors]:
    """Say where the query, key and value maps of a layer find their factors."""
    low_rank = config.qkv_rank > 0

    def whole(name: str, third: int | None = None) -> Factors:
        base = f"blocks.{layer}.attn.{name}"
        if low_rank:
            return Factors(Slot(f"{base}.A"), Slot(f"{base}.B", third))
        return Factors(Slot(f"{base}.weight", third), None)

    def shared(a: str, b: str) -> Factors:
        base = f"blocks.{layer}.attn.qkv_"
        return Factors(Slot(f"{base}{a}"), Slot(f"{base}{b}"))

    match config.tie_qkv:
        case "none":
            return whole("qkv", 0), whole("qkv", 1), whole("qkv", 2)
        case "all":
            return (whole("qkv_shared"),) * 3
        case "qk":
            return whole("qk_shared"), whole("qk_shared"), whole("v_proj")
        case "kv":
            return whole("q_proj"), whole("kv_shared"), whole("kv_shared")
        case "shareA":
            return shared("A", "Bq"), shared("A", "Bk"), shared("A", "Bv")
        case "shareB":
            return shared("Aq", "B"), shared("Ak", "B"), shared("Av", "B")
        case "shareB_tieQK":
            return shared("Aqk", "B"), shared("Aqk", "B"), shared("Av", "B")
        case "shareB_tieKV":
            return shared("Aq", "B"), shared("Akv", "B"), shared("Akv", "B")
        case "shareA_tieKV":
            return shared("A", "Bq"), shared("A", "Bkv"), shared("A", "Bkv")
        case _:
            return shared("A", "Bqk"), shared("A", "Bqk"), shared("A", "Bv")


def take(blocks: Any, slot: Slot) -> Any:
    """Return a factor as a view of its block."""
    block = blocks[slot.name]
    if slot.third is None:
        return block
    side_by_side = slot.name.endswith(".B")
    size = block.shape[1 if side_by_side else 0] // 3
    span = slice(slot.third * size, (slot.third + 1) * size)
    return block[:, span] if side_by_side else block[span]


@dataclass(frozen=True)
class Layout:
    """Every parameter block of a model in the order of the flat array."""

    config: ModelConfig

    @cached_property
    def parts(self) -> dict[str, Part]:
        """Trained blocks by name."""
        config = self.config
        width = config.d_model
        parts = {f"{TOKENS}.weight": Part((config.vocab_size, width), EMBEDDING_STD)}
        if config.pos_rank > 0:
            shapes = (config.max_seq_len, config.pos_rank), (config.pos_rank, width)
            parts |= {
                f"{POSITION}.{name}": Part(shape, EMBEDDING_STD)
                for name, shape in zip("AB", shapes, strict=True)
            }
        else:
            parts[f"{POSITION}.weight"] = Part((config.max_seq_len, width), EMBEDDING_STD)
        for layer in range(config.n_layer):
            parts |= self._block(f"blocks.{layer}", layer)
        return parts | self._norm("ln_f")

    def _block(self, base: str, layer: int) -> dict[str, Part]:
        config, width = self.config, self.config.d_model
        return (
            self._norm(f"{base}.ln1")
            | self._attention(layer)
            | linear(f"{base}.attn.proj", width, width, config.attn_out_rank)
            | self._norm(f"{base}.ln2")
            | linear(f"{base}.mlp.fc1", width, config.d_ff, config.ffn_rank)
            | linear(f"{base}.mlp.fc2", config.d_ff, width, config.ffn_rank)
        )

    def _norm(self, base: str) -> dict[str, Part]:
        shape = (self.config.d_model,)
        gain = {f"{base}.weight": Part(shape, "ones")}
        return gain if self.config.use_rmsnorm else gain | {f"{base}.bias": Part(shape, "zeros")}

    def _attention(self, layer: int) -> dict[str, Part]:
        width, rank = self.config.d_model, self.config.qkv_rank
        if self.config.tie_qkv == "none":
            return linear(f"blocks.{layer}.attn.qkv", width, 3 * width, rank)
        parts: dict[str, Part] = {}
        deviation = math.sqrt(2 / (width + rank))
        for factors in qkv_factors(self.config, layer):
            if factors.B is None:
                parts[factors.A.name] = Part((width, width), EMBEDDING_STD)
            else:
                parts[factors.A.name] = Part((width, rank), deviation)
                parts[factors.B.name] = Part((rank, width), deviation)
        return parts

    @cached_property
    def frozen(self) -> dict[str, Part]:
        """Random matrices `(inputs, outputs)` that are added to low-rank maps and never trained."""
        config, width = self.config, self.config.d_model
        if config.frozen_residual == 0.0:
            return {}
        parts: dict[str, Part] = {}
        for layer in range(config.n_layer):
            base = f"blocks.{layer}"
            for name, inputs, outputs, rank in (
                (f"{base}.attn.q", width, width, config.qkv_rank),
                (f"{base}.attn.k", width, width, config.qkv_rank),
                (f"{base}.attn.v", width, width, config.qkv_rank),
                (f"{base}.attn.proj", width, width, config.attn_out_rank),
                (f"{base}.mlp.fc1", width, config.d_ff, config.ffn_rank),
                (f"{base}.mlp.fc2", config.d_ff, width, config.ffn_rank),
            ):
                if rank > 0:
                    deviation = config.frozen_residual / math.sqrt(inputs)
                    parts[f"{name}.frozen"] = Part((inputs, outputs), deviation)
        return parts

    @cached_property
    def size(self) -> int:
        """Number of trained parameters."""
        return sum(math.prod(part.shape) for part in self.parts.values())

    def views(self, flat: FloatArray) -> Blocks:
        """Return the blocks as views of a flat array `(size,)`."""
        blocks, start = {}, 0
        for name, part in self.parts.items():
            end = start + math.prod(part.shape)
            blocks[name] = flat[start:end].reshape(part.shape)
            start = end
        return blocks


def linear(base: str, inputs: int, outputs: int, rank: int) -> dict[str, Part]:
    """Return the blocks of a linear map without bias."""
    if rank == 0:
        return {f"{base}.weight": Part((outputs, inputs), EMBEDDING_STD)}
    return {
        f"{base}.A": Part((inputs, rank), math.sqrt(2 / (inputs + rank))),
        f"{base}.B": Part((rank, outputs), math.sqrt(2 / (rank + outputs))),
    }


def start_values(model: ModelConfig, train: TrainConfig) -> tuple[FloatArray, Blocks]:
    """Draw the trained parameters `(size,)` and the frozen blocks, in float32."""
    layout = Layout(model)
    rng = np.random.default_rng(np.random.SeedSequence([train.seed, 0]))
    flat = np.concatenate([_draw(part, rng).ravel() for part in layout.parts.values()])
    frozen = {name: _draw(part, rng) for name, part in layout.frozen.items()}
    if train.aligned_start > 0.0:
        _align(layout.views(flat), train.aligned_start, rng)
        _match_queries(model, layout.views(flat))
    return flat, frozen


def _align(blocks: Blocks, deviation: float, rng: np.random.Generator) -> None:
    """Start alike what belongs together: both digits of a weight, and the position that adds them.

    The position before a digit of the sum is the one that has to say it. Weights lie on one turn of
    a helix in a random orientation, so that neighbours, between which carries go, are near. The
    last position, which has to say eos, is not on it: it would lie beside the lowest weight.
    """
    rows = blocks.get(f"{POSITION}.A", blocks.get(f"{POSITION}.weight"))
    assert rows is not None
    scale = deviation
    if f"{POSITION}.B" in blocks:
        mixing = blocks[f"{POSITION}.B"]
        scale = math.sqrt(deviation / math.sqrt(len(mixing)))  # of both factors: theirs multiply
        mixing[...] = scale * rng.standard_normal(mixing.shape)
    turn = 2 * np.pi * np.arange(TARGETS) / TARGETS
    helix = np.stack([np.cos(turn), np.sin(turn), RISE * (turn / np.pi - 1)], axis=1)
    width = rows.shape[1]
    axes, _ = np.linalg.qr(rng.standard_normal((max(3, width), 3)))
    vectors = scale * helix @ axes[:width].T
    rows[PROMPT - 1 : -1] = vectors[:SUM_DIGITS]
    rows[DIGITS - 1 :: -1] = vectors[:DIGITS]
    rows[PROMPT - 2 : DIGITS : -1] = vectors[:DIGITS]


def _match_queries(config: ModelConfig, blocks: Blocks) -> None:
    """Start the queries as the keys, so that at first a position attends to those like itself."""
    for layer in range(config.n_layer):
        query, key, _ = qkv_factors(config, layer)
        take(blocks, query.A)[...] = take(blocks, key.A)
        if query.B is not None and key.B is not None:
            take(blocks, query.B)[...] = take(blocks, key.B)


def _draw(part: Part, rng: np.random.Generator) -> FloatArray:
    if isinstance(part.start, str):
        return np.full(part.shape, 1.0 if part.start == "ones" else 0.0, np.float32)
    return (part.start * rng.standard_normal(part.shape)).astype(np.float32)
