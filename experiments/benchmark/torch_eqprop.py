"""EqProp on a convolutional network in plain torch operations, as one would write it by hand.

The same sweeps, the same displacement, the same local rule as the engine's: `conv2d` sends a
signal up, `conv_transpose2d` sends it down, and autograd takes no part.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from adapters.torch_arrays import torch
from engine.arrays import FloatArray
from engine.learning.estimator import TINY_BETA
from engine.model.network import Network
from engine.model.params import Params
from experiments.tasks import Image
from experiments.vision.networks import kernels_of

LAYOUT = torch.channels_last
"""Of all images: the one in which torch is faster here."""


class Sweeps(NamedTuple):
    """How often the layers are updated, one after the other: free upwards, nudged downwards."""

    free: int
    nudged: int


class Settled(NamedTuple):
    """States of the layers, and the drives that led to them."""

    states: list[torch.Tensor]
    drives: list[torch.Tensor]


class PlainStack:
    """Convolutions from the image upwards with relu, all of the last layer read by softmax."""

    def __init__(self, network: Network, params: Params) -> None:
        self._shapes = [cast(Image, layer.shape) for layer in network.layers]
        self._windows = [(c.stride, c.padding) for c in kernels_of(network)]
        kernels = [(params[c.name], c.kernel) for c in kernels_of(network)]
        self.weights = [_planes_first(block, kernel) for block, kernel in kernels]
        self.biases = [torch.tensor(params[f"b_{k + 1}"]) for k in range(len(self.weights))]
        self.w_out = torch.tensor(params["W_out"])
        self.b_out = torch.tensor(params["b_out"])

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """All of them, by the names that their blocks have in the network."""
        named = {f"W_{k + 1}": weight for k, weight in enumerate(self.weights)}
        named |= {f"b_{k + 1}": bias for k, bias in enumerate(self.biases)}
        return named | {"W_out": self.w_out, "b_out": self.b_out}

    def settle(self, x: torch.Tensor, sweeps: int) -> Settled:
        """Relax images `(samples, channels, height, width)` freely: first forwards alone."""
        below = self.up(0, x)
        states: list[torch.Tensor] = []
        drives: list[torch.Tensor] = []
        for sweep in range(sweeps):
            for k in range(len(self.weights)):
                drive = self.up(k, states[k - 1]) if k else below
                if sweep == 0:
                    drives.append(drive)
                    states.append(torch.relu(drive))
                    continue
                if k + 1 < len(states):
                    drive = drive + self.down(k + 1, states[k + 1])
                drives[k], states[k] = drive, torch.relu(drive)
        return Settled(states, drives)

    def displace(
        self, free: Settled, y: torch.Tensor, beta: float, sweeps: int
    ) -> Sequence[torch.Tensor]:
        """Return how far a nudge towards `y (samples, outputs)` moves the layers."""
        top = len(free.states) - 1
        moved: list[torch.Tensor | None] = [None] * (top + 1)
        for _ in range(sweeps):
            for k in range(top, -1, -1):
                drive: torch.Tensor | None = None
                if k == top:
                    here = moved[k]
                    state = free.states[k] if here is None else free.states[k] + here
                    drive = self._nudge(state, y, beta)
                for message in self._messages(k, moved):
                    drive = message if drive is None else drive + message
                assert drive is not None
                moved[k] = _further(free.drives[k], drive)
        return [m for m in moved if m is not None]

    def _nudge(self, state: torch.Tensor, y: torch.Tensor, beta: float) -> torch.Tensor:
        """Return `-beta dC/ds` of the last layer."""
        sent = self.errors(state, y) @ (-beta * self.w_out.T)
        return sent.view(len(y), *self._shapes[-1]).permute(0, 3, 1, 2)

    def _messages(self, k: int, moved: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        """What the neighbours of a layer send it: nothing where they have not moved."""
        found = []
        if k and (below := moved[k - 1]) is not None:
            found.append(self.up(k, below, biased=False))
        if k + 1 < len(moved) and (above := moved[k + 1]) is not None:
            found.append(self.down(k + 1, above))
        return found

    def up(self, k: int, below: torch.Tensor, *, biased: bool = True) -> torch.Tensor:
        """Return what layer `k` gets from the one below it, or from the image."""
        bias = self.biases[k] if biased else None
        return torch.conv2d(below, self.weights[k], bias, *self._windows[k])

    def down(self, k: int, above: torch.Tensor) -> torch.Tensor:
        """Return what layer `k` sends to the one below it."""
        (stride, padding), weight = self._windows[k], self.weights[k]
        reached = [(n - 1) * stride - 2 * padding + weight.shape[2] for n in self._shapes[k][:2]]
        rest = [n - r for n, r in zip(self._shapes[k - 1][:2], reached, strict=True)]
        return torch.conv_transpose2d(above, weight, None, stride, padding, rest)

    def logits(self, state: torch.Tensor) -> torch.Tensor:
        """Read the last layer out."""
        return torch.addmm(self.b_out, _as_rows(state), self.w_out)

    def errors(self, state: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return `p - y` of the last layer."""
        return torch.softmax(self.logits(state), 1) - y

    def gradient(
        self, x: torch.Tensor, y: torch.Tensor, sweeps: Sweeps, beta: float = TINY_BETA
    ) -> dict[str, torch.Tensor]:
        """Return the estimated gradient of the mean cost, by the names of the blocks."""
        free = self.settle(x, sweeps.free)
        moved = self.displace(free, y, beta, sweeps.nudged)
        scale = -1.0 / (beta * len(x))
        gaps = [scale * m for m in moved]
        middles = [state + m / 2 for state, m in zip(free.states, moved, strict=True)]
        found = {"W_1": self.correlate(0, x, gaps[0])}
        for k in range(1, len(gaps)):
            upper = self.correlate(k, middles[k - 1], gaps[k])
            found[f"W_{k + 1}"] = upper + self.correlate(k, gaps[k - 1], middles[k])
        found |= {f"b_{k + 1}": gap.sum((0, 2, 3)) for k, gap in enumerate(gaps)}
        error = self.errors(free.states[-1], y) / len(x)
        return found | {"W_out": _as_rows(free.states[-1]).T @ error, "b_out": error.sum(0)}

    def correlate(self, k: int, below: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
        """Return what the kernel of layer `k` learns from its two ends."""
        shape = self.weights[k].shape
        learn = torch.nn.grad.conv2d_weight  # type: ignore[attr-defined]
        learnt: torch.Tensor = learn(below, shape, above, *self._windows[k])
        return learnt


def _as_rows(state: torch.Tensor) -> torch.Tensor:
    """Return planes as rows of pixels, in the order that the engine has."""
    return state.permute(0, 2, 3, 1).flatten(1)


def _further(h: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Return `relu(h + e) - relu(h)` without the difference of two states."""
    return torch.where(h > 0, torch.maximum(e, -h), torch.relu(h + e))


def _planes_first(block: FloatArray, kernel: int) -> torch.Tensor:
    """Return a block `(fan in, filters)` as torch has it, `(filters, channels, rows, columns)`."""
    weight = torch.tensor(block).reshape(kernel, kernel, -1, block.shape[1])
    return weight.permute(3, 2, 0, 1).contiguous(memory_format=LAYOUT)


def as_blocks(network: Network, gradient: dict[str, torch.Tensor]) -> dict[str, FloatArray]:
    """Return a gradient of a stack in the shapes and the order of the network's blocks."""
    found: dict[str, FloatArray] = {}
    for name, block in network.blocks.items():
        values = gradient[name]
        if values.dim() == 4:
            values = values.permute(2, 3, 1, 0)
        found[name] = values.reshape(block.shape).numpy()
    return found
