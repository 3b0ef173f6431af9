"""Checkpoints in the published format, read without running code and checked block by block."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adapters.torch_arrays import torch
from engine.archives import ArchiveError, read_archive
from engine.arrays import FloatArray
from experiments.addition.config import AdditionError, ModelConfig, as_table, config_from
from experiments.addition.parameters import HEAD, Blocks, Layout
from experiments.records import write_bytes

LARGEST_FILE = 1 << 28


@dataclass(frozen=True)
class Checkpoint:
    """A model as it was saved: its trained parameters `(size,)` and its frozen ones."""

    config: ModelConfig
    flat: FloatArray
    frozen: Blocks
    step: int
    val_exact: float
    training: dict[str, Any]
    """What a run needs to go on; empty in a checkpoint that is not the last of a run."""

    @property
    def params(self) -> int:
        """Number of trained parameters."""
        return Layout(self.config).size


def save_checkpoint(path: Path, checkpoint: Checkpoint, train_config: dict[str, Any]) -> None:
    """Write a checkpoint atomically. Without a frozen residual, the published code reads it."""
    config = as_table(checkpoint.config)
    if checkpoint.config.frozen_residual == 0.0:
        del config["frozen_residual"]
    blocks = Layout(checkpoint.config).views(checkpoint.flat) | checkpoint.frozen
    state = {name: torch.tensor(np.asarray(block)) for name, block in blocks.items()}
    state[HEAD] = state["token_emb.weight"]
    content: dict[str, Any] = {
        "model_state": state,
        "model_config": config,
        "train_config": train_config,
        "step": checkpoint.step,
        "val_exact": checkpoint.val_exact,
        "params": checkpoint.params,
    }
    if checkpoint.training:
        content["training"] = checkpoint.training
    file = io.BytesIO()
    torch.save(content, file)
    write_bytes(path, file.getvalue())


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, or refuse it in one sentence."""
    content = _read(path)
    try:
        config = config_from(ModelConfig, content.get("model_config"))
        flat, frozen = _checked_state(config, content.get("model_state"))
        step, val_exact = content.get("step", 0), content.get("val_exact", 0.0)
        params, training = content.get("params", len(flat)), content.get("training", {})
        whole = isinstance(step, int) and isinstance(params, int)
        if not (whole and isinstance(val_exact, float | int)):
            raise AdditionError("its step, val_exact or params is no number")
        if not isinstance(training, dict):
            raise AdditionError("its training state is no table")
        if params != len(flat):
            raise AdditionError(f"it says {params} parameters, its configuration has {len(flat)}")
        checkpoint = Checkpoint(config, flat, frozen, step, float(val_exact), training)
    except AdditionError as error:
        raise AdditionError(f"{path} is no usable checkpoint: {str(error).rstrip('.')}.") from None
    return checkpoint


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise AdditionError(f"there is no file {path}.")
    if path.stat().st_size > LARGEST_FILE:
        raise AdditionError(f"{path} is larger than any checkpoint of this experiment.")
    try:
        checked = _packed(read_archive(path))
        content = torch.load(checked, map_location="cpu", weights_only=True)
    except ArchiveError as error:
        raise AdditionError(f"{path} is no usable checkpoint: {error}") from None
    except Exception:  # a hostile file fails in as many ways as it likes
        raise AdditionError(
            f"{path} is no usable checkpoint: it was not written by torch, or holds more than "
            "tensors and plain values."
        ) from None
    if not isinstance(content, dict):
        raise AdditionError(f"{path} is no usable checkpoint: it holds no table.")
    return content


def _packed(members: dict[str, bytes]) -> io.BytesIO:
    """Pack members whose checksums were compared: torch, which compares none, reads only these."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    file.seek(0)
    return file


def _checked_state(config: ModelConfig, state: Any) -> tuple[FloatArray, Blocks]:
    """Return the trained and the frozen parameters of a state, key by key, shape by shape."""
    if not isinstance(state, dict):
        raise AdditionError("it has no model_state")
    layout = Layout(config)
    parts = layout.parts | layout.frozen
    expected = {name: part.shape for name, part in parts.items()}
    expected[HEAD] = expected["token_emb.weight"]
    for name in state:
        if name not in expected:
            raise AdditionError(f"it has an unknown block '{name}'")
    blocks: Blocks = {}
    for name, shape in expected.items():
        if name not in state:
            raise AdditionError(f"the block '{name}' is missing")
        blocks[name] = _checked_block(name, shape, state[name])
    if not np.array_equal(blocks[HEAD], blocks["token_emb.weight"]):
        raise AdditionError("the output map is not the token embedding, to which it is tied")
    flat = np.concatenate([blocks[name].ravel() for name in layout.parts])
    return flat, {name: blocks[name] for name in layout.frozen}


def _checked_block(name: str, shape: tuple[int, ...], tensor: Any) -> FloatArray:
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_meta:
        raise AdditionError(f"the block '{name}' is no plain tensor")
    if tuple(tensor.shape) != shape:
        raise AdditionError(f"the block '{name}' has shape {tuple(tensor.shape)}, expected {shape}")
    if not tensor.is_floating_point():
        raise AdditionError(f"the block '{name}' holds {tensor.dtype}, expected real numbers")
    block = tensor.detach().to(torch.float32).contiguous().numpy().copy()
    if not np.isfinite(block).all():
        raise AdditionError(f"the block '{name}' holds a number that is not finite")
    return block
