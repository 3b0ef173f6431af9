"""Cells of a crossbar: conductances between `g_off` and `g_on`, and how pulses change them.

Conductances are in units of `g_on`. A weight is a pair of cells, `w = weight_range (g+ - g-)`,
programmed around the middle of their range; an update moves one up and the other down.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.errors import EngineError
from engine.model.network import Network
from hw_sim.chips import cell_kernels as kernels
from hw_sim.chips.devices import load_device
from hw_sim.chips.floor_plan import FloorPlan, on_tiles
from hw_sim.chips.host_cores import over_cores
from hw_sim.chips.kernel_arguments import Cells, Pulses
from hw_sim.chips.settings import BESIDE_BITS, ChipSettings, check_between, check_bits
from hw_sim.chips.tile_traffic import words_passed
from hw_sim.counts import OpCounts

OWNER = "the crossbar"
STREAM = 2**16
"""Pairs of cells that draw their random numbers from one stream, whatever core they are on."""
PAIR = 16
"""Multiply-adds that take as long as one pair: a random word, and sometimes a pulse."""


def converter_step(bits: int, limit: float) -> float:
    """Step of a converter with `2^bits - 1` codes, symmetric up to `limit`; 0 if it is perfect."""
    return limit / (2 ** (bits - 1) - 1) if bits else 0.0


@checked
@dataclass(frozen=True)
class CrossbarConfig(ChipSettings):
    """Every departure from an ideal array; the defaults are ideal but for finite Roff / Ron.

    Deviations are shares: `program_noise`, `cycle_variation` and `device_variation` of the range
    or of a pulse, `read_noise` of the current of a cell, `drift` what a cell loses between two
    updates, `wire_resistance` that of one segment over Ron.
    """

    on_off_ratio: float = 100.0
    weight_range: float = 2.0
    levels: int = 0
    """States of a cell; 0 means that they are continuous."""
    program_noise: float = 0.0
    device: str = ""
    """File of measured pulse responses, in place of levels, nonlinearity and asymmetry."""
    nonlinearity: float = 0.0
    """Exponent by which a pulse weakens as a cell nears the end it moves to."""
    asymmetry: float = 0.0
    """Share by which pulses up are stronger, and pulses down weaker."""
    device_variation: float = 0.0
    cycle_variation: float = 0.0
    stuck: float = 0.0
    """Share of the cells that are stuck, half of them on and half off."""
    read_noise: float = 0.0
    wire_resistance: float = 0.0
    drift: float = 0.0
    dac_bits: int = 0
    adc_bits: int = 0
    """Of the converters; 0 means that they are perfect."""
    input_range: float = 4.0
    adc_range: float = 8.0
    convert_each_step: bool = True
    """Whether states are digital between steps, or analog until they are read."""
    tile_rows: int = 0
    tile_columns: int = 0
    """Largest array; a larger block lies on several, each with converters of its own. 0: no end."""
    split_arrays: bool = False
    """Whether the phases with a positive nudge have arrays of their own."""
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.on_off_ratio > 1.0:
            raise EngineError(
                f"{OWNER} has on_off_ratio {self.on_off_ratio}, expected more than 1."
            )
        for name in ("weight_range", "input_range", "adc_range"):
            if not getattr(self, name) > 0.0:
                raise EngineError(
                    f"{OWNER} has {name} {getattr(self, name)}, expected more than 0."
                )
        for name in ("stuck", "asymmetry", "drift"):
            check_between(OWNER, name, getattr(self, name), 0.0, 1.0)
        for name in ("program_noise", "device_variation", "cycle_variation", "read_noise"):
            check_between(OWNER, name, getattr(self, name), 0.0, 10.0)
        check_between(OWNER, "nonlinearity", self.nonlinearity, 0.0, 20.0)
        check_between(OWNER, "wire_resistance", self.wire_resistance, 0.0, 1.0)
        for name in ("dac_bits", "adc_bits"):
            if getattr(self, name) != 0:
                check_bits(OWNER, name, getattr(self, name), 2, 24)
        for name in ("tile_rows", "tile_columns"):
            if getattr(self, name) < 0:
                raise EngineError(
                    f"{OWNER} has {name} {getattr(self, name)}, expected 0 or at least 1."
                )
        if self.levels != 0 and (not isinstance(self.levels, int) or self.levels < 2):
            raise EngineError(f"{OWNER} has levels {self.levels!r}, expected 0 or at least 2.")
        if self.device:
            load_device(self.device)
        if not isinstance(self.seed, int) or self.seed < 0:
            raise EngineError(f"{OWNER} has seed {self.seed!r}, expected a whole number.")

    @property
    def word_bits(self) -> tuple[int, int]:
        """A state has the bits of the ADC."""
        return (BESIDE_BITS, self.adc_bits or BESIDE_BITS)

    @property
    def stays_analog(self) -> bool:
        """Whether nothing is converted between steps."""
        return not self.convert_each_step

    @property
    def more_events(self) -> tuple[str, ...]:
        """Words of tiles move and are added up."""
        return ("addition", "hop") if any(self.tile) else ()

    @property
    def more_parts(self) -> tuple[str, ...]:
        """Each tile has converters and a router of its own."""
        return ("converter", "tile") if any(self.tile) else ()

    def floor_plan(self, network: Network) -> FloorPlan | None:
        """Return its tiles, unless arrays have no end."""
        return on_tiles(network, self.tile) if any(self.tile) else None

    def hot_spots(self, network: Network, counts: OpCounts, core_work: IntArray) -> FloatArray:
        """Return the words that each tile passed on."""
        passed = words_passed(network, self.tile, self.convert_each_step, counts)
        return passed.astype(np.float64)

    def with_seed(self, seed: int) -> "CrossbarConfig":
        """Return the same with other devices and other noise."""
        return replace(self, seed=seed)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the largest array; 0 is without end."""
        return (self.tile_rows, self.tile_columns)

    @property
    def rounds(self) -> bool:
        """Whether pulses are whole, so that each cell is rounded stochastically."""
        return bool(self.levels or self.device)

    @property
    def off(self) -> float:
        """Conductance of a cell that is off, over that of one that is on."""
        return 1.0 / self.on_off_ratio

    @property
    def largest_weight(self) -> float:
        """What a pair can represent: less than `weight_range`, as no cell is ever quite off."""
        return self.weight_range * (1.0 - self.off)


class CellArray:
    """Pairs of cells for `size` weights; `level (2, size)` runs from 0 (off) to 1 (on)."""

    def __init__(self, config: CrossbarConfig, size: int, rng: np.random.Generator) -> None:
        self._config, self._rng = config, rng
        self.level: FloatArray = np.full((2, size), 0.5)
        draws = rng.random((2, size))
        self._stuck_on = draws < config.stuck / 2
        self._stuck_off = ~self._stuck_on & (draws < config.stuck)
        gain = 1.0 + config.device_variation * rng.standard_normal((2, size))
        gain[self._stuck_on | self._stuck_off] = 0.0  # no pulse moves them
        self._gain = np.maximum(gain, 0.0).astype(np.float32)
        self._device = load_device(config.device) if config.device else None
        self.writes: IntArray = np.zeros((2, size), np.int64)
        """Pulses that each cell has seen."""

    @property
    def weights(self) -> FloatArray:
        """The weights that the pairs hold."""
        held: FloatArray = self._config.largest_weight * (self.level[0] - self.level[1])
        return held

    @property
    def conductances(self) -> FloatArray:
        """Of both cells, in units of `g_on`, `(2, size)`."""
        off = self._config.off
        found: FloatArray = off + (1.0 - off) * self.level
        return found

    def program(self, weights: FloatArray) -> None:
        """Write weights afresh, with programming noise."""
        share = np.clip(weights / self._config.largest_weight, -1.0, 1.0)
        self.level[:] = 0.5 + 0.5 * np.stack([share, -share])
        if self._config.levels and not self._device:
            self.level[:] = self._on_levels(self.level)
        if self._config.program_noise:
            self.level += self._config.program_noise * self._rng.standard_normal(self.level.shape)
            np.clip(self.level, 0.0, 1.0, out=self.level)
        self.writes += 1
        self._hold()

    def drift(self) -> None:
        """Let all levels shrink by what they lose between two updates."""
        if self._config.drift:
            self.level *= 1.0 - self._config.drift
            self._hold()

    def pulse(self, update: FloatArray, first: int = 0) -> int:
        """Change the weights from `first` on by about `update`; return how many pulses that took.

        A pulse moves a cell by a level, or as it was measured; with neither levels nor a device it
        is of any strength, and one is enough. Every `STREAM` pairs draw from a stream of their own.
        """
        streams = self._rng.spawn(-(-len(update) // STREAM))

        def run(rows: slice, _: IntArray) -> int:
            given = 0
            for k in range(rows.start, rows.stop):
                part = np.ascontiguousarray(update[k * STREAM : (k + 1) * STREAM])
                given += self._pulse_part(part, first + k * STREAM, streams[k])
            return given

        return over_cores(run, len(streams), PAIR * STREAM, np.zeros(0, np.int64))

    def _pulse_part(self, update: FloatArray, first: int, rng: np.random.Generator) -> int:
        """Pulse the pairs of one stream."""
        config, cells = self._config, Cells(self.level, self._gain, self.writes)
        whole = self._device.pulses if self._device else float(max(config.levels - 1, 0))
        laws = config.cycle_variation, config.nonlinearity, config.asymmetry
        pulses = Pulses(2.0 * config.largest_weight, whole, *laws)
        if not whole:
            return int(kernels.move_cells(update, first, cells, pulses, rng))
        words = rng.bit_generator.random_raw(len(update))
        strengths = np.zeros((2, len(update) if self._device else 0))
        given = int(kernels.round_pulses(update, words, first, cells, pulses, rng, strengths))
        if self._device:
            span = slice(first, first + len(update))
            self.level[:, span] = self._device.moved(self.level[:, span], strengths)
        return given

    def _on_levels(self, level: FloatArray) -> FloatArray:
        scale = self._config.levels - 1
        rounded: FloatArray = np.floor(level * scale + 0.5) / scale
        return rounded

    def _hold(self) -> None:
        """Keep stuck cells where they are stuck."""
        self.level[self._stuck_on] = 1.0
        self.level[self._stuck_off] = 0.0
