import numpy as np
import pytest

from experiments.addition.config import (
    AdditionError,
    ModelConfig,
    TrainConfig,
    as_table,
    config_from,
)
from experiments.addition.parameters import Layout, qkv_factors, start_values, take
from tests.experiments.addition.addition_cases import PUBLISHED, all_models, name_of

# Matrices of the query, key and value maps: factors A (7 x r) and B (r x 7), or whole (7 x 7).
FACTORS = {
    "shareA": 4,
    "shareB": 4,
    "shareB_tieQK": 3,
    "shareB_tieKV": 3,
    "shareA_tieKV": 3,
    "shareA_tieQK": 3,
    "all": 2,
    "qk": 4,
    "kv": 4,
}
WHOLE = {"none": 3, "all": 1, "qk": 2, "kv": 2}


def count_without_attention_maps(model):
    d, ff = model.d_model, model.d_ff
    positions = 33 * d if model.pos_rank == 0 else model.pos_rank * (33 + d)
    out = d * d if model.attn_out_rank == 0 else model.attn_out_rank * 2 * d
    feed_forward = 2 * (d * ff if model.ffn_rank == 0 else model.ffn_rank * (d + ff))
    norms = 3 * d if model.use_rmsnorm else 6 * d
    return 14 * d + positions + out + feed_forward + norms


@pytest.mark.parametrize("model", all_models(), ids=name_of)
def test_every_tying_has_the_count_of_its_factors(model):
    d, rank = model.d_model, model.qkv_rank
    if rank == 0:
        maps = WHOLE[model.tie_qkv] * d * d
    elif model.tie_qkv == "none":
        maps = rank * d + rank * 3 * d
    else:
        maps = FACTORS[model.tie_qkv] * d * rank
    layout = Layout(model)
    assert layout.size == count_without_attention_maps(model) + maps
    assert start_values(model, TrainConfig())[0].shape == (layout.size,)


def test_the_published_counts():
    assert Layout(PUBLISHED).size == 456
    rank_three = ModelConfig(pos_rank=3, qkv_rank=3, attn_out_rank=3, ffn_rank=3)
    assert Layout(rank_three).size == 512
    assert Layout(ModelConfig()).size == 763
    assert Layout(ModelConfig(d_model=8, d_ff=28, ffn_rank=3, frozen_residual=1.0)).size == 896


def test_views_cover_the_flat_array_once():
    layout = Layout(PUBLISHED)
    flat = np.zeros(layout.size)
    for block in layout.views(flat).values():
        block += 1
    assert (flat == 1).all()


def test_the_start_has_the_published_deviations():
    model = ModelConfig(d_model=64, d_ff=256, pos_rank=16, qkv_rank=16, ffn_rank=16)
    flat, _ = start_values(model, TrainConfig(seed=3))
    blocks = Layout(model).views(flat)
    for name, deviation in (
        ("token_emb.weight", 0.02),
        ("pos_emb.A", 0.02),
        ("blocks.0.attn.qkv.A", (2 / (64 + 16)) ** 0.5),
        ("blocks.0.attn.qkv.B", (2 / (16 + 192)) ** 0.5),
        ("blocks.0.mlp.fc2.A", (2 / (256 + 16)) ** 0.5),
        ("blocks.0.attn.proj.weight", 0.02),
    ):
        assert blocks[name].std() == pytest.approx(deviation, rel=0.1), name
    assert (blocks["ln_f.weight"] == 1).all()
    assert (blocks["ln_f.bias"] == 0).all()


@pytest.mark.parametrize("rank", [0, 3])
def test_an_aligned_start_joins_digits_of_equal_weight(rank):
    model = ModelConfig(pos_rank=rank)
    flat, _ = start_values(model, TrainConfig(aligned_start=0.5))
    blocks = Layout(model).views(flat)
    rows = blocks["pos_emb.weight"] if rank == 0 else blocks["pos_emb.A"] @ blocks["pos_emb.B"]
    for weight in range(10):  # of 10^weight: in a, in b, and where that digit of the sum is said
        alike = rows[[9 - weight, 20 - weight, 21 + weight]]
        assert np.array_equal(alike, alike[[1, 2, 0]])
    assert len(np.unique(rows, axis=0)) == 13  # ten weights, the last carry, eos and '+'
    said = rows[21:32]
    apart = np.linalg.norm(said[:, None] - said, axis=-1)
    assert (np.diagonal(apart, 1).max() < np.diagonal(apart, 3)).all()  # neighbours are near
    assert np.linalg.norm(rows[32] - said, axis=-1).min() > apart[0, 1]  # eos is nobody's


@pytest.mark.parametrize("model", all_models(), ids=name_of)
def test_with_an_aligned_start_queries_start_as_keys(model):
    flat, _ = start_values(model, TrainConfig(aligned_start=1.0))
    blocks = Layout(model).views(flat)
    query, key, _ = qkv_factors(model)
    assert np.array_equal(take(blocks, query.A), take(blocks, key.A))
    if query.B is not None:
        assert np.array_equal(take(blocks, query.B), take(blocks, key.B))


def test_frozen_matrices_belong_to_low_rank_maps_only():
    model = ModelConfig(ffn_rank=3, frozen_residual=0.5)
    _, frozen = start_values(model, TrainConfig())
    assert {k: v.shape for k, v in frozen.items()} == {
        "blocks.0.mlp.fc1.frozen": (7, 14),
        "blocks.0.mlp.fc2.frozen": (14, 7),
    }
    assert Layout(model).size == Layout(ModelConfig(ffn_rank=3)).size


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 0}, "d_model is 0"),
        ({"d_model": True}, "d_model is True"),
        ({"d_model": 10**9}, "d_model is 1000000000"),
        ({"pos_rank": -1}, "pos_rank is -1"),
        ({"tie_qkv": "some"}, "unknown tie_qkv 'some'"),
        ({"tie_qkv": "shareA"}, "'shareA' shares a factor"),
        ({"vocab_size": 15}, "33 positions of 15 tokens"),
        ({"n_head": 2}, "no multiple of n_head 2"),
        ({"use_rmsnorm": "yes"}, "use_rmsnorm is 'yes'"),
        ({"frozen_residual": float("nan")}, "frozen_residual is nan"),
        ({"width": 3}, "unknown field 'width'"),
    ],
)
def test_a_wrong_model_is_refused_in_one_sentence(values, message):
    with pytest.raises(AdditionError, match=message):
        config_from(ModelConfig, values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": 0.0}, "lr is 0.0"),
        ({"train_steps": 0}, "train_steps is 0"),
        ({"curriculum": [[11, 5]]}, "digits of the curriculum is 11"),
        ({"min_lr_ratio": 2}, "min_lr_ratio is 2"),
        ({"carry_share": 1.5}, "carry_share is 1.5"),
    ],
)
def test_a_wrong_training_is_refused_in_one_sentence(values, message):
    with pytest.raises(AdditionError, match=message):
        config_from(TrainConfig, values)


def test_a_configuration_survives_its_table():
    train = TrainConfig(seed=5, curriculum=((2, 10),))
    assert config_from(TrainConfig, as_table(train)) == train


def test_the_learning_rate_warms_up_and_falls_to_its_share():
    train = TrainConfig(train_steps=1000, warmup_steps=100, lr=0.02, min_lr_ratio=0.1)
    rates = np.array([train.rate(step) for step in range(1001)])
    assert rates[0] == pytest.approx(0.02 / 100)
    assert rates[99] == pytest.approx(0.02)
    assert rates[100] == pytest.approx(0.02)
    assert rates.max() == pytest.approx(0.02)
    assert rates[1000] == pytest.approx(0.002)
    assert (np.diff(rates[100:]) < 0).all()
    assert train.rate(550) == pytest.approx((0.02 + 0.002) / 2)


def test_long_carries_fade_in_the_middle_half_of_the_training():
    train = TrainConfig(train_steps=1000, carry_share=0.8)
    shares = [train.carrying(step) for step in (0, 250, 500, 750, 999)]
    assert shares == pytest.approx([0.8, 0.8, 0.4, 0.0, 0.0])
    assert TrainConfig().carrying(0) == 0.0


def test_the_curriculum_has_three_phases():
    digits = [TrainConfig().most_digits(step) for step in (0, 1999, 2000, 6999, 7000, 53_999)]
    assert digits == [3, 3, 6, 6, 10, 10]
