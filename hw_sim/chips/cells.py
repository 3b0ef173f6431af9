"""Cells of a crossbar: conductances between `g_off` and `g_on`, and how pulses change them.

Conductances are in units of `g_on`. A weight is a pair of cells, `w = weight_range (g+ - g-)`,
programmed around the middle of their range; an update moves one up and the other down.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import BoolArray, FloatArray, IntArray
from engine.border import checked
from engine.errors import EngineError
from engine.model.network import Network
from hw_sim.chips.devices import load_device
from hw_sim.chips.floor_plan import FloorPlan, on_tiles
from hw_sim.chips.settings import BESIDE_BITS, ChipSettings, check_between, check_bits
from hw_sim.chips.tile_traffic import words_passed
from hw_sim.counts import OpCounts

OWNER = "the crossbar"


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
        self._gain = np.maximum(gain, 0.0)
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
        self.writes += 1
        self._hold()

    def pulse(self, update: FloatArray) -> IntArray:
        """Change the weights by about `update`; return the pulses for each weight.

        A pulse moves a cell by a level, or as it was measured; with neither levels nor a device it
        is of any strength, and one is enough.
        """
        config = self._config
        if config.drift:
            self.level *= 1.0 - config.drift
        step = 0.5 * update / config.largest_weight
        wanted = np.stack([step, -step])
        scale = self._device.pulses if self._device else config.levels - 1
        if self._device or config.levels:  # a whole number of pulses, by stochastic rounding
            steps = np.floor(wanted * scale + self._rng.random(wanted.shape))
            wanted, pulses = steps / scale, np.abs(steps).astype(np.int64)
        else:
            pulses = (wanted != 0.0).astype(np.int64)
        strength = self._gain.copy()
        if config.cycle_variation:
            strength *= 1.0 + config.cycle_variation * self._rng.standard_normal(wanted.shape)
        if self._device:
            self.level[:] = self._device.moved(self.level, wanted * scale * strength)
        else:
            self.level += wanted * strength * self._bent(wanted > 0.0)
        self.writes += pulses
        self._hold()
        total: IntArray = pulses.sum(0)
        return total

    def _bent(self, up: BoolArray) -> FloatArray:
        """Return how strong a pulse is at the level of each cell, upwards or downwards."""
        config = self._config
        way = np.where(up, self.level, 1.0 - self.level)  # how far along it already is
        strength: FloatArray = np.exp(-config.nonlinearity * way)
        strength *= np.where(up, 1.0 + config.asymmetry, 1.0 - config.asymmetry)
        return strength

    def _on_levels(self, level: FloatArray) -> FloatArray:
        scale = self._config.levels - 1
        rounded: FloatArray = np.floor(level * scale + 0.5) / scale
        return rounded

    def _hold(self) -> None:
        """Keep cells within their range, and stuck ones where they are stuck."""
        np.clip(self.level, 0.0, 1.0, out=self.level)
        self.level[self._stuck_on] = 1.0
        self.level[self._stuck_off] = 0.0
