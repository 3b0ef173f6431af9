"""Digital fixed point: integer states, weights and accumulators, and tables for the activations.

Every operation is one on integers of a stated width, in a stated order, so that a hardware
description of the same neuron and synapse can be compared with this one bit by bit:

    state and input words    s = round(2^f s_real), f = state_bits - 1
    weight words             w = round(2^g w_real), g = weight_bits - 1 - log2(weight_range)
    accumulator              a <- saturate(a + s_i w_ij), i ascending, from saturate(b_j << f) + x w
    activation               s <- table[(a + half) >> shift]
    update                   w <- saturate(w + (u + r >> 16)), u = floor(2^(g + 16) du), r random

`docs/hardware.md` has every fact that such a description needs, and derives how far the fixed point
lies from the ideal one.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Memory, Trace, interpreted, recorded
from hw_sim.chips import digital_kernels as kernels
from hw_sim.chips import digital_update_kernels as update_kernels
from hw_sim.chips.chip import DENSE, Chip
from hw_sim.chips.fixed_point import (
    GAIN_FRACTION,
    ODDS_FRACTION,
    RANDOM_BITS,
    DigitalConfig,
    formats,
)
from hw_sim.chips.host_cores import over_cores
from hw_sim.chips.kernel_arguments import Endings, HeldBatch, Update
from hw_sim.chips.messages import block_table, feeds, hold, sum_biases, wires
from hw_sim.chips.mirror_kernels import mirror_blocks
from hw_sim.chips.substrate import NEURON_WORDS, WIRING, Substrate
from hw_sim.counts import Footprint
from hw_sim.places import BORDER


@dataclass
class Saturations:
    """How often a word would have left its width, by what happened to it."""

    accumulator: int = 0
    weight: int = 0
    input: int = 0
    load: int = 0


class DigitalBackend(Substrate):
    """Run a network in integers; `saturations` counts every word that hit its limit."""

    _number = np.int64

    @checked
    def __init__(
        self, network: Network, params: Params, config: DigitalConfig | None = None
    ) -> None:
        self.config = config or DigitalConfig()
        self.saturations = Saturations()
        self._register = self.config.seed
        self._words = formats(self.config)
        super().__init__(network, params)

    @property
    def params(self) -> Params:
        """The weight words as numbers."""
        return Params(self.network, self.words * 2.0**-self.config.weight_fraction)

    @property
    def saturated(self) -> dict[str, int]:
        """`saturations` by name."""
        return asdict(self.saturations)

    @property
    def footprint(self) -> Footprint:
        """The words of every substrate, some of them accumulators, and tables for all neurons."""
        entries = self._words.activations.shape[1]
        tables = {layer.activation: entries for layer in self.network.layers}
        sums = dict.fromkeys(("drive", "total"), self.config.accumulator_bits)
        return Footprint(
            NEURON_WORDS, ("weight", "gradient"), (), tables | {"exp": self._words.odds.size},
            sums | {"exp": ODDS_FRACTION + 1},
        )  # fmt: skip

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
        held = hold(Params(self.network, kept), np.int64)
        self.words: IntArray = held[: self.network.size]
        self._mirror: IntArray = held[self.network.size :]
        self._feeds, self._wires = feeds(self.network, held), wires(self.network, held)

    def _drive(self, x: FloatArray) -> IntArray:
        drive, tally = np.zeros((len(x), self.network.units), np.int64), self._tally()
        inputs = self.input_words(x)

        def run(rows: slice, tally: IntArray) -> int:
            return int(
                kernels.drive_digital(inputs[rows], self._feeds, self._words, drive[rows], tally)
            )

        self.saturations.accumulator += over_cores(run, len(x), self._macs, tally)
        self._count("input", tally)
        self.counts.add("input", BORDER, "off_chip", x.size)
        return drive

    def input_words(self, x: FloatArray, counted: bool = True) -> IntArray:
        """Return inputs as the chip holds them; those that are clipped count, unless not."""
        scaled = np.floor(x * 2.0**self.config.state_fraction + 0.5)
        limit = self.config.input_range * 2**self.config.state_fraction
        kept = np.clip(scaled, 1 - limit, limit - 1)
        if counted:
            self.saturations.input += int((kept != scaled).sum())
        inputs: IntArray = kept.astype(np.int64)
        return inputs

    def _seen_input(self, x: FloatArray) -> FloatArray:
        return self.input_words(x, counted=False) * 2.0**-self.config.state_fraction

    def _state_words(self, values: FloatArray) -> IntArray:
        limit = 2**self.config.state_fraction
        scaled = np.floor(values * float(limit) + 0.5)
        states: IntArray = np.clip(scaled, 1 - limit, limit - 1).astype(np.int64)
        return states

    def target_words(self, y: Any) -> IntArray:
        """Return targets as the chip holds them; without any, those of a read."""
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
        ended = Endings(self._state_words(state), *np.zeros((2, samples), np.int64))
        gain = int(np.floor(beta * 2**GAIN_FRACTION + 0.5))
        if gain == 0 and beta != 0.0:
            raise EngineError(f"beta {beta} is below the finest nudge, 2^-{GAIN_FRACTION}.")
        if beta != 0.0 and clamped.y is not None:
            self._check_nudge(beta, clamped.y)
        batch = HeldBatch(clamped.drive, self.target_words(clamped.y), gain)
        limits = relaxation.max_steps, int(relaxation.tolerance / lsb)

        def run(rows: slice, tally: IntArray) -> int:
            part = batch._replace(drive=batch.drive[rows], targets=batch.targets[rows])
            work, ends = self._registers(np.int64), Endings(*(words[rows] for words in ended))
            args = self._wires, part, self._words, ends, fresh, *limits, work, tally
            return int(kernels.relax_digital(*args))

        self.saturations.accumulator += over_cores(run, samples, self._macs, tally)
        residual = ended.residual * lsb
        converged = residual <= relaxation.tolerance
        return Equilibrium(ended.state * lsb, ended.steps, residual, converged, beta)

    def _check_nudge(self, beta: float, y: FloatArray) -> None:
        """Refuse what the integers of the kernels cannot hold."""
        link = self.network.reading.link if self.network.reading else None
        outputs = link.fan_out if link else self.network.outputs
        self.config.check_nudge(beta, float(np.abs(y).max(initial=0.0)), outputs, link is not None)

    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        seen, goal = self._state_words(self.read(equilibrium.state)), self.target_words(targets)
        errors = np.zeros((len(seen), self.network.outputs), np.int64)

        def run(rows: slice, tally: IntArray) -> int:
            work, ends = self._registers(np.int64), (seen[rows], errors[rows])
            args = self._wires, goal[rows], self._words, *ends, work, tally
            return int(kernels.read_digital(*args))

        self.saturations.accumulator += over_cores(run, len(seen), self._macs, tally)
        return errors * 2.0**-self.config.state_fraction

    def _apply(self, update: FloatArray) -> None:
        """Write what changes, in place; nothing is laid out anew but the biases of the units."""
        blocks, tally = block_table(self.network), self._tally()
        noise = np.empty(self.network.size, np.int64)
        self._register = update_kernels.draw_words(noise, blocks, self._register, tally)
        self.saturations.weight += update_kernels.write_words(
            self.words, update, noise, blocks, self._update, tally
        )
        mirror_blocks(self.words, self._mirror, blocks)
        self._feeds.bias[...] = sum_biases(self.network, self.words)
        self._count("update", tally)

    @property
    def _macs(self) -> int:
        """Multiply-adds of a sample in one step, about."""
        return sum(link.macs for link in self.network.links.values())

    @property
    def _update(self) -> Update:
        limit = 2 ** (self.config.weight_bits - 1)
        scale = 2.0 ** (self.config.weight_fraction + RANDOM_BITS)
        return Update(scale, RANDOM_BITS, 1 - limit, limit - 1)

    def record_relaxation(
        self, x: FloatArray, y: FloatArray, beta: float, steps: int, trace: Trace
    ) -> Any:
        """Relax in integers."""
        ended, work = self._recorded_words(len(x), trace)
        gain = int(beta * 2**GAIN_FRACTION)
        batch = HeldBatch(self._drive(x), self.target_words(y), gain)
        interpreted(kernels)["relax_digital"](
            recorded(self._wires, trace, WIRING), recorded(batch, trace),
            recorded(self._words, trace), ended, True, steps, -1, work, self._tally(),
        )  # fmt: skip
        return ended.state.numbers()

    def record_update(self, update: FloatArray, trace: Trace) -> bool:
        """Round and write words, one after the other."""
        noise, blocks = np.empty(self.network.size, np.int64), block_table(self.network)
        update_kernels.draw_words(noise, blocks, 1, self._tally())
        arrays = {"theta": self.words, "update": update, "noise": noise}
        held = [Memory(name, values, trace) for name, values in arrays.items()]
        interpreted(update_kernels)["write_words"](*held, blocks, self._update, self._tally())
        return True


DIGITAL = Chip(
    name="digital",
    backend=DigitalBackend,
    settings=DigitalConfig(),
    technologies=("digital_45nm", "digital_7nm", "gpu", "microcontroller"),
    events=(*DENSE, "random"),
    tuned={
        "looped": {"eqprop": 0.032, "backprop": 0.016, "bptt": 0.032},
        "conv": {"eqprop": 0.008, "backprop": 0.064, "bptt": 0.032},
    },
)
