"""Couplings that share a block among places, written from their definition: no link is used.

`Patches` sees a line through overlapping windows that reach beyond its ends; `ChannelBias` is the
same at each place. Their closed forms go through the whole matrix, entry by entry.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.arrays import by_sample
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.link import INPUT, ONE, Link, Shapes
from engine.couplings.readout import SoftmaxReadout
from engine.couplings.tokens import TokenReadout
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params


@dataclass(frozen=True)
class Patches:
    """`Phi = sum_p a[stride p - 1 : stride p - 1 + width]' W b[p]`, and nothing beyond the ends."""

    name: str
    source: str
    target: str
    width: int = 4
    stride: int = 2
    gain: float = 0.2
    positions: int = 0
    """Of windows on the input, which say what they send before there is a state."""

    @property
    def clamped(self) -> bool:
        return self.source == INPUT

    @property
    def layers(self) -> tuple[str, ...]:
        return (self.target,) if self.clamped else (self.source, self.target)

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        return (self.width, shapes[self.target][1])

    def initial(self, rng: np.random.Generator, shapes: Shapes) -> np.ndarray:
        return self.gain * rng.standard_normal(self.shape(shapes))

    def entries(self, size: int, positions: int) -> list[tuple[int, int, int]]:
        """Unit of the source, position and row of `W` of every product."""
        return [
            (self.stride * p - 1 + i, p, i)
            for p in range(positions)
            for i in range(self.width)
            if 0 <= self.stride * p - 1 + i < size
        ]

    def _matrix(self, w: Any, a: Any, width: int) -> Any:
        channels = w.shape[1]
        matrix = np.zeros((a.shape[1], width))
        for unit, p, row in self.entries(a.shape[1], width // channels):
            matrix[unit, p * channels : (p + 1) * channels] += w[row]
        return matrix

    def _ends(self, x: Any, states: tuple[Any, ...]) -> tuple[Any, Any]:
        return (x if self.clamped else by_sample(states[0])), by_sample(states[-1])

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = self._ends(x, states)
        return ((a @ self._matrix(w, a, b.shape[1])) * b).sum(-1)

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        if self.clamped:
            return (x @ self._matrix(w, x, self.positions * w.shape[1]),)
        a, b = self._ends(x, states)
        matrix = self._matrix(w, a, b.shape[1])
        return b @ matrix.T, a @ matrix

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        a, b = self._ends(x, states)
        channels, total = w.shape[1], np.zeros(w.shape)
        for unit, p, row in self.entries(a.shape[1], b.shape[1] // channels):
            total[row] += a[:, unit] @ b[:, p * channels : (p + 1) * channels]
        return total

    def link(self, shapes: Shapes) -> Link:
        (size,), (positions, channels) = shapes[self.source], shapes[self.target]
        gather = self.stride * np.arange(positions)[:, None] - 1 + np.arange(self.width)
        gather[gather >= size] = -1
        return Link(self.name, self.source, self.target, size, gather, channels)


@dataclass(frozen=True)
class ChannelBias(Bias):
    """`Phi = sum_p c' s[p]`."""

    positions: int = 1

    def shape(self, shapes: Shapes) -> tuple[int, ...]:
        return (shapes[self.layer][-1],)

    def potential(self, w: Any, x: Any, *states: Any) -> Any:
        return (states[0] * w).sum((-1, -2))

    def drive(self, w: Any, x: Any, *states: Any) -> tuple[Any, ...]:
        return (np.tile(w, (len(x), self.positions)),)

    def correlate(self, w: Any, x: Any, *states: Any) -> Any:
        return states[0].sum((0, 1))

    def link(self, shapes: Shapes) -> Link:
        gather = np.zeros((self.positions, 1), int)
        return Link(self.name, ONE, self.layer, 1, gather, shapes[self.layer][-1])


def patched() -> Network:
    """Windows on the input and on a layer, a bias for each channel, a lateral matrix."""
    return Network(
        11,
        (Layer("line", (9,)), Layer("map", (5, 3)), Layer("seen", (6, 2), "hard_sigmoid")),
        (
            InputDrive("W_in", "line"), Patches("W_x", INPUT, "seen", positions=6),
            ChannelBias("c", "seen", positions=6),
            Patches("W_p", "line", "map"), Lateral("W_self", "map"), Bias("b", "map"),
        ),
        SoftmaxReadout("map", 4),
    )  # fmt: skip


def edged() -> Network:
    """One window at one place: three of the units of a line, and one beyond its end."""
    return Network(
        2,
        (Layer("line", (5,)), Layer("edge", (1, 3))),
        (InputDrive("W_in", "line"), Patches("W_e", "line", "edge"), Dense("W_d", "edge", "line")),
        SoftmaxReadout("edge", 2),
    )


def by_token() -> Network:
    """A read-out with a softmax at each of four tokens."""
    return Network(
        5,
        (Layer("tokens", (4, 3)),),
        (InputDrive("W_in", "tokens"), Lateral("W_rec", "tokens"), Bias("b", "tokens")),
        TokenReadout("tokens", 2),
    )


def doubled() -> Network:
    """Two couplings between the same layers, and two from the input to one of them."""
    return Network(
        4,
        (Layer("low", (5,)), Layer("top", (3,))),
        (
            InputDrive("W_1", "low"), InputDrive("W_2", "low"), Dense("W_a", "low", "top"),
            Dense("W_b", "top", "low"),
        ),
        SoftmaxReadout("top", 2),
    )  # fmt: skip


NETWORKS = {
    "patches": patched(),
    "edge": edged(),
    "tokens": by_token(),
    "doubled": doubled(),
}


def params_of(network: Network) -> Params:
    """Draw weights."""
    return initial_params(network, np.random.default_rng(0), np.float64)


def batch_of(network: Network, samples: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs and one-hot targets of every softmax."""
    rng, places = np.random.default_rng(1), network.reading.positions  # type: ignore[union-attr]
    classes = network.outputs // places
    y = np.eye(classes)[rng.integers(classes, size=(samples, places))]
    return rng.standard_normal((samples, network.inputs)), y.reshape(samples, -1)
