"""The fixed-point chip by hand: Python integers, the formulas of `docs/hardware.md`."""

from collections.abc import Sequence
from math import exp, floor, log2

from engine.model.network import Network
from hw_sim.chips.fixed_point import DigitalConfig
from tests.hw_sim.chips.hand_chip import HandChip


def rounded(value: int, shift: int) -> int:
    """`value / 2^shift`, halves up."""
    return (2 * value + 2**shift) // 2 ** (shift + 1)


class HandDigital(HandChip):
    """Integers of a stated width; what leaves it is clipped and entered in `clipped`."""

    def __init__(self, network: Network, theta: Sequence[float], config: DigitalConfig) -> None:
        super().__init__(network)
        self.config, self.clipped = config, {"accumulator": 0, "weight": 0, "input": 0, "load": 0}
        self.f = config.state_bits - 1
        self.word = 2.0**-self.f
        self.g = config.weight_bits - 1 - int(log2(config.weight_range))
        self.t = min(config.table_bits - 1 - int(log2(config.table_range)), self.f + self.g)
        self.entries = int(2 * config.table_range * 2.0**self.t)
        self.random = config.seed
        self.words = [
            self._clip(floor(w * 2.0**self.g + 0.5), config.weight_bits, "load") for w in theta
        ]
        self.wire(self.words)

    def _clip(self, value: int, bits: int, what: str) -> int:
        limit = 2 ** (bits - 1) - 1
        kept = min(max(value, -limit), limit)
        if what:
            self.clipped[what] += kept != value
        return kept

    def _sum(self, value: int) -> int:
        return self._clip(value, self.config.accumulator_bits, "accumulator")

    def _words(self, values: Sequence[float], bits: int, what: str = "") -> list[int]:
        return [self._clip(floor(v / self.word + 0.5), bits, what) for v in values]

    def _input_words(self, x: Sequence[float], what: str = "") -> list[int]:
        return self._words(x, self.config.state_bits + int(log2(self.config.input_range)), what)

    def seen(self, x: Sequence[float]) -> list[float]:
        """An input in words."""
        return [word * self.word for word in self._input_words(x)]

    def read(self, state: Sequence[float]) -> list[float]:
        """A state, rounded to the width of the read-out."""
        bits = self.config.readout_bits or self.config.state_bits
        top = 2 ** (bits - 1)
        return [self._clip(floor(v * top + 0.5), bits, "") / top for v in state]

    def _drive(self, x: Sequence[float]) -> list[int]:
        """Accumulators after bias and input."""
        self.phase, words = "input", self._input_words(x, "input")
        totals = [self._sum(b * 2**self.f) for b in self.bias]
        for j, home in enumerate(self.home):
            self.count(home, "state_write")
            self.count(home, "weight_read", self.biased.count(home))
            if home in self.driven:
                for i, word in enumerate(words):
                    totals[j] = self._sum(totals[j] + word * self.w_in[i][j])
                    self.count(home, "mac")
                    self.count(home, "weight_read")
        for home in self.driven:
            self.count(home, "state_read", len(words))
        return totals

    def _begin(self, sample: int, start: Sequence[float] | None) -> list[float]:
        if start is None:
            return super()._begin(sample, None)
        return [word * self.word for word in self._words(start, self.config.state_bits)]

    def _neuron(self, unit: int, total: int) -> float:
        half = self.entries // 2
        address = min(max(rounded(total, self.f + self.g - self.t), -half), half - 1)
        self.count(self.home[unit], "activation")
        self.count(self.home[unit], "state_write")
        value = self.sigma(unit, address / 2.0**self.t)
        return self._words([value], self.config.state_bits)[0] * self.word

    def _step(self, sample: int, state: list[float], beta: float) -> list[float]:
        words = self._words(state, self.config.state_bits)
        totals = self._recurrent(self.drives[sample], words)
        if beta:
            self._nudge(totals, words, self.y[sample], floor(beta * 2**12 + 0.5))
        for home in self.home:
            self.count(home, "state_read")  # to see how far it moved
            self.count(home, "compare")
        return [self._neuron(u, total) for u, total in enumerate(totals)]

    def _recurrent(self, drive: list[int], state: list[int]) -> list[int]:
        totals = list(drive)
        for j, home in enumerate(self.home):
            for i in self.sources_of(j):
                totals[j] = self._sum(totals[j] + state[i] * self.w[i][j])
                self.count(home, "mac")
                self.count(home, "weight_read")
        for source, target in self.links:
            self.count(target, "state_read", len(self.layers[source]))
        return totals

    def _nudge(
        self, totals: list[int], state: list[int], target: Sequence[float], gain: int
    ) -> None:
        if not self.softmax:
            for k, i in enumerate(self.read_units):
                error = state[i] - floor(target[k] / self.word + 0.5)
                totals[i] = self._sum(totals[i] - rounded(gain * error, 12) * 2**self.g)
                self.count("readout", "mac")
                self.count("readout", "state_read")
            return
        error = self._error_words(state, target)
        self.count("readout", "state_read", len(error))
        for i in self.read_units:
            pull = 0
            for k, word in enumerate(error):
                pull = self._sum(pull + word * self.w_out[i][k])
                self.count("readout", "mac")
                self.count("readout", "weight_read")
            totals[i] = self._sum(totals[i] - rounded(gain * pull, 12))
            self.count("readout", "mac")

    def _error(self, sample: int, state: Sequence[float], target: Sequence[float]) -> list[float]:
        words = self._words(state, self.config.state_bits)
        return [error * self.word for error in self._error_words(words, target)]

    def _error_words(self, state: list[int], target: Sequence[float]) -> list[int]:
        """`softmax - y` in state words, from a table of exp(-h) with 24 bits."""
        logits = [self._sum(b * 2**self.f) for b in self.b_out]
        self.count("readout", "weight_read", len(logits))
        self.count("readout", "state_read", len(self.read_units))
        for k in range(len(logits)):
            for i in self.read_units:
                logits[k] = self._sum(logits[k] + state[i] * self.w_out[i][k])
                self.count("readout", "mac")
                self.count("readout", "weight_read")
        odds = []
        for logit in logits:
            depth = rounded(max(logits) - logit, self.f + self.g - self.t)
            depth = min(depth, 2 * self.entries - 1)
            odds.append(floor(exp(-depth / 2.0**self.t) * 2.0**24 + 0.5))
            self.count("readout", "activation")
            self.count("readout", "state_write")
            self.count("readout", "divide")
        self.count("readout", "compare", len(logits) - 1)
        shares = [(2 * odd * 2**self.f + sum(odds)) // (2 * sum(odds)) for odd in odds]
        goal = [floor(y / self.word + 0.5) for y in target]
        return [share - y for share, y in zip(shares, goal, strict=True)]

    def apply(self, update: Sequence[float]) -> None:
        """Round stochastically with a 16-bit word; the words of a lateral pair share theirs."""
        self.phase, drawn = "update", {}
        for k, change in enumerate(update):
            pair = min(k, self._partner(k))
            if pair not in drawn:
                drawn[pair] = self._draw()
                self.count(self.owner[k], "random")
            step = (floor(change * 2.0 ** (self.g + 16)) + drawn[pair]) // 2**16
            self.count(self.owner[k], "trace_read")
            if step:
                held = self.words[k] + step
                self.words[k] = self._clip(held, self.config.weight_bits, "weight")
                self.count(self.owner[k], "weight_read")
                self.count(self.owner[k], "weight_write")
        self.wire(self.words)

    def _partner(self, parameter: int) -> int:
        for name in ("W_rec", "W_self"):
            if name in self.network.blocks:
                block = self.network.blocks[name]
                side, at = block.shape[0], parameter - block.span.start
                if 0 <= at < block.size:
                    return int(block.span.start + at % side * side + at // side)
        return parameter

    def _draw(self) -> int:
        word = self.random
        word ^= word << 13 & 0xFFFFFFFF
        word ^= word >> 17
        word ^= word << 5 & 0xFFFFFFFF
        self.random = word
        return word % 2**16
