"""Words of the digital chip: their widths, and the tables of its activations."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log2

import numpy as np

from engine.arrays import IntArray
from engine.border import checked
from engine.errors import EngineError
from engine.model.activation import ACTIVATIONS
from hw_sim.chips.kernel_arguments import Words
from hw_sim.chips.settings import ChipSettings, check_bits

GAIN_FRACTION = 12
"""Bits after the point of the nudge."""
ODDS_FRACTION = 24
"""Bits after the point of an exponential of the softmax, which is at most one."""
WIDEST = 2**61
"""What a product may come to: added to an accumulator it still is an integer of 64 bits."""
RANDOM_BITS = 16
"""Bits of a random word that decides the rounding of an update."""


@checked
@dataclass(frozen=True)
class DigitalConfig(ChipSettings):
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
        if self.input_range * 2.0 ** (self.state_fraction + self.weight_bits - 1) > WIDEST:
            raise EngineError(
                f"{owner} has input_range {self.input_range:g}, whose products with weights of "
                f"{self.weight_bits} bits do not fit in 62 bits at state_bits {self.state_bits}."
            )
        if not (isinstance(self.seed, int) and 0 < self.seed < 2**32):
            raise EngineError(f"{owner} has seed {self.seed!r}, expected 1 to 2^32 - 1.")

    @property
    def word_bits(self) -> tuple[int, int]:
        """Bits of a weight and of a state."""
        return (self.weight_bits, self.state_bits)

    def with_seed(self, seed: int) -> "DigitalConfig":
        """Return the same with another register, which must not be zero."""
        return replace(self, seed=seed + 1)

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

    def check_nudge(self, beta: float, target: float, outputs: int, linked: bool) -> None:
        """Refuse a nudge whose products do not fit, with targets up to `target` in size.

        Where outputs are `linked`, errors go back through so many weights; else they are scaled
        and shifted to the point of an accumulator.
        """
        gain, error = abs(beta) * 2**GAIN_FRACTION + 1, (1.0 + target) * 2**self.state_fraction
        product = error * 2 ** (self.weight_bits - 1) if linked else error
        pull = min(product * outputs, 2 ** (self.accumulator_bits - 1)) if linked else error
        shifted = 0.0 if linked else pull * abs(beta) * 2**self.weight_fraction
        if max(product, gain * pull, shifted) > WIDEST:
            raise EngineError(
                f"beta {beta:g} with targets up to {target:g} does not fit in 62 bits on the "
                f"digital substrate: it has weight_bits {self.weight_bits}, state_bits "
                f"{self.state_bits} and accumulator_bits {self.accumulator_bits}."
            )

    @property
    def map_error(self) -> float:
        """Largest error of one application of `T` (activation only), in every unit.

        Half a step of the table's address, half a word of its entry (a whole one at the edge of
        the range, which is no word), and the tail of tanh beyond the table.
        """
        address, word = 0.5 * 2.0**-self.table_fraction, 2.0**-self.state_fraction
        tail = 1.0 - float(np.tanh(self.table_range - 2.0**-self.table_fraction))
        return address + word + tail


def formats(config: DigitalConfig) -> Words:
    """Return the formats and the tables: one row for each activation, and exp(-h)."""
    limit = 2 ** (config.accumulator_bits - 1)
    activations, odds = _tables(config.table_range, config.table_fraction, config.state_fraction)
    return Words(
        low=1 - limit,
        high=limit - 1,
        state_fraction=config.state_fraction,
        weight_fraction=config.weight_fraction,
        gain_fraction=GAIN_FRACTION,
        table_shift=config.weight_fraction + config.state_fraction - config.table_fraction,
        activations=activations,
        odds=odds,
    )


@lru_cache(maxsize=2)  # of 20 bits they take longer than all else that a chip is made of
def _tables(reach: float, fraction: int, state_fraction: int) -> tuple[IntArray, IntArray]:
    """Return the tables of drives up to `reach` in steps of `2^-fraction`; chips only read them."""
    entries = int(2 * reach * 2.0**fraction)
    address = (np.arange(entries) - entries // 2) * 2.0**-fraction
    top = 2**state_fraction
    rows = sorted(ACTIVATIONS.values(), key=lambda activation: activation.code)
    tables = [np.clip(np.floor(rule.sigma(address) * top + 0.5), 1 - top, top - 1) for rule in rows]
    depth = np.arange(2 * entries) * 2.0**-fraction
    odds = np.floor(np.exp(-depth) * 2.0**ODDS_FRACTION + 0.5)
    return np.array(tables, np.int64), odds.astype(np.int64)
