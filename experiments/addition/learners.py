"""Who turns batches into parameters: the compiled kernels, or torch with all seeds in one stack.

A learner holds the flat parameters and the AdamW moments of one or more seeds, `(seeds, size)`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from adapters.torch_arrays import pick_device, torch
from engine.arrays import Array, FloatArray
from experiments.addition import transformer
from experiments.addition.config import ModelConfig, TrainConfig
from experiments.addition.fast_model import FastModel, runs_compiled
from experiments.addition.parameters import Blocks, Layout

DECAY1, DECAY2, EPS = 0.9, 0.999, 1e-8
NORM_EPS = 1e-6
"""Added to the norm when clipping, as torch does."""


class SeedLearner(Protocol):
    """What the training loop asks of either."""

    def learn(self, rows: npt.NDArray[np.int64], step: int) -> FloatArray:
        """Update every seed from its batch `rows (seeds, n, 34)`; return the losses `(seeds,)`."""

    def answer(self, prompts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the answers `(seeds, n, 12)` to prompts `(seeds, n, 22)`."""

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Return copies of the parameters `(seeds, size)` and moments `(2, seeds, size)`."""


def adamw(flat: Array, gradient: Array, moments: Array, step: int, config: TrainConfig) -> None:
    """Clip `gradient (seeds, size)` seed by seed, then update `flat` and `moments` in place.

    Decoupled decay acts on every parameter. The formula serves numpy and torch alike.
    """
    norm = (gradient * gradient).sum(-1)[..., None] ** 0.5
    gradient = gradient * (config.grad_clip / (norm + NORM_EPS)).clip(max=1.0)
    rate = config.rate(step)
    first, second = moments
    first += (1 - DECAY1) * (gradient - first)
    second += (1 - DECAY2) * (gradient * gradient - second)
    flat *= 1 - rate * config.weight_decay
    root = (second / (1 - DECAY2 ** (step + 1))) ** 0.5 + EPS
    flat -= rate / (1 - DECAY1 ** (step + 1)) * first / root


class CompiledLearner:
    """Seeds one after the other on the compiled kernels."""

    def __init__(
        self,
        config: ModelConfig,
        train: TrainConfig,
        flat: FloatArray,
        frozen: Sequence[Blocks],
        moments: FloatArray,
    ) -> None:
        self._train = train
        self._models = [FastModel(config, blocks) for blocks in frozen]
        self._flat, self._moments = flat.copy(), moments.copy()

    def learn(self, rows: npt.NDArray[np.int64], step: int) -> FloatArray:
        """Update every seed."""
        pairs = [
            model.loss_and_gradient(flat, batch)
            for model, flat, batch in zip(self._models, self._flat, rows, strict=True)
        ]
        gradient = np.stack([gradient for _, gradient in pairs])
        adamw(self._flat, gradient, self._moments, step, self._train)
        return np.array([loss for loss, _ in pairs])

    def answer(self, prompts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Decode greedily."""
        answers = [
            model.answer(flat, asked)
            for model, flat, asked in zip(self._models, self._flat, prompts, strict=True)
        ]
        return np.stack(answers)

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Return copies."""
        return self._flat.copy(), self._moments.copy()


class StackLearner:
    """All seeds as one batched model, on any device of torch."""

    def __init__(
        self,
        config: ModelConfig,
        train: TrainConfig,
        flat: FloatArray,
        frozen: Sequence[Blocks],
        moments: FloatArray,
        device: str,
    ) -> None:
        self._train, self._device = train, pick_device(device, np.float32)
        self._flat, self._moments = self._place(flat), self._place(moments)
        layout = Layout(config)
        stacked = {
            name: self._place(np.stack([blocks[name] for blocks in frozen]))
            for name in layout.frozen
        }

        def blocks_of(flat: torch.Tensor, fixed: transformer.Tensors) -> transformer.Tensors:
            views: Any = layout.views(flat)  # type: ignore[arg-type]
            blocks: transformer.Tensors = views | fixed
            return blocks

        def loss(
            flat: torch.Tensor, fixed: transformer.Tensors, rows: torch.Tensor
        ) -> torch.Tensor:
            return transformer.loss(config, blocks_of(flat, fixed), rows)

        def answer(
            flat: torch.Tensor, fixed: transformer.Tensors, asked: torch.Tensor
        ) -> torch.Tensor:
            return transformer.answer(config, blocks_of(flat, fixed), asked)

        self._frozen = stacked
        self._slopes = torch.func.vmap(torch.func.grad_and_value(loss))
        self._answer = torch.func.vmap(answer)

    def learn(self, rows: npt.NDArray[np.int64], step: int) -> FloatArray:
        """Update the stack."""
        batch = torch.tensor(rows, device=self._device)
        gradient, losses = self._slopes(self._flat, self._frozen, batch)
        adamw(self._flat, gradient, self._moments, step, self._train)
        values: FloatArray = losses.detach().cpu().numpy()
        return values

    def answer(self, prompts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Decode greedily."""
        asked = torch.tensor(prompts, device=self._device)
        parts = torch.split(asked, self._train.batch_size, dim=1)
        answers = [self._answer(self._flat, self._frozen, part).cpu() for part in parts]
        both: npt.NDArray[np.int64] = torch.cat(answers, dim=1).numpy()
        return both

    def state(self) -> tuple[FloatArray, FloatArray]:
        """Return copies."""
        return self._flat.cpu().numpy().copy(), self._moments.cpu().numpy().copy()

    def _place(self, array: FloatArray) -> torch.Tensor:
        return torch.tensor(np.asarray(array, np.float32), device=self._device)


def make_learner(
    config: ModelConfig,
    train: TrainConfig,
    flat: FloatArray,
    frozen: Sequence[Blocks],
    moments: FloatArray,
    device: str,
) -> SeedLearner:
    """Return the compiled learner on a CPU where it knows the model, else the torch stack."""
    if pick_device(device, np.float32).type == "cpu" and runs_compiled(config):
        return CompiledLearner(config, train, flat, frozen, moments)
    return StackLearner(config, train, flat, frozen, moments, device)
