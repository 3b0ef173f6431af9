"""Backpropagation baselines: BPTT through the same looped network, and a feed-forward MLP."""

import time
from collections.abc import Callable

import numpy as np

from adapters.torch_arrays import torch, unpack
from adapters.torch_autograd import loss, relax_through
from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.learning.estimator import Report
from engine.learning.run import Epoch, Run
from engine.learning.training import Training, descend


def bptt_step(
    backend: Backend, x: FloatArray, y: FloatArray, training: Training, run: Run, total: int
) -> Report:
    """Update by backpropagation through the free relaxation; a step for `engine.fit`.

    Only the gradient differs from EqProp: optimizer, cap and order of the batches are its own.
    """
    theta = torch.from_numpy(backend.params.theta).clone().requires_grad_()
    blocks = unpack(backend.network, theta)
    steps = training.free.max_steps
    state = relax_through(backend.network, blocks, torch.from_numpy(x), steps)
    mean = loss(backend.network, blocks, state, torch.from_numpy(y))
    (gradient,) = torch.autograd.grad(mean, theta)
    run.gradient[:] = gradient.numpy()
    descend(backend, training, run, total)
    return Report(mean.item(), free_steps=steps, nudged_steps=0.0, unsettled=0.0)


class FeedForward:
    """A tanh or ReLU MLP with two hidden layers and softmax cross entropy, trained by torch."""

    def __init__(self, sizes: tuple[int, int, int, int], activation: str, seed: int) -> None:
        inputs, first, second, outputs = sizes
        bend = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]
        self._model = torch.nn.Sequential(
            torch.nn.Linear(inputs, first),
            bend(),
            torch.nn.Linear(first, second),
            bend(),
            torch.nn.Linear(second, outputs),
        )
        # Torch's own start, but from a generator that no other thread of the process draws from.
        generator = torch.Generator().manual_seed(seed)
        for layer in self._model:
            if isinstance(layer, torch.nn.Linear):
                bound = layer.in_features**-0.5
                for parameter in layer.parameters():
                    torch.nn.init.uniform_(parameter, -bound, bound, generator=generator)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self._model.parameters())

    def fit(
        self,
        x: FloatArray,
        y: IntArray,
        training: Training,
        decay: float,
        on_epoch: Callable[[Epoch], None],
    ) -> None:
        """Train with Adam, the cosine schedule and the batch order that EqProp has.

        The weights decay apart from the gradient, as there; the biases do not.
        """
        rng = np.random.default_rng(training.seed)
        inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
        named = list(self._model.named_parameters())
        weights = [parameter for name, parameter in named if name.endswith("weight")]
        biases = [parameter for name, parameter in named if name.endswith("bias")]
        optimizer = torch.optim.AdamW(
            [
                {"params": weights, "weight_decay": decay},
                {"params": biases, "weight_decay": 0.0},
            ],
            lr=training.optimizer.lr,
        )
        total = training.epochs * -(-len(x) // training.batch_size)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, total, eta_min=0.01 * training.optimizer.lr
        )
        for number in range(1, training.epochs + 1):
            began = time.perf_counter()
            order = torch.from_numpy(rng.permutation(len(x)))
            cost = 0.0
            for rows in torch.split(order, training.batch_size):
                optimizer.zero_grad()
                mean = torch.nn.functional.cross_entropy(self._model(inputs[rows]), labels[rows])
                mean.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                cosine.step()
                cost += mean.item() * len(rows) / len(x)
            seconds = time.perf_counter() - began
            on_epoch(Epoch(number, cost, 0.0, 0.0, 0.0, seconds))

    @torch.inference_mode()
    def probabilities(self, x: FloatArray) -> FloatArray:
        """Return class probabilities, `(samples, classes)`."""
        outputs: FloatArray = self._model(torch.from_numpy(x)).softmax(-1).numpy()
        return outputs
