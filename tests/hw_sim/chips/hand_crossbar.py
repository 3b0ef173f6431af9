"""The crossbar by hand: pairs of cells without defects, noise or wires, between converters."""

from collections.abc import Sequence
from math import floor

from engine.couplings.dense import Bias
from engine.model.network import Network
from hw_sim.chips.cells import CrossbarConfig
from tests.hw_sim.chips.hand_chip import HandChip


def converted(value: float, bits: int, limit: float) -> float:
    """Clip to the range of a converter and round to one of its `2^bits - 1` codes."""
    if bits == 0:
        return value
    codes = 2 ** (bits - 1) - 1  # on each side of zero
    return floor(min(max(value, -limit), limit) / limit * codes + 0.5) * limit / codes


class HandCrossbar(HandChip):
    """Cells in units of `g_on`; an array that phases with a positive nudge may have twice."""

    def __init__(self, network: Network, theta: Sequence[float], config: CrossbarConfig) -> None:
        super().__init__(network)
        self.config, self.looped = config, config.convert_each_step
        self.off = 1.0 / config.on_off_ratio
        self.arrays = 2 if config.split_arrays else 1
        digital = {c.name for c in network.couplings if isinstance(c, Bias)} | {"b_out"}
        self.in_array = [
            name not in digital for name, block in network.blocks.items() for _ in range(block.size)
        ]
        span = 2 * config.weight_range * (1.0 - self.off)
        self.up = [min(max(0.5 + w / span, 0.0), 1.0) for w in theta]
        self.down = [min(max(0.5 - w / span, 0.0), 1.0) for w in theta]
        self.digital = list(theta)
        self._wire_cells()

    def _wire_cells(self) -> None:
        pairs = zip(self.up, self.down, strict=True)
        held = [self.config.weight_range * (1.0 - self.off) * (up - down) for up, down in pairs]
        self.weights = [
            h if cell else d for h, d, cell in zip(held, self.digital, self.in_array, strict=True)
        ]
        self.wire(self.weights)

    def seen(self, x: Sequence[float]) -> list[float]:
        """An input behind its DAC."""
        return [converted(v, self.config.dac_bits, self.config.input_range) for v in x]

    def read(self, state: Sequence[float]) -> list[float]:
        """A state as it is read: converted, where it was analog."""
        bits = 0 if self.looped else self.config.adc_bits
        return [converted(value, bits, 1.0) for value in state]

    def _current(self, value: float) -> float:
        """What becomes of a current: a word where states are digital."""
        bits = self.config.adc_bits if self.looped else 0
        return converted(value, bits, self.config.adc_range)

    def _drive(self, x: Sequence[float]) -> list[float]:
        """Currents of the input arrays, and the biases, which are words."""
        self.phase, voltages = "input", self.seen(x)
        for _ in range(self.arrays):
            for home in self.driven:
                self.count(home, "conversion", len(voltages))
                self.count(home, "cell_read", 2 * len(voltages) * len(self.layers[home]))
                self.count(home, "conversion", self.looped * len(self.layers[home]))
            for home in self.home:
                self.count(home, "weight_read", self.biased.count(home))
                self.count(home, "state_write")
        totals = []
        for j, home in enumerate(self.home):
            current = sum(v * self.w_in[i][j] for i, v in enumerate(voltages))
            current = self._current(current) if home in self.driven else 0.0
            totals.append(current + self.bias[j])
        return totals

    def _neuron(self, unit: int, drive: float) -> float:
        self.count(self.home[unit], "activation")
        self.count(self.home[unit], "state_write", self.looped)
        bits = self.config.dac_bits if self.looped else 0
        return converted(self.sigma(unit, drive), bits, 1.0)

    def _step(self, sample: int, state: list[float], beta: float) -> list[float]:
        totals = self._recurrent(self.drives[sample], state)
        if beta:
            self._nudge(totals, sample, state, beta)
        return [self._neuron(u, total) for u, total in enumerate(totals)]

    def _end(self) -> None:
        """Read what is analog."""
        for home in self.home:
            self.count(home, "conversion", not self.looped)
            self.count(home, "state_write", not self.looped)

    def _recurrent(self, drive: list[float], state: list[float]) -> list[float]:
        for source, target in self.links:
            pairs = len(self.layers[source]) * len(self.layers[target])
            self.count(target, "cell_read", 2 * pairs)
            self.count(target, "conversion", self.looped * len(self.layers[source]))
            self.count(target, "state_read", self.looped * len(self.layers[source]))
        if not self.looped:  # the input is held at its arrays
            for home in self.driven:
                self.count(home, "cell_read", 2 * self.network.inputs * len(self.layers[home]))
        totals = []
        for j, home in enumerate(self.home):
            self.count(home, "conversion", self.looped)
            self.count(home, "state_read", self.looped)
            self.count(home, "compare", self.looped)  # analog states are left to settle
            current = sum(state[i] * self.w[i][j] for i in self.sources_of(j))
            totals.append(self._current(current) + drive[j])
        return totals

    def _nudge(self, totals: list[float], sample: int, state: list[float], beta: float) -> None:
        target = self.y[sample]
        if not self.softmax:
            for k, i in enumerate(self.read_units):
                totals[i] -= beta * (state[i] - target[k])
                self.count("readout", "mac")
                self.count("readout", "state_read")
            return
        error = self._error(sample, state, target)
        self.count("readout", "state_read", len(error))
        self.count("readout", "conversion", len(error))
        for i in self.read_units:
            pull = sum(value * self.w_out[i][k] for k, value in enumerate(error))
            totals[i] -= beta * self._current(pull)
            self.count("readout", "mac")
            self.count("readout", "cell_read", 2 * len(error))
            self.count("readout", "conversion", self.looped)

    def _error(self, sample: int, state: Sequence[float], target: Sequence[float]) -> list[float]:
        """`softmax - y`, computed beside the array: what enters it is always converted."""
        logits, config = [], self.config
        for k, bias in enumerate(self.b_out):
            current = sum(state[i] * self.w_out[i][k] for i in self.read_units)
            logits.append(converted(current, config.adc_bits, config.adc_range) + bias)
            self.count("readout", "conversion")
            self.count("readout", "weight_read")
            self.count("readout", "cell_read", 2 * len(self.read_units))
        self.count("readout", "conversion", self.looped * len(self.read_units))
        self.count("readout", "state_read", self.looped * len(self.read_units))
        return self.softmax_error(logits, target)

    def apply(self, update: Sequence[float]) -> None:
        """One pulse of each cell of a pair that changes; biases are read and written as words."""
        self.phase = "update"
        span = 2 * self.config.weight_range * (1.0 - self.off)
        for k, change in enumerate(update):
            self.count(self.owner[k], "trace_read")
            if not self.in_array[k]:
                self.digital[k] += change
                self.count(self.owner[k], "weight_read")
                self.count(self.owner[k], "weight_write")
                continue
            self.up[k] = min(max(self.up[k] + change / span, 0.0), 1.0)
            self.down[k] = min(max(self.down[k] - change / span, 0.0), 1.0)
            self.count(self.owner[k], "weight_write", 2 * self.arrays * (change != 0.0))
        self._wire_cells()
