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

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.model.network import Network
from engine.model.params import Params
from hw_sim.audit.recording import Trace, interpreted, recorded
from hw_sim.chips import floating_kernels as kernels
from hw_sim.chips.arrays import arrays, cells_of, check_settling, input_cells, tile_table
from hw_sim.chips.cells import CellArray, CrossbarConfig, converter_step
from hw_sim.chips.chip import DENSE, Chip
from hw_sim.chips.kernel_arguments import Analog, Arrays, Endings, HeldBatch, Messages
from hw_sim.chips.messages import (
    Way,
    feeds,
    hold,
    input_ways,
    layer_table,
    readout_ways,
    recurrent_ways,
    symmetrised,
    wires,
)
from hw_sim.chips.substrate import NEURON_WORDS, WIRING, Substrate
from hw_sim.chips.wires import seen_conductances
from hw_sim.counts import Footprint
from hw_sim.events import CONVERSION, RANDOM, STATE_WRITE, TRACE_READ, WEIGHT_READ, WEIGHT_WRITE
from hw_sim.places import BORDER, owners

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
        self._in_array = cells_of(network)
        size = int(self._in_array.sum())
        count = 2 if self.config.split_arrays else 1
        self.arrays = [CellArray(self.config, size, self._rng) for _ in range(count)]
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
        """Turn cells into the currents that a unit voltage makes, as seen through the wires."""
        self._phases = []
        for array in self.arrays:
            cells = np.zeros((2, self.network.size))
            cells[:, self._in_array] = array.conductances
            if self.config.wire_resistance:
                self._wire(cells)
            held = Params(self.network, self.config.weight_range * (cells[0] - cells[1]))
            held.theta[~self._in_array] = self._biases[~self._in_array]
            scale = self.config.read_noise * self.config.weight_range
            power = Params(self.network, scale**2 * (cells**2).sum(0)) if scale else None
            self._phases.append(_Phase(held, power, self.config))

    def _wire(self, cells: FloatArray) -> None:
        """Put the cells of both signs, each in an array of its own, behind their wires."""
        config = self.config
        for way in arrays(self.network):
            for sign in cells:
                block = sign[self.network.blocks[way.link.block].span]
                array = block.reshape(way.shape)
                block[:] = seen_conductances(array, config.wire_resistance, config.tile).ravel()

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
        self._count("input", tally)
        self.counts.add("input", BORDER, "off_chip", x.size)
        return drives

    def _seen_input(self, x: FloatArray) -> FloatArray:
        return _converted(x, self.config.dac_bits, self.config.input_range)

    def _analog(self, phase: "_Phase") -> Analog:
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
        converged = ended.residual <= relaxation.tolerance
        return Equilibrium(ended.state, ended.steps, ended.residual, converged, beta)

    def _errors(self, equilibrium: Equilibrium, targets: Any, tally: IntArray) -> FloatArray:
        phase, seen = self._phases[0], self.read(equilibrium.state)
        work, errors = self._registers(np.float64), np.zeros((len(seen), self.network.outputs))
        args = phase.wires, targets, self._analog(phase), self._rng
        kernels.read_crossbar(*args, seen, errors, work, tally)
        return errors

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
        tally, owner = self._tally(), owners(self.network)
        self._biases[~self._in_array] += update[~self._in_array]
        for kind in (WEIGHT_READ, WEIGHT_WRITE):
            np.add.at(tally[:, kind], owner[~self._in_array], 1)
        np.add.at(tally[:, TRACE_READ], owner, 1)
        for array in self.arrays:
            pulses = array.pulse(update[self._in_array])
            np.add.at(tally[:, WEIGHT_WRITE], owner[self._in_array], pulses)
            if self.config.levels:  # each cell of a pair is rounded stochastically
                np.add.at(tally[:, RANDOM], owner[self._in_array], 2)
        self._assemble()
        self._count("update", tally)


class _Phase:
    """What the kernels need of one set of arrays: currents, tiles, and the power of noise."""

    def __init__(self, held: Params, power: Params | None, config: CrossbarConfig) -> None:
        network, cells = held.network, hold(held, np.float64)
        self.feeds, self.wires = feeds(network, cells), wires(network, cells)
        silent = Messages(*(part[:0] for part in self.feeds.messages))
        loud_in = loud = loud_out = silent
        if power is not None:
            loudness = hold(power, np.float64)
            loud_in, among = feeds(network, loudness).messages, wires(network, loudness)
            loud, loud_out = among.messages, among.readout

        def arrays_of(ways: Sequence[Way], loud: Messages, width: int) -> Arrays:
            tiles = tile_table(ways, config.tile, config.convert_each_step)
            return Arrays(tiles, power is not None, loud, *np.zeros((2, 1, width)))

        out = [Way(way.link, back) for way in readout_ways(network) for back in (False, True)]
        self.into = arrays_of(input_ways(network), loud_in, network.units)
        self.between = arrays_of(recurrent_ways(network), loud, network.units)
        self.out = arrays_of(out, loud_out, network.outputs)


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
    title="crossbar",
    backend=CrossbarBackend,
    settings=MIDDLING,
    technologies=("rram_crossbar",),
    events=(*DENSE, "cell_read", "conversion", "random"),
    tuned={
        "looped": {"eqprop": 0.032, "backprop": 0.032, "bptt": 0.032},
        "conv": {"eqprop": 0.032, "backprop": 0.064, "bptt": 0.064},
    },
)
