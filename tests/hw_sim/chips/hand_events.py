"""The event-driven chip by hand: who has sent what, and who stands where on the mesh."""

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any

from engine.couplings.dense import Bias, InputDrive
from engine.model.network import Network
from hw_sim.chips.spiking import SpikingConfig
from tests.hw_sim.chips.hand_chip import HandChip

NANOSECONDS = {
    "busy_update": 9.7, "busy_spike": 30.0, "busy_send": 5.1, "busy_receive": 16.0,
    "busy_synapse": 3.8,
}  # fmt: skip


class Memory:
    """What one sample has sent: states, and errors of the outputs."""

    def __init__(self, units: int, outputs: int) -> None:
        self.sent, self.sent_error = [0.0] * units, [0.0] * outputs

    def copy(self) -> "Memory":
        """Return the same in lists of its own."""
        other = Memory(0, 0)
        other.sent, other.sent_error = list(self.sent), list(self.sent_error)
        return other


class HandEvents(HandChip):
    """Totals are always those of all that was sent; nothing is summed as it comes in."""

    def __init__(self, network: Network, theta: Sequence[float], config: SpikingConfig) -> None:
        super().__init__(network)
        self.config, self.weights = config, list(theta)
        self.sent: list[tuple[int, list[int]]] = []
        """Events since the last barrier: who sent, -1 for an input, and every synapse it met."""
        self.wire(self.weights)

    def _core(self, neuron: int) -> tuple[int, int]:
        """Row and column of the core of a unit, or of an output after the units."""
        total = self.network.units + self.network.outputs
        per_core = self.config.neurons_per_core
        side = ceil(sqrt(ceil(total / per_core)))
        return neuron // per_core // side, neuron // per_core % side

    def send(self, place: str, sender: int, listeners: Sequence[int]) -> None:
        """Enter a message to each core with a listener, and the steps of the way to it."""
        row, column = self._core(sender)
        cores = {self._core(listener) for listener in listeners}
        self.count(place, "spike_out")
        self.count(place, "message", len(cores))
        self.sent.append((sender, list(listeners)))
        self.count(place, "hop", sum(abs(r - row) + abs(c - column) for r, c in cores))

    def wait(self, updated: Sequence[int], products: Sequence[int] = ()) -> None:
        """Enter the longest list of work of any core since the last barrier, and the barrier.

        `updated` are neurons; `products` are synaptic operations in place of those of events, each
        named by the neuron at its end.
        """
        core = self.config.neurons_per_core
        sending: dict[int, list[str]] = {}
        taking: dict[int, list[str]] = {}
        for neuron in updated:
            sending.setdefault(neuron // core, []).append("busy_update")
        for sender, listeners in self.sent:
            heard = {neuron // core for neuron in listeners}
            if sender >= 0:
                sending.setdefault(sender // core, []).append("busy_spike")
                sending[sender // core] += ["busy_send"] * len(heard)
            for where in heard:
                taking.setdefault(where, []).append("busy_receive")
            for neuron in [] if products else listeners:
                taking[neuron // core].append("busy_synapse")
        for neuron in products:
            taking.setdefault(neuron // core, []).append("busy_synapse")
        self.sent = []
        longest, where = [], 0
        for number in range(self.network.units + self.network.outputs):
            for work in (sending.get(number, []), taking.get(number, [])):
                if self._length(work) > self._length(longest):
                    longest, where = work, number
        place = ([*self.home] + ["readout"] * self.network.outputs)[where * core]
        for kind in longest:
            self.count(place, kind)
        self.count(place, "barrier")

    def _length(self, work: Sequence[str]) -> float:
        """Nanoseconds of a list of work, kind by kind."""
        return sum(work.count(kind) * NANOSECONDS[kind] for kind in NANOSECONDS)

    def outputs(self) -> list[int]:
        """The places of the outputs after the units, where they listen to any."""
        units = self.network.units
        return list(range(units, units + self.network.outputs)) if self.softmax else []

    def listeners(self, unit: int) -> list[int]:
        """All units that listen to a unit, and the outputs where they do."""
        heard = {target for source, target in self.links if source == self.home[unit]}
        found = [j for name in heard for j in self.layers[name]]
        return found + (self.outputs() if unit in self.read_units else [])

    def clamp(self, x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> None:
        """Hold a batch, of which nothing was sent."""
        super().clamp(x, y)
        self.free = [Memory(self.network.units, self.network.outputs) for _ in x]

    def _drive(self, x: Sequence[float]) -> list[float]:
        """Bias and inputs; an input of zero is not sent."""
        self.phase = "input"
        for home in self.driven:
            size = len(self.layers[home])
            cores = ceil(size / self.config.neurons_per_core)
            for value in x:
                if value != 0.0:
                    self.count(home, "mac", size)
                    self.count(home, "weight_read", size)
                    self.count(home, "message", cores)
        for value in x:
            if value != 0.0:
                self.sent.append((-1, [j for home in self.driven for j in self.layers[home]]))
        self.wait([])
        totals = []
        for j, home in enumerate(self.home):
            self.count(home, "state_write")
            self.count(home, "weight_read", self.biased.count(home))
            totals.append(self.bias[j] + sum(v * self.w_in[i][j] for i, v in enumerate(x)))
        return totals

    def _begin(self, sample: int, start: Sequence[float] | None) -> list[float]:
        """A state that is given is that of the free phase: go on from what was sent in it."""
        self.told = self.free[sample].copy() if self.phase == "nudged" else self.free[sample]
        return super()._begin(sample, start)

    def _step(self, sample: int, state: list[float], beta: float) -> list[float]:
        self._send_states(state)
        self.wait(range(self.network.units))
        pull = self._pull(state, self.y[sample]) if beta else {}
        image = []
        for j, home in enumerate(self.home):
            sent = sum(self.told.sent[i] * self.w[i][j] for i in self.sources_of(j))
            total = self.drives[sample][j] + sent
            if beta and j in self.read_units:
                total -= beta * pull[j]
                self.count("readout", "mac")
            image.append(self._neuron(j, total))
            self.count(home, "state_read")
            self.count(home, "compare")
        return image

    def _neuron(self, unit: int, total: float) -> float:
        self.count(self.home[unit], "activation")
        self.count(self.home[unit], "state_write")
        return self.sigma(unit, total)

    def _send_states(self, state: list[float]) -> None:
        told = self.told
        for i, home in enumerate(self.home):
            if abs(state[i] - told.sent[i]) > self.config.threshold:
                told.sent[i] = state[i]
                self.count(home, "state_read")
                self.count(home, "state_write")
                self.send(home, i, self.listeners(i))
                for listener in self.listeners(i):
                    place = "readout" if listener >= self.network.units else self.home[listener]
                    self.count(place, "mac")
                    self.count(place, "weight_read")

    def _logits(self, sent: Sequence[float]) -> list[float]:
        return [
            bias + sum(sent[i] * self.w_out[i][k] for i in self.read_units)
            for k, bias in enumerate(self.b_out)
        ]

    def _pull(self, state: list[float], target: Sequence[float]) -> dict[int, float]:
        told = self.told
        if not self.softmax:
            self.count("readout", "state_read", len(self.read_units))
            return {i: state[i] - target[k] for k, i in enumerate(self.read_units)}
        for k, value in enumerate(self.softmax_error(self._logits(told.sent), target)):
            if abs(value - told.sent_error[k]) > self.config.threshold:
                told.sent_error[k] = value
                self.count("readout", "state_write")
                self.count("readout", "mac", len(self.read_units))
                self.count("readout", "weight_read", len(self.read_units))
                self.send("readout", self.network.units + k, self.read_units)
        self.wait(self.outputs())
        return {
            i: sum(e * self.w_out[i][k] for k, e in enumerate(told.sent_error))
            for i in self.read_units
        }

    def _error(self, sample: int, state: Sequence[float], target: Sequence[float]) -> list[float]:
        """What the outputs were told in the free phase, and are told now."""
        told = self.free[sample].copy()
        for i in self.read_units:
            if abs(state[i] - told.sent[i]) > self.config.threshold:
                told.sent[i] = state[i]
                self.count("readout", "state_read")
                self.count("readout", "mac", self.network.outputs)
                self.count("readout", "weight_read", self.network.outputs)
                self.send("readout", i, self.outputs())
        self.wait(self.outputs())
        return self.softmax_error(self._logits(told.sent), target)

    def learn(self, sample: int, state: Sequence[float], energy: float) -> list[float]:
        """Before it learns, every unit tells its listeners its whole state."""
        self.phase = "learn"
        for i, home in enumerate(self.home):
            self.send(home, i, self.listeners(i))
        ends = [
            j
            for coupling in self.network.couplings
            if not isinstance(coupling, Bias)
            for j in self.layers[coupling.layers[-1]]
            for _ in self._sources(coupling)
        ]
        self.wait([], ends)
        return super().learn(sample, state, energy)

    def _sources(self, coupling: Any) -> range:
        """All that a coupling hears."""
        if isinstance(coupling, InputDrive):
            return range(self.network.inputs)
        return self.layers[coupling.layers[0]]

    def learn_readout(self, sample: int, state: Sequence[float], cost: float) -> list[float]:
        """The outputs of the fullest core learn one after the other."""
        slopes = super().learn_readout(sample, state, cost)
        cores = [k // self.config.neurons_per_core for k in self.outputs()]
        fullest = max((cores.count(core) for core in cores), default=0)
        self.count("readout", "busy_synapse", fullest * len(self.read_units))
        return slopes

    def apply(self, update: Sequence[float]) -> None:
        """Every weight is read, changed and written."""
        self.phase = "update"
        for k, change in enumerate(update):
            self.weights[k] += change
            for kind in ("trace_read", "weight_read", "weight_write"):
                self.count(self.owner[k], kind)
        self.wire(self.weights)
