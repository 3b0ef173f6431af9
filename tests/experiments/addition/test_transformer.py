"""The torch model against a second one, written out with loops in plain numpy."""

import math

import numpy as np
import pytest
from scipy.special import erf

from adapters.torch_arrays import torch
from experiments.addition import transformer
from experiments.addition.data import encode
from experiments.addition.parameters import Layout
from tests.experiments.addition.addition_cases import (
    PUBLISHED,
    all_models,
    name_of,
    random_model,
    random_pairs,
    tensors,
)


def slow_logits(model, blocks, tokens):
    """Logits `(length, 14)` of one row, position by position."""
    position = (
        blocks["pos_emb.weight"]
        if model.pos_rank == 0
        else blocks["pos_emb.A"] @ blocks["pos_emb.B"]
    )
    stream = [blocks["token_emb.weight"][t] + position[i] for i, t in enumerate(tokens)]
    queries, keys, values = zip(
        *(slow_qkv(model, blocks, slow_norm(model, blocks, "blocks.0.ln1", x)) for x in stream),
        strict=True,
    )
    out = []
    for i, x in enumerate(stream):
        weights = np.array(
            [math.exp(queries[i] @ keys[j] / math.sqrt(model.d_model)) for j in range(i + 1)]
        )
        mixed = sum(w * v for w, v in zip(weights / weights.sum(), values[: i + 1], strict=True))
        x = x + slow_linear(blocks, "blocks.0.attn.proj", mixed)
        hidden = slow_linear(
            blocks, "blocks.0.mlp.fc1", slow_norm(model, blocks, "blocks.0.ln2", x)
        )
        hidden = np.array([h * 0.5 * (1 + erf(h / math.sqrt(2))) for h in hidden])
        x = x + slow_linear(blocks, "blocks.0.mlp.fc2", hidden)
        final = slow_norm(model, blocks, "ln_f", x)
        out.append([row @ final for row in blocks["token_emb.weight"]])
    return np.array(out)


def slow_norm(model, blocks, name, x):
    if model.use_rmsnorm:
        return x / math.sqrt(np.mean(x**2) + 1e-8) * blocks[f"{name}.weight"]
    centred = x - x.mean()
    unit = centred / math.sqrt(np.mean(centred**2) + 1e-5)
    return unit * blocks[f"{name}.weight"] + blocks[f"{name}.bias"]


def slow_linear(blocks, name, x):
    if f"{name}.weight" in blocks:
        return blocks[f"{name}.weight"] @ x
    y = x @ blocks[f"{name}.A"] @ blocks[f"{name}.B"]
    return y + x @ blocks[f"{name}.frozen"] if f"{name}.frozen" in blocks else y


def slow_qkv(model, blocks, x):
    """Each tying written out by hand."""
    b = {name.removeprefix("blocks.0.attn."): block for name, block in blocks.items()}

    def whole(name):
        return slow_linear({k: v for k, v in b.items() if "frozen" not in k}, name, x)

    match model.tie_qkv:
        case "none":
            q, k, v = np.split(whole("qkv"), 3)
        case "all":
            q = k = v = whole("qkv_shared")
        case "qk":
            q = k = whole("qk_shared")
            v = whole("v_proj")
        case "kv":
            q = whole("q_proj")
            k = v = whole("kv_shared")
        case "shareA":
            h = x @ b["qkv_A"]
            q, k, v = h @ b["qkv_Bq"], h @ b["qkv_Bk"], h @ b["qkv_Bv"]
        case "shareB":
            q, k, v = (x @ b[f"qkv_A{n}"] @ b["qkv_B"] for n in "qkv")
        case "shareB_tieQK":
            q = k = x @ b["qkv_Aqk"] @ b["qkv_B"]
            v = x @ b["qkv_Av"] @ b["qkv_B"]
        case "shareB_tieKV":
            q = x @ b["qkv_Aq"] @ b["qkv_B"]
            k = v = x @ b["qkv_Akv"] @ b["qkv_B"]
        case "shareA_tieKV":
            h = x @ b["qkv_A"]
            q = h @ b["qkv_Bq"]
            k = v = h @ b["qkv_Bkv"]
        case "shareA_tieQK":
            h = x @ b["qkv_A"]
            q = k = h @ b["qkv_Bqk"]
            v = h @ b["qkv_Bv"]
    if model.frozen_residual and model.qkv_rank:
        q, k, v = (m + x @ b[f"{n}.frozen"] for n, m in zip("qkv", (q, k, v), strict=True))
    return q, k, v


@pytest.mark.parametrize("model", all_models(), ids=name_of)
def test_logits_are_those_of_the_independent_computation(model):
    flat, frozen = random_model(model)
    tokens = encode(random_pairs(2))[:, :-1]
    said = transformer.logits(model, tensors(model, flat, frozen), torch.from_numpy(tokens))
    blocks = Layout(model).views(flat) | frozen
    for row, expected in zip(said.numpy(), tokens, strict=True):
        np.testing.assert_allclose(row, slow_logits(model, blocks, expected), rtol=1e-9, atol=1e-9)


def test_the_loss_is_that_of_the_twelve_targets():
    flat, frozen = random_model(PUBLISHED)
    rows = encode(random_pairs(3))
    loss = transformer.loss(PUBLISHED, tensors(PUBLISHED, flat, frozen), torch.from_numpy(rows))
    blocks = Layout(PUBLISHED).views(flat)
    terms = []
    for row in rows:
        logits = slow_logits(PUBLISHED, blocks, row[:-1])
        terms += [np.log(np.exp(logits[i]).sum()) - logits[i, row[i + 1]] for i in range(21, 33)]
    assert len(terms) == 3 * 12
    assert float(loss) == pytest.approx(np.mean(terms), rel=1e-9)


def test_a_token_does_not_see_what_follows():
    flat, frozen = random_model(PUBLISHED)
    blocks = tensors(PUBLISHED, flat, frozen)
    tokens = torch.from_numpy(encode(random_pairs(1))[:, :-1])
    changed = tokens.clone()
    changed[0, 25] = (changed[0, 25] + 1) % 10
    before, after = (transformer.logits(PUBLISHED, blocks, t)[0] for t in (tokens, changed))
    assert torch.equal(before[:25], after[:25])
    assert not torch.allclose(before[25:], after[25:])


def test_an_answer_is_the_most_likely_token_time_after_time():
    flat, frozen = random_model(PUBLISHED, seed=4)
    blocks = tensors(PUBLISHED, flat, frozen)
    prompt = torch.from_numpy(encode(random_pairs(5))[:, :22])
    answers = transformer.answer(PUBLISHED, blocks, prompt)
    whole = torch.cat([prompt, answers], dim=1)
    again = transformer.logits(PUBLISHED, blocks, whole[:, :-1])[:, 21:].argmax(-1)
    assert torch.equal(again, answers)


def test_heads_split_the_width():
    """Two heads with equal halves of every map give what one of them gives, twice."""
    model = PUBLISHED.__class__(d_model=4, n_head=2, d_ff=4)
    flat, frozen = random_model(model)
    blocks = tensors(model, flat, frozen)
    qkv = blocks["blocks.0.attn.qkv.weight"].clone().reshape(3, 2, 2, 4)
    qkv[:, 1] = qkv[:, 0]
    blocks["blocks.0.attn.qkv.weight"] = qkv.reshape(12, 4)
    blocks["blocks.0.attn.proj.weight"] = torch.eye(4, dtype=torch.float64)
    x = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mixed = transformer.attention(model, blocks, 0, x)
    assert torch.allclose(mixed[..., :2], mixed[..., 2:])
    assert not torch.allclose(mixed[..., 0], mixed[..., 1])
