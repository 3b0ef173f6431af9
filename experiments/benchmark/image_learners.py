"""Part 4's contestants in torch: backprop through the same layers, and EqProp by hand."""

from dataclasses import replace

import numpy as np

from adapters.torch_arrays import torch
from engine.learning.optimizer import scheduled
from engine.learning.spectral import AUTO_CAP, layer_radius
from engine.learning.training import Training
from engine.model.network import Network
from engine.model.params import Params
from experiments.benchmark.learners import BackpropLearner
from experiments.benchmark.torch_eqprop import LAYOUT, PlainStack, Sweeps
from experiments.contest.baselines import draw_uniformly
from experiments.tasks import Image, Split
from experiments.vision.networks import kernels_of

ASKED = 512
"""Images that are answered at a time."""


def planes_of(split: Split, image: Image) -> Split:
    """Return a split whose images are as torch takes them, `(samples, channels, height, width)`.

    They are turned once, beforehand; in memory the channels of a pixel stay side by side.
    """
    turned = {
        part: getattr(split, part).reshape(-1, *image).transpose(0, 3, 1, 2)
        for part in ("x_train", "x_valid")
    }
    return replace(split, **turned)


def stack_of_planes(network: Network, planes: Split, training: Training) -> BackpropLearner:
    """Build the layers of a network as a feed-forward one that backprop trains."""
    layers: list[torch.nn.Module] = []
    for coupling in kernels_of(network):
        fan_in, channels = network.blocks[coupling.name].shape
        window = (coupling.kernel, coupling.stride, coupling.padding)
        inside = fan_in // coupling.kernel**2
        layers += [torch.nn.Conv2d(inside, channels, *window), torch.nn.ReLU()]
    layers += [torch.nn.Flatten(), torch.nn.Linear(network.layers[-1].size, network.outputs)]
    model = torch.nn.Sequential(*layers)
    draw_uniformly(model, training.seed)
    model = model.to(memory_format=LAYOUT)  # type: ignore[call-overload]
    return BackpropLearner(list(model.parameters()), model, planes, training)


class PlainEqPropLearner:
    """EqProp in plain torch operations, with torch's Adam and the learning rates of the blocks.

    The cap takes one power iteration a step with a kept vector, and lowers what it finds as the
    engine does.
    """

    def __init__(
        self, network: Network, params: Params, planes: Split, training: Training, sweeps: Sweeps
    ) -> None:
        self._stack, self._sweeps, self._training = PlainStack(network, params), sweeps, training
        self._x, self._labels = torch.from_numpy(planes.x_train), torch.from_numpy(planes.y_train)
        self._y = torch.nn.functional.one_hot(self._labels, network.outputs).float()
        self._valid = torch.from_numpy(planes.x_valid), torch.from_numpy(planes.y_valid)
        self._rng = np.random.default_rng(training.seed)
        self._total = training.epochs * -(-len(self._x) // training.batch_size)
        cap = training.spectral_cap or AUTO_CAP
        self._step, self._limit = 0, cap.cap / layer_radius(network)
        shapes = [layer.shape for layer in network.layers[:-1]]
        self._vectors = [torch.full((1, c, h, w), (c * h * w) ** -0.5) for h, w, c in shapes]
        self._optimizer = torch.optim.Adam(
            [{"params": [p], "name": name} for name, p in self._stack.parameters.items()],
            training.optimizer.lr,
            fused=True,
        )

    @property
    def note(self) -> str:
        """How many sweeps the phases have."""
        return f"{self._sweeps.free} + {self._sweeps.nudged} sweeps"

    @torch.no_grad()
    def train_epoch(self) -> None:
        """Go once through the training part."""
        order = torch.from_numpy(self._rng.permutation(len(self._x)))
        for rows in torch.split(order, self._training.batch_size):
            rate = self._training.optimizer.lr * scheduled(
                self._training.schedule, self._step, self._total
            )
            gradient = self._stack.gradient(self._x[rows], self._y[rows], self._sweeps)
            for group in self._optimizer.param_groups:
                group["lr"] = rate * self._training.rates.get(group["name"], 1.0)
                group["params"][0].grad = gradient[group["name"]]
            self._optimizer.step()
            self._enforce_cap()
            self._step += 1

    @torch.inference_mode()
    def accuracy(self) -> float:
        """Return the share of right answers on the validation part."""
        right = 0
        for x, labels in zip(*(torch.split(part, ASKED) for part in self._valid), strict=True):
            top = self._stack.settle(x, self._sweeps.free).states[-1]
            right += int((self._stack.logits(top).argmax(1) == labels).sum())
        return right / len(self._valid[0])

    def _enforce_cap(self) -> None:
        """Lower what the kernels between layers stretch most to the norm that they may have."""
        for k, vector in enumerate(self._vectors, start=1):
            sent = self._stack.up(k, vector, biased=False)
            norm = float(sent.norm())
            if norm > self._limit:
                slope = self._stack.correlate(k, vector, sent / norm)
                self._stack.weights[k] -= (norm - self._limit) / slope.square().sum() * slope
            back = self._stack.down(k, self._stack.up(k, vector, biased=False))
            vector.copy_(back / back.norm())
            left = float(self._stack.up(k, vector, biased=False).norm())
            if left > self._limit:
                self._stack.weights[k] *= self._limit / left
