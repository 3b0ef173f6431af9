"""Two bills side by side: the prices that decide their ratio, and where the balance tips.

Energies and times are straight lines in each price, and energies in the number of relaxation steps,
so that break-even points are exact. A price may differ between the two, as their memories do: what
moves is its factor, the same for both.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from hw_sim.counts import Amounts
from hw_sim.prices.bill import Bill
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.sums import Sum

RELAXING = ("free", "nudged")
"""Phases whose events grow with the number of steps."""


@dataclass(frozen=True)
class Swing:
    """What a ratio becomes when one price goes from its low to its high end."""

    kind: str
    low: float
    high: float

    @property
    def size(self) -> float:
        """Factor between the ends, at least one."""
        return max(self.low, self.high) / min(self.low, self.high)

    @property
    def decides(self) -> bool:
        """Whether the cheaper of the two changes between the ends."""
        return min(self.low, self.high) < 1.0 < max(self.low, self.high)


def sensitivities(ours: Sum, theirs: Sum) -> list[Swing]:
    """Rank the prices by how much they move our sum over theirs, the strongest first."""
    swings = []
    for name in {**ours.prices, **theirs.prices}:
        low, high = (a / b for a, b in zip(ours.ends(name), theirs.ends(name), strict=True))
        swings.append(Swing(name, low, high))
    return sorted(swings, key=lambda swing: (-swing.size, swing.kind))


def break_even_factor(ours: Sum, theirs: Sum, name: str) -> float | None:
    """Return the factor on a price at which both sums are equal; `None` if there is none."""
    more = difference(ours, theirs, name)
    free = theirs.moved(name, 0.0) - ours.moved(name, 0.0)
    return free / more if more and free / more > 0.0 else None


def difference(ours: Sum, theirs: Sum, name: str) -> float:
    """Return how much more we pay with a price."""
    return ours.share(name) - theirs.share(name)


def break_even_steps(ours: Bill, theirs: Bill) -> float | None:
    """Return the factor on our relaxation steps at which both cost the same energy, or `None`."""
    relaxing = sum(energy for key, energy in ours.energy_parts().items() if key[0] in RELAXING)
    if relaxing <= 0.0:
        raise TechnologyError("break-even needs a run that relaxed.")
    room = theirs.energy_j - (ours.energy_j - relaxing)
    return room / relaxing if room > 0.0 else None


def break_even_map(
    ours: Bill, theirs: Bill, name: str, steps: FloatArray, factors: FloatArray
) -> FloatArray:
    """Return our energy over theirs for factors on the steps (rows) and on a price."""
    moving, rest = (
        replace(
            ours, counts=Amounts({k: n for k, n in ours.counts if (k[0] in RELAXING) == moves})
        ).energy_sum()
        for moves in (True, False)
    )
    rival, grid = theirs.energy_sum(), np.empty((len(steps), len(factors)))
    for column, factor in enumerate(factors):
        sums = [part.moved(name, factor) for part in (moving, rest, rival)]
        grid[:, column] = (steps * sums[0] + sums[1]) / sums[2]
    return grid
