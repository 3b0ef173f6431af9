"""The crossbar by hand: pairs of cells without defects or wires, noisy, between converters."""

from collections.abc import Sequence
from math import ceil, floor, sqrt

import numpy as np

from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.model.network import Network
from hw_sim.chips.cells import CrossbarConfig
from tests.hw_sim.chips.hand_chip import HandChip
from tests.hw_sim.chips.hand_mesh import HandMesh

Term = tuple[float, float, float]
"""A voltage, the weight that it meets, and the square of the conductances of that pair."""


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
        self.mesh = HandMesh(network, *config.tile) if any(config.tile) else None
        self.fed = {c.name: c.layer for c in network.couplings if isinstance(c, InputDrive)}
        self.inner = {
            c.name: (c.layers[0], c.layers[-1], isinstance(c, Dense))
            for c in network.couplings
            if isinstance(c, Dense | Lateral)
        }
        digital = {c.name for c in network.couplings if isinstance(c, Bias)} | {"b_out"}
        self.in_array = [
            name not in digital for name, block in network.blocks.items() for _ in range(block.size)
        ]
        self.ways = [(c.layer, c.layer, False) for c in network.couplings if isinstance(c, Lateral)]
        for c in network.couplings:
            if isinstance(c, Dense):
                self.ways += [(*c.layers, False), (*c.layers[::-1], True)]
        self.ways.sort(key=lambda way: [self.layers[name].start for name in way[:2]])
        span = 2 * config.weight_range * (1.0 - self.off)
        self.up = [min(max(0.5 + w / span, 0.0), 1.0) for w in theta]
        self.down = [min(max(0.5 - w / span, 0.0), 1.0) for w in theta]
        self.digital = list(theta)
        self.rng, self.loud = np.random.default_rng(config.seed), HandChip(network)
        for _ in range(self.arrays):  # which cells are stuck, and how strong their pulses are
            self.rng.random((2, sum(self.in_array)))
            self.rng.standard_normal((2, sum(self.in_array)))
        self._wire_cells()

    def _wire_cells(self) -> None:
        whole = [
            [self.off + (1.0 - self.off) * level for level in cells]
            for cells in (self.up, self.down)
        ]
        powers = [plus**2 + minus**2 for plus, minus in zip(*whole, strict=True)]
        self.loud.wire([p * cell for p, cell in zip(powers, self.in_array, strict=True)])
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

    def _current(self, terms: Sequence[Term], always: bool = False) -> float:
        """What becomes of the currents of cells: a word where states are digital, or `always`.

        The current of each cell fluctuates by the same share of it.
        """
        total = sum(voltage * weight for voltage, weight, _ in terms)
        power = sum(voltage**2 * square for voltage, _, square in terms)
        share = self.config.read_noise * self.config.weight_range
        if share * power:
            total += share * sqrt(power) * self.rng.standard_normal()
        bits = self.config.adc_bits if self.looped or always else 0
        return converted(total, bits, self.config.adc_range)

    def _parts(self, units: Sequence[int], back: bool = False) -> list[Sequence[int]]:
        """Units whose currents join: those on one tile, or all where nothing is converted."""
        rows, columns = self.config.tile
        most = (columns if back else rows) if self.looped else 0
        return [units[k : k + most] for k in range(0, len(units), most)] if most else [units]

    def _tiles(self, units: int, back: bool = False) -> int:
        """Tiles beside one another that hold so many units, each with its drivers."""
        rows, columns = self.config.tile
        most = rows if back else columns
        return ceil(units / most) if most else 1

    def _move(self, place: str, name: str, back: bool = False, words: bool = True) -> None:
        """Send what drives an array, where it is words, and add up what comes out of it."""
        if self.mesh and (words or self.looped):
            self.count(place, "hop", self.mesh.driven(name, back))
        if self.mesh and self.looped:
            self.count(place, "hop", self.mesh.joined(name, back))

    def learn(self, sample: int, state: Sequence[float], energy: float) -> list[float]:
        """Tell synapses their two ends first."""
        self.phase = "learn"
        targets = self.fed | {name: ends[1] for name, ends in self.inner.items()}
        for name, place in targets.items() if self.mesh else ():
            hops = self.mesh.driven(name) + self.mesh.driven(name, back=True)
            self.count(place, "hop", hops)
        return super().learn(sample, state, energy)

    def learn_readout(self, sample: int, state: Sequence[float], cost: float) -> list[float]:
        """Tell the errors to the synapses, which have just heard the states."""
        self.phase = "learn"
        if self.mesh and self.softmax:
            self.count("readout", "hop", self.mesh.driven("W_out", back=True))
        return super().learn_readout(sample, state, cost)

    def _drive(self, x: Sequence[float]) -> list[float]:
        """Currents of the input arrays, and the biases, which are words."""
        self.phase, voltages = "input", self.seen(x)
        parts = self._parts(range(len(voltages)))
        for home in self.driven * self.arrays:
            units = len(self.layers[home])
            self.count(home, "conversion", len(voltages) * self._tiles(units))
            self.count(home, "cell_read", 2 * len(voltages) * units)
            self.count(home, "conversion", self.looped * units * len(parts))
            self.count(home, "addition", units * (len(parts) - 1))
        for name, home in list(self.fed.items()) * self.arrays:
            self._move(home, name)
        for home in self.home * self.arrays:
            self.count(home, "weight_read", self.biased.count(home))
            self.count(home, "state_write")
        totals = list(self.bias)
        for home in sorted(self.driven, key=lambda name: self.layers[name].start):
            for part in parts:
                for j in self.layers[home]:
                    terms = [(voltages[i], self.w_in[i][j], self.loud.w_in[i][j]) for i in part]
                    totals[j] += self._current(terms)
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
        for source, target, back in self.ways:
            sent, heard = len(self.layers[source]), len(self.layers[target])
            self.count(target, "cell_read", 2 * sent * heard)
            self.count(target, "conversion", self.looped * sent * self._tiles(heard, back))
            self.count(target, "state_read", self.looped * sent)
        for name, (source, target, both) in self.inner.items():
            self._move(target, name, words=False)
            if both:
                self._move(source, name, back=True, words=False)
        if not self.looped:  # the input is held at its arrays
            for home in self.driven:
                self.count(home, "cell_read", 2 * self.network.inputs * len(self.layers[home]))
        cut = [way for way in self.ways if len(self._parts(self.layers[way[0]], way[2])) > 1]
        totals = list(drive)
        for j, home in enumerate(self.home):
            self.count(home, "state_read", self.looped)
            self.count(home, "compare", self.looped)  # analog states are left to settle
            joined = [s for s, target, _ in set(self.ways) - set(cut) if target == home]
            heard = sorted(i for source in joined for i in self.layers[source])
            if heard:
                self.count(home, "conversion", self.looped)
                totals[j] += self._current(self._terms(state, heard, j))
        for source, target, back in cut:
            for k, part in enumerate(self._parts(self.layers[source], back)):
                for j in self.layers[target]:
                    self.count(target, "conversion")
                    self.count(target, "addition", k > 0)
                    totals[j] += self._current(self._terms(state, part, j))
        return totals

    def _terms(self, state: Sequence[float], units: Sequence[int], j: int) -> list[Term]:
        return [(state[i], self.w[i][j], self.loud.w[i][j]) for i in units]

    def _nudge(self, totals: list[float], sample: int, state: list[float], beta: float) -> None:
        target = self.y[sample]
        if not self.softmax:
            for k, i in enumerate(self.read_units):
                totals[i] -= beta * (state[i] - target[k])
                self.count("readout", "mac")
                self.count("readout", "state_read")
            return
        error = self._error(sample, state, target)
        self._move("readout", "W_out", back=True)
        driven = self._tiles(len(self.read_units), back=True)
        self.count("readout", "state_read", len(error))
        self.count("readout", "conversion", len(error) * driven)
        parts = self._parts(range(len(error)), back=True)
        for i in self.read_units:
            for part in parts:
                terms = [(error[k], self.w_out[i][k], self.loud.w_out[i][k]) for k in part]
                totals[i] -= beta * self._current(terms)
            self.count("readout", "mac")
            self.count("readout", "cell_read", 2 * len(error))
            self.count("readout", "conversion", self.looped * len(parts))
            self.count("readout", "addition", len(parts) - 1)

    def _error(self, sample: int, state: Sequence[float], target: Sequence[float]) -> list[float]:
        """`softmax - y`, computed beside the array: what enters it is always converted."""
        self._move("readout", "W_out", words=False)
        logits, parts = list(self.b_out), self._parts(self.read_units)
        for part in parts:
            for k in range(len(logits)):
                terms = [(state[i], self.w_out[i][k], self.loud.w_out[i][k]) for i in part]
                logits[k] += self._current(terms, always=True)
        outputs, read = len(logits), len(self.read_units)
        self.count("readout", "conversion", outputs * len(parts))
        self.count("readout", "addition", outputs * (len(parts) - 1))
        self.count("readout", "weight_read", outputs)
        self.count("readout", "cell_read", 2 * read * outputs)
        self.count("readout", "conversion", self.looped * read * self._tiles(outputs))
        self.count("readout", "state_read", self.looped * read)
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
