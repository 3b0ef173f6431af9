"""What all settings of chips have in common, and how a bad one is refused."""

from dataclasses import dataclass

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.errors import EngineError
from engine.model.network import Network
from hw_sim.chips.floor_plan import FloorPlan
from hw_sim.counts import OpCounts

BESIDE_BITS = 8
"""Width at which the words beside an analog array or an event are priced."""


def check_between(owner: str, name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside `low` to `high`, both included."""
    if not low <= value <= high:
        raise EngineError(f"{owner} has {name} {value}, expected from {low:g} to {high:g}.")


def check_bits(owner: str, name: str, value: int, low: int, high: int) -> None:
    """Refuse a width that is not a whole number of bits within the range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise EngineError(f"{owner} has {name} {value!r}, expected {low} to {high} whole bits.")


@dataclass(frozen=True)
class ChipSettings:
    """What a chip can be set to; every setting has a default."""

    @property
    def word_bits(self) -> tuple[int, int]:
        """Bits of a weight and of a state at which words beside analog parts are priced."""
        return (BESIDE_BITS, BESIDE_BITS)

    @property
    def stays_analog(self) -> bool:
        """Whether states are analog until they are read, so that input arrays always conduct."""
        return False

    @property
    def more_events(self) -> tuple[str, ...]:
        """What needs a price beside the events of its chip, because it is set so."""
        return ()

    @property
    def more_parts(self) -> tuple[str, ...]:
        """What takes area beside neurons, words and cells, because it is set so."""
        return ()

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the largest array; 0 is without end."""
        return (0, 0)

    def tiles(self, network: Network) -> int:
        """Return how many tiles of cores hold a network; 1 where there are none."""
        return 1

    def floor_plan(self, network: Network) -> FloorPlan | None:
        """Return where a network lies on the chip, `None` where it has neither tiles nor cores."""
        return None

    def hot_spots(self, network: Network, counts: OpCounts, core_work: IntArray) -> FloatArray:
        """Return how busy each spot of the floor plan was in a run of EqProp, `(spots,)`.

        From what was counted: hops, or the work of cores `(5, cores)`.
        """
        return np.zeros(0)

    def with_seed(self, seed: int) -> "ChipSettings":
        """Return the same with random devices and random rounding of their own."""
        return self
