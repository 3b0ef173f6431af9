"""Small models and sums that the tests of the addition experiment share."""

from itertools import product

import numpy as np

from adapters.torch_arrays import torch
from experiments.addition.checkpoint import Checkpoint
from experiments.addition.config import FACTOR_TYINGS, TYINGS, ModelConfig, TrainConfig
from experiments.addition.data import Pairs
from experiments.addition.parameters import Layout, start_values

PUBLISHED = ModelConfig(
    pos_rank=3, qkv_rank=3, attn_out_rank=2, ffn_rank=3, use_rmsnorm=True, tie_qkv="shareA_tieKV"
)


def all_models() -> list[ModelConfig]:
    """Every tying at full and low rank, with both norms, with and without frozen matrices."""
    return [
        ModelConfig(
            d_model=6,
            d_ff=10,
            pos_rank=rank,
            qkv_rank=rank,
            attn_out_rank=min(rank, 2),
            ffn_rank=rank,
            use_rmsnorm=tying in TYINGS[::2],
            tie_qkv=tying,
            frozen_residual=residual,
        )
        for tying, rank, residual in product(TYINGS, (0, 3), (0.0, 0.5))
        if rank > 0 or (tying not in FACTOR_TYINGS and residual == 0.0)
    ]


def name_of(model: ModelConfig) -> str:
    return f"{model.tie_qkv}-{model.qkv_rank}-{model.frozen_residual:g}"


def random_pairs(count: int, seed: int = 0) -> Pairs:
    a, b = np.random.default_rng(seed).integers(0, 10**10, (2, count))
    return Pairs(a, b)


def random_model(model: ModelConfig, seed: int = 0, dtype=np.float64):
    """Return parameters far from the start, so that no part of the model is nearly idle."""
    flat, frozen = start_values(model, TrainConfig(seed=seed))
    noise = np.random.default_rng(seed).standard_normal(flat.shape)
    return (flat + 0.3 * noise).astype(dtype), {k: v.astype(dtype) for k, v in frozen.items()}


def tensors(model: ModelConfig, flat, frozen):
    """Return all blocks as tensors that share the memory of `flat`."""
    trained = Layout(model).views(
        flat if isinstance(flat, torch.Tensor) else torch.from_numpy(flat)
    )
    return trained | {name: torch.from_numpy(block) for name, block in frozen.items()}


def random_checkpoint(model: ModelConfig = PUBLISHED, seed: int = 0) -> Checkpoint:
    flat, frozen = random_model(model, seed, np.float32)
    return Checkpoint(model, flat, frozen, 7, 0.25, {})
