"""The readable model, in torch: pure functions of named tensors.

Everything else is judged by it. A stack of seeds is the same functions under `torch.func.vmap`.
"""

import math
from typing import TypeAlias

from adapters.torch_arrays import torch
from experiments.addition.config import ModelConfig
from experiments.addition.parameters import qkv_factors, take
from experiments.addition.sums import PROMPT, TARGETS, VOCABULARY

Tensors: TypeAlias = dict[str, torch.Tensor]

RMS_EPS, LAYER_EPS = 1e-8, 1e-5


def logits(config: ModelConfig, blocks: Tensors, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits `(n, length, 14)` of the token after each of `tokens (n, length)`.

    `blocks` holds the trained and the frozen parameters by their names in a checkpoint.
    """
    x = blocks["token_emb.weight"][tokens] + positions(blocks)[: tokens.shape[1]]
    for layer in range(config.n_layer):
        base = f"blocks.{layer}"
        x = x + attention(config, blocks, layer, norm(config, blocks, f"{base}.ln1", x))
        hidden = linear(blocks, f"{base}.mlp.fc1", norm(config, blocks, f"{base}.ln2", x))
        x = x + linear(blocks, f"{base}.mlp.fc2", torch.nn.functional.gelu(hidden))
    return norm(config, blocks, "ln_f", x) @ blocks["token_emb.weight"].T


def loss(config: ModelConfig, blocks: Tensors, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of the 12 targets of `rows (n, 34)`."""
    predicted = logits(config, blocks, rows[:, :-1])[:, PROMPT - 1 :]
    return torch.nn.functional.cross_entropy(
        predicted.reshape(-1, VOCABULARY), rows[:, PROMPT:].reshape(-1)
    )


@torch.no_grad()
def answer(config: ModelConfig, blocks: Tensors, prompts: torch.Tensor) -> torch.Tensor:
    """Return the 12 tokens that follow each prompt `(n, 22)`, each the most likely one."""
    tokens = prompts
    for _ in range(TARGETS):
        following = logits(config, blocks, tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], dim=1)
    return tokens[:, PROMPT:]


def attention(config: ModelConfig, blocks: Tensors, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Causal self-attention with scores scaled by the root of the head size."""
    base = f"blocks.{layer}.attn"
    maps = []
    for name, factors in zip("qkv", qkv_factors(config, layer), strict=True):
        a = take(blocks, factors.A)
        mapped = x @ a.T if factors.B is None else x @ a @ take(blocks, factors.B)
        if f"{base}.{name}.frozen" in blocks:
            mapped = mapped + x @ blocks[f"{base}.{name}.frozen"]
        maps.append(mapped.unflatten(-1, (config.n_head, -1)).transpose(1, 2))
    q, k, v = maps  # (n, head, length, head size)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    length = x.shape[1]
    ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    mixed = scores.masked_fill(ahead, -math.inf).softmax(-1) @ v
    return linear(blocks, f"{base}.proj", mixed.transpose(1, 2).flatten(2))


def linear(blocks: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """`x A B`, plus a frozen matrix where there is one; or `x weight'`."""
    if f"{name}.weight" in blocks:
        return x @ blocks[f"{name}.weight"].T
    y = x @ blocks[f"{name}.A"] @ blocks[f"{name}.B"]
    return y + x @ blocks[f"{name}.frozen"] if f"{name}.frozen" in blocks else y


def positions(blocks: Tensors) -> torch.Tensor:
    """Return the position embedding `(33, d)`."""
    if "pos_emb.weight" in blocks:
        return blocks["pos_emb.weight"]
    return blocks["pos_emb.A"] @ blocks["pos_emb.B"]


def norm(config: ModelConfig, blocks: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """RMSNorm or LayerNorm along the last axis."""
    gain = blocks[f"{name}.weight"]
    if config.use_rmsnorm:
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + RMS_EPS) * gain
    return torch.nn.functional.layer_norm(
        x, (config.d_model,), gain, blocks[f"{name}.bias"], LAYER_EPS
    )
