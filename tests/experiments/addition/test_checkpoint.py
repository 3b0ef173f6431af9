import os
import pickle
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from adapters.torch_arrays import torch
from experiments.addition.checkpoint import load_checkpoint, save_checkpoint
from experiments.addition.config import AdditionError, ModelConfig
from tests.experiments.addition.addition_cases import (
    PUBLISHED,
    all_models,
    name_of,
    random_checkpoint,
)


@pytest.fixture
def content(tmp_path):
    save_checkpoint(tmp_path / "good.pt", random_checkpoint(), {"seed": 1})
    return torch.load(tmp_path / "good.pt", weights_only=True)


def refused(tmp_path, content):
    path = tmp_path / "changed.pt"
    torch.save(content, path)
    with pytest.raises(AdditionError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("model", all_models(), ids=name_of)
def test_a_checkpoint_comes_back_as_it_was(tmp_path, model):
    saved = random_checkpoint(model)
    save_checkpoint(tmp_path / "model.pt", saved, {})
    loaded = load_checkpoint(tmp_path / "model.pt")
    assert (loaded.config, loaded.step, loaded.val_exact) == (model, 7, 0.25)
    assert np.array_equal(loaded.flat, saved.flat)
    assert loaded.frozen.keys() == saved.frozen.keys()
    assert all(np.array_equal(loaded.frozen[name], saved.frozen[name]) for name in saved.frozen)


def test_the_file_has_the_published_keys(content):
    assert content.keys() == {
        "model_state", "model_config", "train_config", "step", "val_exact", "params",
    }  # fmt: skip
    assert content["params"] == 456
    assert {name: tuple(block.shape) for name, block in content["model_state"].items()} == {
        "token_emb.weight": (14, 7), "pos_emb.A": (33, 3), "pos_emb.B": (3, 7),
        "blocks.0.ln1.weight": (7,), "blocks.0.attn.qkv_A": (7, 3),
        "blocks.0.attn.qkv_Bq": (3, 7), "blocks.0.attn.qkv_Bkv": (3, 7),
        "blocks.0.attn.proj.A": (7, 2), "blocks.0.attn.proj.B": (2, 7),
        "blocks.0.ln2.weight": (7,), "blocks.0.mlp.fc1.A": (7, 3), "blocks.0.mlp.fc1.B": (3, 14),
        "blocks.0.mlp.fc2.A": (14, 3), "blocks.0.mlp.fc2.B": (3, 7), "ln_f.weight": (7,),
        "lm_head.weight": (14, 7),
    }  # fmt: skip
    assert set(content["model_config"]) == {
        "n_layer", "d_model", "n_head", "d_ff", "dropout", "max_seq_len", "vocab_size", "pos_rank",
        "qkv_rank", "attn_out_rank", "ffn_rank", "use_rmsnorm", "tie_qkv",
    }  # fmt: skip


def test_every_block_is_missed(tmp_path, content):
    for name in list(content["model_state"]):
        state = {k: v for k, v in content["model_state"].items() if k != name}
        assert f"'{name}' is missing" in refused(tmp_path, content | {"model_state": state})


def test_every_block_is_checked_for_shape_kind_and_finite_numbers(tmp_path, content):
    for name, block in content["model_state"].items():
        for wrong, message in (
            (block[:-1], "has shape"),
            (block.T.contiguous() if block.ndim == 2 else block[None], "has shape"),
            (block.long(), "expected real numbers"),
            (torch.full_like(block, float("nan")), "not finite"),
            ([1.0], "no plain tensor"),
            (torch.zeros(block.shape, device="meta"), "no plain tensor"),
        ):
            said = refused(
                tmp_path, content | {"model_state": content["model_state"] | {name: wrong}}
            )
            assert f"'{name}'" in said
            assert message in said


def test_an_output_map_that_is_not_tied_is_refused(tmp_path, content):
    head = content["model_state"]["lm_head.weight"].clone()
    head[0, 0] += 1
    state = content["model_state"] | {"lm_head.weight": head}
    assert "tied" in refused(tmp_path, content | {"model_state": state})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_state": None}, "no model_state"),
        ({"model_config": None}, "expected a table"),
        ({"model_config": {"d_model": "7"}}, "d_model is '7'"),
        ({"params": 457}, "457 parameters"),
        ({"params": torch.ones(3)}, "no number"),
        ({"step": "late"}, "no number"),
        ({"training": 3}, "no table"),
    ],
)
def test_wrong_contents_are_refused(tmp_path, content, change, message):
    assert message in refused(tmp_path, content | change)


def test_an_unknown_block_is_refused(tmp_path, content):
    state = content["model_state"] | {"blocks.1.ln1.weight": torch.ones(7)}
    said = refused(tmp_path, content | {"model_state": state})
    assert "unknown block 'blocks.1.ln1.weight'" in said


def test_a_file_that_would_run_code_is_refused_and_runs_none(tmp_path):
    marker = tmp_path / "ran"

    class Payload:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    assert "no usable checkpoint" in refused(tmp_path, {"model_state": Payload()})
    raw = tmp_path / "raw.pt"
    raw.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(AdditionError, match="no usable checkpoint"):
        load_checkpoint(raw)
    assert not marker.exists()


def test_a_file_that_is_damaged_or_none_at_all_is_refused(tmp_path):
    path = tmp_path / "cut.pt"
    save_checkpoint(path, random_checkpoint(), {})
    whole = path.read_bytes()
    cut, gap = whole[: len(whole) // 2], whole[:200] + whole[260:]
    for damaged in (cut, gap, b"", b".", b"no checkpoint"):
        path.write_bytes(damaged)
        with pytest.raises(AdditionError, match=r"no usable checkpoint: it is no whole archive"):
            load_checkpoint(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nothing", "")
    with pytest.raises(AdditionError, match="no usable checkpoint"):
        load_checkpoint(path)
    with pytest.raises(AdditionError, match="there is no file"):
        load_checkpoint(tmp_path / "absent.pt")


def values_of(checkpoint):
    """Return all that a checkpoint holds, fit for `==`, bit for bit."""
    training = {
        name: value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
        for name, value in checkpoint.training.items()
    }
    frozen = {name: block.tobytes() for name, block in checkpoint.frozen.items()}
    rest = checkpoint.config, checkpoint.step, checkpoint.val_exact
    return checkpoint.flat.tobytes(), frozen, training, *rest


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(tmp_path):
    path = tmp_path / "model.pt"
    training = {"moments": torch.rand(2, 456), "rng": '{"state": 3}', "elapsed": 1.5}
    save_checkpoint(path, replace(random_checkpoint(), training=training), {"seed": 1})
    whole = path.read_bytes()
    expected = values_of(load_checkpoint(path))
    draw, sentences = np.random.default_rng(0), []
    for start in range(0, len(whole) - 16, 16):  # no region is left out
        damaged = bytearray(whole)
        damaged[start + draw.integers(16)] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        try:
            assert values_of(load_checkpoint(path)) == expected, start
        except AdditionError as error:
            sentences.append(str(error))
    assert all(s.startswith(f"{path} is no usable checkpoint: ") for s in sentences)
    assert not any("\n" in s for s in sentences)
    assert len(sentences) > 3 * 456 * 4 / 16  # at least the flips in the parameters and moments


def test_an_archive_that_unpacks_to_more_than_its_file_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb/data.pkl", bytes(1 << 26))
    tracemalloc.start()
    try:
        with pytest.raises(AdditionError, match="it unpacks to 67,108,864 bytes, expected at most"):
            load_checkpoint(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_of_another_kind_of_table_is_refused(tmp_path):
    path = tmp_path / "list.pt"
    torch.save([1, 2], path)
    with pytest.raises(AdditionError, match="holds no table"):
        load_checkpoint(path)


def test_the_configuration_keeps_a_frozen_residual(tmp_path):
    model = ModelConfig(ffn_rank=3, frozen_residual=0.5)
    save_checkpoint(tmp_path / "frozen.pt", random_checkpoint(model), {})
    assert load_checkpoint(tmp_path / "frozen.pt").config == model
    assert PUBLISHED.frozen_residual == 0.0
