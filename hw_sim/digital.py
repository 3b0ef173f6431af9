"""Digital fixed point: integer states, weights and accumulators, and tables for the activations.

Every operation is one on integers of a stated width, in a stated order, so that a hardware
description of the same neuron and synapse can be compared with this one bit by bit:

    state and input words    s = round(2^f s_real), f = state_bits - 1
    weight words             w = round(2^g w_real), g = weight_bits - 1 - log2(weight_range)
    accumulator              a <- saturate(a + s_i w_ij), i ascending, starting at (b_j << f) + x w
    activation               s <- table[(a + half) >> shift]
    update                   w <- saturate(w + (u + r >> 16)), u = floor(2^(g + 16) du), r random

`docs/hardware.md` derives how far the fixed point lies from the ideal one.
"""

from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.backend import Clamped, Equilibrium, Relaxation
from engine.border import checked
from engine.errors import EngineError
from engine.model.activation import ACTIVATIONS
from engine.model.network import Network
from engine.model.params import Params, partners
from hw_sim import digital_kernels as kernels
from hw_sim.counts import BORDER, Footprint
from hw_sim.layout import Batch, Ended, Words
from hw_sim.substrate import NEURON_WORDS, Substrate, check_bits
from hw_sim.wiring import feeds, owners, wires

GAIN_FRACTION = 12
"""Bits after the point of the nudge."""
RANDOM_BITS = 16
"""Bits of a random word that decides the rounding of an update."""


@checked
@dataclass(frozen=True)
class DigitalConfig:
    """Widths of the words. Ranges are powers of two, so that scaling is shifting."""

    weight_bits: int = 12
    state_bits: int = 10
    accumulator_bits: int = 32
    readout_bits: int | None = None
    """Width to which a settled state is rounded when it is read; by default that of the state."""
    table_bits: int = 12
    weight_range: float = 2.0
    input_range: float = 4.0
    table_range: float = 8.0
    seed: int = 1

    def __post_init__(self) -> None:
        owner = "the digital substrate"
        check_bits(owner, "weight_bits", self.weight_bits, 2, 24)
        check_bits(owner, "state_bits", self.state_bits, 2, 24)
        check_bits(owner, "accumulator_bits", self.accumulator_bits, 4, 60)
        check_bits(owner, "table_bits", self.table_bits, 2, 20)
        if self.readout_bits is not None:
            check_bits(owner, "readout_bits", self.readout_bits, 2, self.state_bits)
        for name in ("weight_range", "input_range", "table_range"):
            value = getattr(self, name)
            if not (value > 0 and log2(value).is_integer()):
                raise EngineError(f"{owner} has {name} {value}, expected a power of two.")
        if self.weight_fraction < 0:
            raise EngineError(
                f"{owner} has weight_bits {self.weight_bits}, too few for weight_range "
                f"{self.weight_range:g}."
            )
        if not (isinstance(self.seed, int) and 0 < self.seed < 2**32):
            raise EngineError(f"{owner} has seed {self.seed!r}, expected 1 to 2^32 - 1.")

    @property
    def state_fraction(self) -> int:
        """Bits of a state after the point."""
        return self.state_bits - 1

    @property
    def weight_fraction(self) -> int:
        """Bits of a weight after the point."""
        return self.weight_bits - 1 - int(log2(self.weight_range))

    @property
    def table_fraction(self) -> int:
        """Bits of a drive after the point by which the table is addressed."""
        finest = self.table_bits - 1 - int(log2(self.table_range))
        return min(finest, self.weight_fraction + self.state_fraction)

    @property
    def map_error(self) -> float:
        """Largest error of one application of `T` (activation only), in every unit.

        Half a step of the table's address, half a word of its entry (a whole one at the edge of
        the range, which is no word), and the tail of tanh beyond the table.
        """
        address, word = 0.5 * 2.0**-self.table_fraction, 2.0**-self.state_fraction
        tail = 1.0 - float(np.tanh(self.table_range - 2.0**-self.table_fraction))
        return address + word + tail


@dataclass
class Saturations:
    """How often a word would have left its width, by what happened to it."""

    accumulator: int = 0
    weight: int = 0
    input: int = 0
    load: int = 0


class DigitalBackend(Substrate):
    """Run a network in integers; `saturations` counts every word that hit its limit."""

    @checked
    def __init__(
        self, network: Network, params: Params, config: DigitalConfig | None = None
    ) -> None:
        self.config = config or DigitalConfig()
        self.saturations = Saturations()
        self._register = self.config.seed
        self._words = _formats(self.config)
        super().__init__(network, params)

    @property
    def params(self) -> Params:
        """The weight words as numbers."""
        return Params(self.network, self.words * 2.0**-self.config.weight_fraction)

    @property
    def footprint(self) -> Footprint:
        """The words of every substrate, and the tables that all neurons read."""
        rows = len({layer.activation for layer in self.network.layers})
        tables = rows * self._words.activations.shape[1] + self._words.odds.size
        return Footprint(NEURON_WORDS, ("weight", "gradient"), shared_words=tables)

    def read(self, state: FloatArray) -> FloatArray:
        """Round a state to the width of the read-out."""
        bits = self.config.readout_bits
        if bits is None or bits == self.config.state_bits:
            return state
        scale = 2.0 ** (bits - 1)
        seen: FloatArray = np.clip(np.floor(state * scale + 0.5), 1 - scale, scale - 1) / scale
        return seen

    def _load(self, params: Params) -> None:
        limit = 2 ** (self.config.weight_bits - 1)
        scaled = np.floor(params.theta.astype(np.float64) * 2.0**self.config.weight_fraction + 0.5)
        kept = np.clip(scaled, 1 - limit, limit - 1)
        self.saturations.load += int((kept != scaled).sum())
        self.words: IntArray = kept.astype(np.int64)
        self._assemble()

    def _assemble(self) -> None:
        held = Params(self.network, self.words.astype(np.float64))
        self._feeds, self._wires = feeds(held, np.int64), wires(held, np.int64)

    def _drive(self, x: FloatArray) -> IntArray:
        drive, tally = np.zeros((len(x), self.network.units), np.int64), self._tally()
        inputs = self._input_words(x)
        found = kernels.drive_digital(inputs, self._feeds, self._words, drive, tally)
        self.saturations.accumulator += found
        self._count("input", tally)
        self.counts.add("input", BORDER, "off_chip", x.size)
        return drive

    def _input_words(self, x: FloatArray, counted: bool = True) -> IntArray:
        scaled = np.floor(x * 2.0**self.config.state_fraction + 0.5)
        limit = self.config.input_range * 2**self.config.state_fraction
        kept = np.clip(scaled, 1 - limit, limit - 1)
        if counted:
            self.saturations.input += int((kept != scaled).sum())
        inputs: IntArray = kept.astype(np.int64)
        return inputs

    def _seen_input(self, x: FloatArray) -> FloatArray:
        return self._input_words(x, counted=False) * 2.0**-self.config.state_fraction

    def _state_words(self, values: FloatArray) -> IntArray:
        limit = 2**self.config.state_fraction
        scaled = np.floor(values * float(limit) + 0.5)
        states: IntArray = np.clip(scaled, 1 - limit, limit - 1).astype(np.int64)
        return states

    def _target_words(self, y: Any) -> IntArray:
        shape = (1, self.network.outputs)
        targets = np.zeros(shape) if y is None else y
        scaled = np.floor(targets * 2.0**self.config.state_fraction + 0.5)
        goal: IntArray = scaled.astype(np.int64)
        return goal

    def _settle(
        self,
        clamped: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray | None,
        tally: IntArray,
    ) -> Equilibrium:
        samples, lsb = len(clamped.x), 2.0**-self.config.state_fraction
        fresh = start is None
        state = np.zeros((samples, self.network.units)) if start is None else start
        ended = Ended(self._state_words(state), *np.zeros((2, samples), np.int64))
        gain = int(np.floor(beta * 2**GAIN_FRACTION + 0.5))
        if gain == 0 and beta != 0.0:
            raise EngineError(f"beta {beta} is below the finest nudge, 2^-{GAIN_FRACTION}.")
        batch = Batch(clamped.drive, self._target_words(clamped.y), gain)
        limits = relaxation.max_steps, int(relaxation.tolerance / lsb), self._work(np.int64)
        found = kernels.relax_digital(self._wires, batch, self._words, ended, fresh, *limits, tally)
        self.saturations.accumulator += found
        residual = ended.residual * lsb
        converged = residual <= relaxation.tolerance
        return Equilibrium(ended.state * lsb, ended.steps, residual, converged, beta)

    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        seen, work = self._state_words(self.read(equilibrium.state)), self._work(np.int64)
        goal = self._target_words(targets)
        errors = np.zeros((len(seen), self.network.outputs), np.int64)
        self.saturations.accumulator += kernels.read_digital(
            self._wires, goal, self._words, seen, errors, work, tally
        )
        return errors * 2.0**-self.config.state_fraction

    def _apply(self, update: FloatArray) -> None:
        scale = 2.0 ** (self.config.weight_fraction + RANDOM_BITS)
        steps = np.floor(update * scale).astype(np.int64)
        noise, tally = np.zeros_like(steps), self._tally()
        mask, limit = 2**RANDOM_BITS - 1, 2 ** (self.config.weight_bits - 1)
        self._register = kernels.draw_words(noise, partners(self.network), self._register, mask)
        self.saturations.weight += kernels.write_words(
            self.words, steps, noise, RANDOM_BITS, 1 - limit, limit - 1,
            owners(self.network), tally,
        )  # fmt: skip
        self._assemble()
        self._count("update", tally)


def _formats(config: DigitalConfig) -> Words:
    """Return the formats and the tables: one row for each activation, and exp(-h)."""
    limit = 2 ** (config.accumulator_bits - 1)
    entries = int(2 * config.table_range * 2.0**config.table_fraction)
    address = (np.arange(entries) - entries // 2) * 2.0**-config.table_fraction
    top = 2**config.state_fraction
    rows = sorted(ACTIVATIONS.values(), key=lambda activation: activation.code)
    tables = [np.clip(np.floor(rule.sigma(address) * top + 0.5), 1 - top, top - 1) for rule in rows]
    depth = np.arange(2 * entries) * 2.0**-config.table_fraction
    odds = np.floor(np.exp(-depth) * 2.0**24 + 0.5)
    return Words(
        low=1 - limit,
        high=limit - 1,
        state_fraction=config.state_fraction,
        weight_fraction=config.weight_fraction,
        gain_fraction=GAIN_FRACTION,
        table_shift=config.weight_fraction + config.state_fraction - config.table_fraction,
        activations=np.array(tables, np.int64),
        odds=odds.astype(np.int64),
    )
