"""Backpropagation: through the steps of a network that relaxes, and through a torch module."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from adapters.torch_arrays import torch, unpack
from adapters.torch_autograd import loss, relax_through
from engine.arrays import Array, FloatArray, IntArray
from engine.backend import Backend
from engine.errors import EngineError
from engine.learning.estimator import Report
from engine.learning.run import Epoch, Run
from engine.learning.training import Training, descend

BATCH = 1024
"""Samples that are read out at once."""
BENDS: dict[str, Callable[[], torch.nn.Module]] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "hard_sigmoid": partial(torch.nn.Hardtanh, 0.0, 1.0),
}
"""Activations that networks which relax and modules of torch both have."""


def check_activation(name: str) -> None:
    """Refuse an activation that not all contestants have."""
    if name not in BENDS:
        raise EngineError(f"activation is '{name}', expected one of {', '.join(BENDS)}.")


def bptt_step(
    backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int
) -> Report:
    """Update by backpropagation through the free relaxation; a step for `engine.fit`.

    Only the gradient differs from EqProp: optimizer, cap and order of the batches are its own.
    """
    cost = _backpropagate(backend, x, y, training.settled.max_steps, run, None)
    descend(backend, training, run, total)
    return Report(cost, free_steps=training.settled.max_steps, nudged_steps=0.0, unsettled=0.0)


def settled_bptt_step(
    backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int, *, steps: int
) -> Report:
    """Do the same from where the free relaxation ended, back through `steps` more of it."""
    free = backend.settle(backend.clamp(x), relaxation=training.settled)
    cost = _backpropagate(backend, x, y, steps, run, torch.as_tensor(free.state))
    descend(backend, training, run, total)
    count = len(free.steps)
    settled = float(free.converged.sum()) / count
    return Report(cost, float(free.steps.sum()) / count, 0.0, 1.0 - settled)


def _backpropagate(
    backend: Backend, x: Array, y: Array, steps: int, run: Run, start: torch.Tensor | None
) -> float:
    """Fill `run.gradient` by autograd through `steps` free steps; return the mean cost."""
    inputs, targets = torch.as_tensor(x), torch.as_tensor(y)
    theta = torch.tensor(backend.params.theta, device=inputs.device).requires_grad_()
    blocks = unpack(backend.network, theta)
    state = relax_through(backend.network, blocks, inputs, steps, start)
    mean = loss(backend.network, blocks, state, targets)
    (gradient,) = torch.autograd.grad(mean, theta)
    run.gradient[:] = gradient.numpy() if isinstance(run.gradient, np.ndarray) else gradient
    return mean.item()


class TorchLearner:
    """A torch module that maps inputs to logits, trained with softmax cross entropy.

    If it is `continuous` it maps them to predictions, and is trained with half the squared error.
    """

    def __init__(
        self, model: torch.nn.Module, device: str = "cpu", continuous: bool = False
    ) -> None:
        self._model, self._device, self._continuous = model.to(device), device, continuous

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self._model.parameters())

    @property
    def weights(self) -> dict[str, FloatArray]:
        """A copy of the parameters by name, as torch arranges them."""
        return {name: value.cpu().numpy() for name, value in self._model.state_dict().items()}

    def fit(
        self,
        x: FloatArray,
        y: IntArray | FloatArray,
        training: Training,
        decay: float,
        on_epoch: Callable[[Epoch], None],
        views: Callable[[Array], Array] = lambda x: x,
    ) -> None:
        """Train with Adam, the cosine schedule and the batch order that EqProp has.

        The weights decay apart from the gradient, as there; the biases do not. A batch is trained
        on what `views` makes of it.
        """
        rng = np.random.default_rng(training.seed)
        inputs, labels = (torch.from_numpy(array).to(self._device) for array in (x, y))
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
            order = torch.from_numpy(rng.permutation(len(x))).to(self._device)
            cost = 0.0
            for rows in torch.split(order, training.batch_size):
                optimizer.zero_grad()
                mean = self._cost(self._model(views(inputs[rows])), labels[rows])
                mean.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                cosine.step()
                cost += mean.item() * len(rows) / len(x)
            seconds = time.perf_counter() - began
            on_epoch(Epoch(number, cost, 0.0, 0.0, 0.0, seconds))

    def _cost(self, read: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self._continuous:
            return torch.nn.functional.mse_loss(read, labels) / 2
        return torch.nn.functional.cross_entropy(read, labels)

    @torch.inference_mode()
    def outputs(self, x: FloatArray) -> FloatArray:
        """Return class probabilities `(samples, classes)`, or predictions `(samples, 1)`."""
        parts = torch.split(torch.from_numpy(x), BATCH)
        read = [self._model(part.to(self._device)) for part in parts]
        said = torch.cat([part if self._continuous else part.softmax(-1) for part in read])
        outputs: FloatArray = said.cpu().numpy()
        return outputs


def draw_uniformly(model: torch.nn.Module, seed: int) -> None:
    """Start a module as torch does, from a generator that nothing else draws from.

    All parameters of a layer are uniform within `1 / sqrt(fan in)`.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
            bound = layer.weight[0].numel() ** -0.5
            for parameter in layer.parameters():
                torch.nn.init.uniform_(parameter, -bound, bound, generator=generator)
