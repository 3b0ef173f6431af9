"""Part 2's contestants: EqProp on two backends, and backprop in torch as fast as it goes.

The torch learners have their data as tensors beforehand and ask for no number inside an epoch.
Adam, the cosine schedule, the batch size and the order of the samples are the same for all.
"""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from adapters.torch_arrays import torch
from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.threads import fitting_threads
from engine.learning.optimizer import scheduled
from engine.learning.predict import evaluate
from engine.learning.run import Epoch, Run
from engine.learning.spectral import SpectralCap, starting_vectors
from engine.learning.training import Training, train_step
from engine.model.network import Network
from engine.model.params import Params
from experiments.benchmark.work import StepsTaken
from experiments.tasks import Split

TRIAL_STEPS = 40
"""Updates with each implementation of torch's Adam, to take the faster."""


class EqPropLearner:
    """Equilibrium propagation on a backend, by the engine's own training step."""

    def __init__(self, backend: Backend, split: Split, training: Training) -> None:
        self._backend, self._training, self._split = backend, training, split
        self._run = Run.start(backend.network, 2, backend.dtype, training.seed)
        self._y = np.eye(backend.network.outputs, dtype=np.float32)[split.y_train]
        self._steps: list[tuple[float, float]] = []
        self._total = training.epochs * -(-len(self._y) // training.batch_size)

    @property
    def took(self) -> StepsTaken:
        """How many steps the free and the nudged phases took in the last epoch."""
        free, nudged = np.mean(self._steps, axis=0)
        nudges = sum(beta != 0.0 for beta, _ in self._training.phases(self._backend))
        way, _ = self._training.relaxations(self._backend)
        several = len(self._backend.network.layers) > 1  # one layer takes no turns
        return StepsTaken(free, nudged, nudges, several and way.solver == "sweeps")

    @property
    def note(self) -> str:
        """The steps, in a few words."""
        took = self.took
        kind = "sweeps" if took.sweeps else "steps"
        return f"{took.free:.1f} + {took.nudges} x {took.nudged:.1f} {kind}"

    def train_epoch(self) -> None:
        """Go once through the training part."""
        self._steps.clear()
        cost = 0.0
        x, size = self._split.x_train, self._training.batch_size
        order = self._run.rng.permutation(len(x))
        backend = self._backend
        with fitting_threads(backend.network, size), backend.fitting_threads(size):  # as `fit` does
            for first in range(0, len(x), size):
                rows = order[first : first + size]
                report = train_step(
                    self._backend, x[rows], self._y[rows], self._training, self._run, self._total
                )
                self._steps.append((report.free_steps, report.nudged_steps))
                cost += report.cost * len(rows) / len(x)
        history, (free, nudged) = self._run.history, np.mean(self._steps, axis=0)
        # Tolerances that are not said follow the cost of the epoch before.
        history.append(Epoch(len(history) + 1, float(cost), free, nudged, 0.0, 0.0))

    def accuracy(self) -> float:
        """Return the share of right answers on the validation part."""
        found = evaluate(
            self._backend, self._split.x_valid, self._split.y_valid, self._training.settled
        )
        return float(found.accuracy or 0.0)


class BackpropLearner:
    """Backpropagation by torch: `logits` maps a batch to its outputs."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        logits: Callable[[torch.Tensor], torch.Tensor],
        split: Split,
        training: Training,
        after_step: Callable[[int], None] | None = None,
    ) -> None:
        self._parameters, self._logits, self._after = parameters, logits, after_step
        self._training, self._step = training, 0
        self._rng = np.random.default_rng(training.seed)
        self._x, self._labels = torch.from_numpy(split.x_train), torch.from_numpy(split.y_train)
        self._valid = torch.from_numpy(split.x_valid), torch.from_numpy(split.y_valid)
        self._total = training.epochs * -(-len(self._x) // training.batch_size)
        self._optimizer, self.note = self._faster_adam()

    def train_epoch(self) -> None:
        """Go once through the training part."""
        order = torch.from_numpy(self._rng.permutation(len(self._x)))
        for rows in torch.split(order, self._training.batch_size):
            rate = self._training.optimizer.lr * scheduled(
                self._training.schedule, self._step, self._total
            )
            self._optimizer.param_groups[0]["lr"] = rate
            self._update(self._optimizer, rows)
            if self._after is not None:
                self._after(self._step)
            self._step += 1

    @torch.inference_mode()
    def accuracy(self) -> float:
        """Return the share of right answers on the validation part."""
        x, labels = self._valid
        return float((self._logits(x).argmax(1) == labels).float().mean())

    def _update(self, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        outputs = self._logits(self._x[rows])
        torch.nn.functional.cross_entropy(outputs, self._labels[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def _faster_adam(self) -> tuple[torch.optim.Optimizer, str]:
        """Try torch's implementations of Adam with a rate of zero, which changes nothing."""
        rows = torch.arange(min(len(self._x), self._training.batch_size))
        seconds: dict[str, float] = {}
        for kind in ("foreach", "fused"):
            optimizer = self._adam(kind, 0.0)
            for step in range(TRIAL_STEPS):
                if step == TRIAL_STEPS // 4:  # the first ones warm up
                    began = time.perf_counter()
                self._update(optimizer, rows)
            seconds[kind] = time.perf_counter() - began
        best = min(seconds, key=lambda kind: seconds[kind])
        return self._adam(best, self._training.optimizer.lr), f"Adam: {best}"

    def _adam(self, kind: str, rate: float) -> torch.optim.Adam:
        foreach, fused = kind == "foreach", kind == "fused"
        return torch.optim.Adam(self._parameters, rate, foreach=foreach, fused=fused)


def feedforward(sizes: Sequence[int], split: Split, training: Training) -> BackpropLearner:
    """Build the feed-forward ReLU network that backprop trains, from torch's own start."""
    generator = torch.Generator().manual_seed(training.seed)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        linear = torch.nn.Linear(inputs, outputs)
        for parameter in linear.parameters():
            torch.nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    return BackpropLearner(list(model.parameters()), model, split, training)


def unrolled(
    network: Network, params: Params, steps: int, split: Split, training: Training
) -> BackpropLearner:
    """Build BPTT through `steps` free steps of the looped network, capped as EqProp's is."""
    activate = {"tanh": torch.tanh, "relu": torch.relu}[network.layers[0].activation]
    theta = {name: torch.tensor(block, requires_grad=True) for name, block in params.items()}
    blocks: dict[str, FloatArray] = {"W_rec": theta["W_rec"].detach().numpy()}
    vectors, cap = starting_vectors(network), training.spectral_cap or SpectralCap()

    def logits(x: torch.Tensor) -> torch.Tensor:
        weight = (theta["W_rec"] + theta["W_rec"].T) / 2
        drive = torch.addmm(theta["b"], x, theta["W_in"])
        state = activate(drive)
        for _ in range(steps):
            state = activate(torch.addmm(drive, state, weight))
        return torch.addmm(theta["b_out"], state, theta["W_out"])

    def enforce(step: int) -> None:
        cap.enforce(network, blocks, step, vectors)

    return BackpropLearner(list(theta.values()), logits, split, training, enforce)
