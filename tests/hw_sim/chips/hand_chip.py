"""A chip by hand: one sample, one unit and one event after the other, in plain lists.

Nothing here is shared with `hw_sim`. What a chip does is written down from its definition in
`docs/hardware.md`, and every event is entered in the ledger where it happens.
"""

from collections import Counter
from collections.abc import Sequence
from math import exp, inf, tanh
from typing import Any, NamedTuple

import numpy as np

from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.network import Layer, Network
from engine.model.params import Params

LAYERS = (Layer("low", (3,)), Layer("middle", (2,), "hard_sigmoid"), Layer("top", (2,)))
COUPLINGS = (
    InputDrive("W_low", "low"), InputDrive("W_top", "top"), Bias("b_low", "low"),
    Bias("b_middle", "middle"), Dense("W_up", "low", "middle"), Dense("W_down", "top", "middle"),
    Lateral("W_self", "middle"),
)  # fmt: skip
NETWORKS = {
    "looped": looped_mlp(3, 4, 2),
    "many outputs": looped_mlp(2, 2, 4),
    "mixed": Network(2, LAYERS, COUPLINGS, SoftmaxReadout("middle", 3)),
    "squared": Network(2, LAYERS, COUPLINGS, SquaredError("middle")),
}
"""The last two: two input arrays, a layer without a bias, a read-out in the middle."""


def strong_params(network: Network) -> Params:
    """Weights large enough to clip, of both signs, a zero among them."""
    rng = np.random.default_rng(4)
    params = Params(network, rng.normal(0.0, 0.7, network.size))
    for name in ("W_rec", "W_self"):
        if name in params:
            params[name][...] = (params[name] + params[name].T) / 2
    if "b_middle" in params:  # keep hard sigmoids inside their range
        params["b_middle"][...] = 0.5
        for name in ("W_up", "W_down", "W_self"):
            params[name][...] *= 0.4
    params.theta[0] = 0.0
    return params


class Settled(NamedTuple):
    """Where one sample ended."""

    state: list[Any]
    steps: int
    residual: Any


class HandChip:
    """What the chips have in common: who is coupled to whom, the ledger, and the local rule."""

    def __init__(self, network: Network) -> None:
        self.network, self.ledger, self.phase = network, Counter[tuple[str, str, str]](), ""
        self.layers = {name: range(s.start, s.stop) for name, s in network.columns.items()}
        self.home = [name for name, units in self.layers.items() for _ in units]
        self.read_units = list(self.layers[network.readout.layer])
        self.softmax = isinstance(network.readout, SoftmaxReadout)
        self.activation = {layer.name: layer.activation for layer in network.layers}
        self.links: list[tuple[str, str]] = []
        """Source and target of everything that one layer tells another."""
        for c in network.couplings:
            if isinstance(c, Lateral):
                self.links.append((c.layer, c.layer))
            elif isinstance(c, Dense):
                self.links += [c.layers, c.layers[::-1]]
        self.driven = [c.layer for c in network.couplings if isinstance(c, InputDrive)]
        self.biased = [c.layer for c in network.couplings if isinstance(c, Bias)]
        self.owner: list[str] = []
        """Place of every parameter: the layer that its coupling drives last, or the read-out."""
        last = {c.name: c.layers[-1] for c in network.couplings}
        for name, block in network.blocks.items():
            self.owner += [last.get(name, "readout")] * block.size

    def clamp(self, x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> None:
        """Hold a batch; its drives are computed once."""
        self.x, self.y = x, y
        self.drives = [self._drive(row) for row in x]
        self.phase = "input"
        self.count("border", "off_chip", sum(map(len, x)))

    def relax(
        self, sample: int, beta: float, rule: Relaxation, start: Sequence[float] | None = None
    ) -> Settled:
        """Apply `T` until no unit moves by more than the tolerance."""
        self.phase = "nudged" if beta else "free"
        self.count("border", "off_chip", len(self.y[sample]) if beta else 0)
        state = self._begin(sample, start)
        steps, residual = 0, inf
        while steps < rule.max_steps:
            image, steps = self._step(sample, state, beta), steps + 1
            residual = max(abs(a - b) for a, b in zip(image, state, strict=True))
            if residual <= rule.tolerance:
                break
            state = image
        self._end()
        return Settled(state, steps, residual)

    def learn(self, sample: int, state: Sequence[float], energy: float) -> list[float]:
        """`energy dE/dtheta` of one sample."""
        self.phase = "learn"
        return self._slopes(self.seen(self.x[sample]), self.read(state), energy)

    def learn_readout(self, sample: int, state: Sequence[float], cost: float) -> list[float]:
        """`cost dC/dtheta` of one sample."""
        self.phase = "learn"
        if not self.softmax:
            return [0.0] * self.network.size
        error = self._error(sample, self.read(state), self.y[sample])
        return self._readout_slopes(self.read(state), error, cost)

    def predict(self, sample: int, state: Sequence[float]) -> list[float]:
        """The outputs, as they leave the chip."""
        self.phase, seen = "readout", self.read(state)
        self.count("border", "off_chip", self.network.outputs)
        if not self.softmax:
            return [seen[i] for i in self.read_units]
        return self._error(sample, seen, [0.0] * self.network.outputs)

    def seen(self, x: Sequence[float]) -> list[float]:
        """An input as the synapses see it."""
        return list(x)

    def read(self, state: Sequence[float]) -> list[float]:
        """A state as it is read."""
        return list(state)

    def apply(self, update: Sequence[float]) -> None:
        """Change the weights."""
        raise NotImplementedError

    def _drive(self, x: Sequence[float]) -> list[Any]:
        raise NotImplementedError

    def _begin(self, sample: int, start: Sequence[float] | None) -> list[float]:
        """From a given state, or from that of the drive alone."""
        if start is not None:
            return list(start)
        return [self._neuron(u, drive) for u, drive in enumerate(self.drives[sample])]

    def _neuron(self, unit: int, total: Any) -> float:
        """The state that follows from a total."""
        raise NotImplementedError

    def _step(self, sample: int, state: list[float], beta: float) -> list[float]:
        """`T` of a state."""
        raise NotImplementedError

    def _end(self) -> None:
        """Do what is left when a sample has settled."""

    def _error(self, sample: int, state: Sequence[float], target: Sequence[float]) -> list[float]:
        """`softmax - y` of a state that is read."""
        raise NotImplementedError

    def count(self, place: str, kind: str, times: int = 1) -> None:
        """Enter an event."""
        if times:
            self.ledger[self.phase, place, kind] += times

    def wire(self, theta: Sequence[Any]) -> None:
        """Take the weights apart: from input to unit, from unit to unit, to the outputs."""
        network, units = self.network, range(self.network.units)
        self.w_in = [[0] * len(units) for _ in range(network.inputs)]
        self.w = [[0] * len(units) for _ in units]
        self.bias = [0] * len(units)
        self.w_out = [[0] * network.outputs for _ in units]
        self.b_out = [0] * network.outputs
        offset = 0
        for name, block in network.blocks.items():
            held = theta[offset : offset + block.size]
            offset += block.size
            coupling = next((c for c in network.couplings if c.name == name), None)
            if name == "b_out":
                self.b_out = list(held)
            elif name == "W_out":
                for k, value in enumerate(held):
                    row, column = divmod(k, network.outputs)
                    self.w_out[self.read_units[row]][column] = value
            elif isinstance(coupling, Bias):
                for j, value in zip(self.layers[coupling.layer], held, strict=True):
                    self.bias[j] = value
            else:
                self._wire_matrix(coupling, list(held))

    def _wire_matrix(self, coupling: Any, held: list[Any]) -> None:
        targets = self.layers[coupling.layers[-1]]
        if isinstance(coupling, InputDrive):
            for k, value in enumerate(held):
                self.w_in[k // len(targets)][targets[k % len(targets)]] = value
            return
        sources = self.layers[coupling.layers[0]]
        for k, value in enumerate(held):
            i, j = sources[k // len(targets)], targets[k % len(targets)]
            self.w[i][j] = value
            if isinstance(coupling, Dense):
                self.w[j][i] = value

    def sources_of(self, unit: int) -> list[int]:
        """All units that a unit listens to, ascending."""
        heard = {source for source, target in self.links if target == self.home[unit]}
        return [i for i in range(self.network.units) if self.home[i] in heard]

    def sigma(self, unit: int, drive: float) -> float:
        """The activation of a unit, in real numbers."""
        if self.activation[self.home[unit]] == "tanh":
            return tanh(drive)
        return min(max(drive, 0.0), 1.0)

    def softmax_error(self, logits: Sequence[float], target: Sequence[float]) -> list[float]:
        """`softmax - y`: an exponential and a word for each output."""
        odds = [exp(value - max(logits)) for value in logits]
        self.count("readout", "activation", len(odds))
        self.count("readout", "state_write", len(odds))
        self.count("readout", "compare", len(odds) - 1)  # to find the largest
        self.count("readout", "divide", len(odds))
        return [odd / sum(odds) - y for odd, y in zip(odds, target, strict=True)]

    def _slopes(self, x: Sequence[float], state: Sequence[float], energy: float) -> list[float]:
        """Each synapse reads its two ends and its own trace."""
        slopes = []
        for coupling in self.network.couplings:
            place = coupling.layers[-1]
            targets = [state[j] for j in self.layers[place]]
            if isinstance(coupling, Bias):
                for value in targets:
                    self._trace(place)
                    slopes.append(-energy * value)
            else:
                half = 0.5 if isinstance(coupling, Lateral) else 1.0
                sources = [state[i] for i in self.layers[coupling.layers[0]]]
                sources = list(x) if isinstance(coupling, InputDrive) else sources
                self.count(place, "state_read", len(sources))
                for a in sources:
                    for b in targets:
                        self.count(place, "mac")
                        self._trace(place)
                        slopes.append(-energy * half * a * b)
            self.count(place, "state_read", len(targets))
        outside = self.network.blocks["W_out"].size + self.network.outputs if self.softmax else 0
        return slopes + [0.0] * outside

    def _readout_slopes(
        self, state: Sequence[float], error: Sequence[float], cost: float
    ) -> list[float]:
        slopes = []
        for i in self.read_units:
            self.count("readout", "state_read")
            for value in error:
                self.count("readout", "mac")
                self._trace("readout")
                slopes.append(cost * state[i] * value)
        self.count("readout", "state_read", len(error))  # of the synapses
        for value in error:
            self._trace("readout")
            self.count("readout", "state_read")  # of the bias
            slopes.append(cost * value)
        return [0.0] * (self.network.size - len(slopes)) + slopes

    def _trace(self, place: str) -> None:
        self.count(place, "trace_read")
        self.count(place, "trace_write")
