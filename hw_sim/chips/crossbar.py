"""Analog crossbars: weights are pairs of conductances, products are currents.

    I_j = sum_i v_i (g+_ij - g-_ij)          v from a DAC, I into an ADC (or straight into a neuron)

The block of a link is one array that is read in both directions, so it stays symmetric, and once at
each position. The currents of all arrays that a unit hears once in a step join before its
converter; an array that it hears several times is converted each time, and one that is larger than
a tile is converted tile by tile. A lateral block has a pair
of cells for each ordered pair of units: what its devices do differently breaks the symmetry that
the energy needs. Biases are digital words and exact. `docs/hardware.md` has the model
of each non-ideality.
"""

from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Trace, interpreted, recorded
from hw_sim.chips import crossbar_kernels as kernels
from hw_sim.chips.array_words import ArrayWords
from hw_sim.chips.arrays import cell_starts, cells_of, check_settling, input_cells
from hw_sim.chips.cells import CellArray, CrossbarConfig, converter_step
from hw_sim.chips.chip import DENSE, Chip
from hw_sim.chips.kernel_arguments import Analog, Arrays, Endings, HeldBatch
from hw_sim.chips.messages import (
    layer_table,
    symmetrised,
)
from hw_sim.chips.substrate import NEURON_WORDS, WIRING, Substrate
from hw_sim.chips.tile_traffic import traffic_of
from hw_sim.counts import Footprint
from hw_sim.events import (
    CONVERSION,
    HOP,
    RANDOM,
    STATE_WRITE,
    TRACE_READ,
    WEIGHT_READ,
    WEIGHT_WRITE,
)
from hw_sim.places import BORDER, homes, places

__all__ = ["CrossbarBackend", "CrossbarConfig"]


class CrossbarBackend(Substrate):
    """Run a network on crossbars that are as good as `config` says."""

    in_array = True

    @checked
    def __init__(
        self, network: Network, params: Params, config: CrossbarConfig | None = None
    ) -> None:
        self.config = config or CrossbarConfig()
        if not self.config.convert_each_step:
            check_settling(network)
        self._rng = np.random.default_rng(self.config.seed)
        self.tile = self.config.tile
        self._traffic = traffic_of(network, self.tile, self.config.convert_each_step)
        self._in_array = cells_of(network)
        size = int(self._in_array.sum())
        count = 2 if self.config.split_arrays else 1
        self.arrays = [CellArray(self.config, size, self._rng) for _ in range(count)]
        self._phases = [ArrayWords(network, self.config) for _ in range(count)]
        super().__init__(network, params)

    @property
    def params(self) -> Params:
        """The weights in the array of the free phase; of a lateral block the symmetric part."""
        return symmetrised(self.network, self._theta(0))

    @property
    def footprint(self) -> Footprint:
        """The words of every substrate; a pair of cells for each array in place of a weight."""
        cells = [f"{sign}{k}" for k in range(len(self.arrays)) for sign in ("g+", "g-")]
        return Footprint(NEURON_WORDS, ("gradient",), tuple(cells))

    @property
    def most_writes(self) -> int:
        """Pulses that the busiest cell has seen, the first programming included."""
        return max(int(array.writes.max(initial=0)) for array in self.arrays)

    def read(self, state: FloatArray) -> FloatArray:
        """Convert a state that was analog until now."""
        if self.config.convert_each_step or self.config.adc_bits == 0:
            return state
        return _converted(state, self.config.adc_bits, 1.0)

    def _theta(self, array: int) -> FloatArray:
        theta = self._biases.copy()
        theta[self._in_array] = self.arrays[array].weights
        return theta

    def _load(self, params: Params) -> None:
        theta = params.theta.astype(np.float64)
        self._biases = np.where(self._in_array, 0.0, theta)
        for array in self.arrays:
            array.program(theta[self._in_array])
        self._assemble()

    def _assemble(self) -> None:
        """Show the kernels what the cells are."""
        for words, array in zip(self._phases, self.arrays, strict=True):
            words.write(array, self._biases)

    def _drive(self, x: FloatArray) -> list[FloatArray]:
        """One drive for each set of arrays."""
        drives: list[FloatArray] = []
        tally = self._tally()
        inputs = self._seen_input(x)
        for phase in self._phases:
            drive = np.zeros((len(x), self.network.units))
            analog = self._analog(phase)
            kernels.drive_crossbar(inputs, phase.feeds, analog, phase.into, self._rng, drive, tally)
            drives.append(drive)
            tally[:, HOP] += len(x) * self._traffic.input
        self._count("input", tally)
        self.counts.add("input", BORDER, "off_chip", x.size)
        return drives

    def _seen_input(self, x: FloatArray) -> FloatArray:
        return _converted(x, self.config.dac_bits, self.config.input_range)

    def _analog(self, phase: ArrayWords) -> Analog:
        config, looped = self.config, self.config.convert_each_step
        dac = converter_step(config.dac_bits, 1.0)
        adc = converter_step(config.adc_bits, config.adc_range)
        return Analog(
            looped, dac * looped, adc * looped, adc, config.adc_range, phase.between, phase.out,
            input_cells(self.network),
        )  # fmt: skip

    def _settle(
        self,
        clamped: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray | None,
        tally: IntArray,
    ) -> Equilibrium:
        samples, which = len(clamped.x), int(beta > 0.0 and len(self._phases) > 1)
        phase = self._phases[which]
        shape = (samples, self.network.units)
        state = np.zeros(shape) if start is None else start.copy()
        ended = Endings(state, np.zeros(samples, np.int64), np.zeros(samples))
        goal = np.zeros((1, self.network.outputs)) if clamped.y is None else clamped.y
        batch = HeldBatch(clamped.drive[which], goal, beta)
        kernels.relax_crossbar(
            phase.wires, batch, self._analog(phase), self._rng, ended, start is None,
            relaxation.max_steps, relaxation.tolerance, self._registers(np.float64), tally,
        )  # fmt: skip
        if not self.config.convert_each_step:  # each unit is converted once, when it is read
            for place, (first, last, _) in enumerate(layer_table(self.network)):
                tally[place, CONVERSION] += samples * (last - first)
                tally[place, STATE_WRITE] += samples * (last - first)
        tally[:, HOP] += ended.steps.sum() * self._traffic.of_step(beta != 0.0)
        converged = ended.residual <= relaxation.tolerance
        return Equilibrium(ended.state, ended.steps, ended.residual, converged, beta)

    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        phase, seen = self._phases[0], self.read(equilibrium.state)
        work, errors = self._registers(np.float64), np.zeros((len(seen), self.network.outputs))
        args = phase.wires, targets, self._analog(phase), self._rng
        kernels.read_crossbar(*args, seen, errors, work, tally)
        tally[:, HOP] += len(seen) * self._traffic.readout
        return errors

    def _learning_hops(self, energy: bool, cost: bool) -> IntArray:
        return self._traffic.of_learning(energy, cost)

    def record_relaxation(
        self, x: FloatArray, y: FloatArray, beta: float, steps: int, trace: Trace
    ) -> Any:
        """Relax on the arrays of the free phase."""
        ended, work = self._recorded_words(len(x), trace)
        phase, batch = self._phases[0], HeldBatch(self._drive(x)[0], y, beta)
        analog = self._analog(phase)
        analog = analog._replace(between=_unfollowed(analog.between), out=_unfollowed(analog.out))
        interpreted(kernels)["relax_crossbar"](
            recorded(phase.wires, trace, WIRING), recorded(batch, trace), analog,
            self._rng, ended, True, steps, -1.0, work, self._tally(),
        )  # fmt: skip
        return ended.state.numbers()

    def _apply(self, update: FloatArray) -> None:
        """Pulse the cells and write the biases, block by block."""
        network, tally, starts = self.network, self._tally(), cell_starts(self.network)
        for array in self.arrays:
            array.drift()
        for name, home in homes(network).items():
            span, row = network.blocks[name].span, tally[places(network).index(home)]
            change = update[span]
            row[TRACE_READ] += change.size
            if name not in starts:
                self._biases[span] += change
                row[WEIGHT_READ] += change.size
                row[WEIGHT_WRITE] += change.size
                continue
            for array in self.arrays:
                row[WEIGHT_WRITE] += array.pulse(change, starts[name])
                row[RANDOM] += 2 * change.size * self.config.rounds
        self._assemble()
        self._count("update", tally)


def _unfollowed(arrays: Arrays) -> Arrays:
    """Return arrays that add up numbers which carry words."""
    return arrays._replace(partial=arrays.partial.astype(object), power=arrays.power.astype(object))


def _converted(values: FloatArray, bits: int, limit: float) -> FloatArray:
    """Clip to `limit` and round to the codes of a converter; 0 bits change nothing."""
    if bits == 0:
        return values
    step = converter_step(bits, limit)
    seen: FloatArray = step * np.floor(np.clip(values, -limit, limit) / step + 0.5)
    return seen


MIDDLING = CrossbarConfig(
    on_off_ratio=15.0,
    levels=256,
    nonlinearity=0.5,
    asymmetry=0.05,
    device_variation=0.1,
    cycle_variation=0.1,
    stuck=0.01,
    read_noise=0.002,
    wire_resistance=1e-5,
    dac_bits=8,
    adc_bits=8,
)
"""Devices as they may be had; every number can be set."""

CROSSBAR = Chip(
    name="crossbar",
    backend=CrossbarBackend,
    settings=MIDDLING,
    technologies=("rram_crossbar",),
    events=(*DENSE, "cell_read", "conversion", "random"),
    tuned={
        "looped": {"eqprop": 0.032, "backprop": 0.032, "bptt": 0.032},
        "conv": {"eqprop": 0.032, "backprop": 0.064, "bptt": 0.064},
    },
)
