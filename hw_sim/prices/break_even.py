"""Two bills side by side: their ratio, the prices that decide it, and where the balance tips.

Energies and times are linear in each price, and energies in the number of relaxation steps, so that
break-even points are exact.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.arrays import FloatArray
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import HIGH, LOW, Bill, Range, Terms, draw_prices, nominal
from hw_sim.prices.checks import TechnologyError

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


def ratio_range(ours: Terms, theirs: Terms) -> Range:
    """Return our sum over theirs; both are priced with the same draw of the prices."""
    drawn = draw_prices(ours | theirs)
    totals = [
        np.sum([n * drawn[kind] for kind, (n, _) in terms.items()], axis=0)
        for terms in (ours, theirs)
    ]
    low, high = np.percentile(totals[0] / totals[1], [LOW, HIGH])
    return Range(nominal(ours) / nominal(theirs), float(low), float(high))


def sensitivities(ours: Terms, theirs: Terms) -> list[Swing]:
    """Rank the prices by how much they move our sum over theirs, the strongest first."""
    swings = []
    for kind, (_, price) in (ours | theirs).items():
        ends = [nominal(ours, kind, v) / nominal(theirs, kind, v) for v in (price.low, price.high)]
        swings.append(Swing(kind, *ends))
    return sorted(swings, key=lambda swing: (-swing.size, swing.kind))


def break_even_price(ours: Terms, theirs: Terms, kind: str) -> float | None:
    """Return the price of `kind` at which both sums are equal; `None` if there is none."""
    more = difference(ours, theirs, kind)
    free = nominal(theirs, kind, 0.0) - nominal(ours, kind, 0.0)
    return free / more if more and free / more > 0.0 else None


def difference(ours: Terms, theirs: Terms, kind: str) -> float:
    """Return how many more times we pay the price of `kind`."""
    return sum(sign * terms[kind][0] for sign, terms in ((1, ours), (-1, theirs)) if kind in terms)


def break_even_steps(ours: Bill, theirs: Bill) -> float | None:
    """Return the factor on our relaxation steps at which both cost the same energy, or `None`."""
    relaxing = sum(energy for key, energy in ours.energy_parts().items() if key[0] in RELAXING)
    if relaxing <= 0.0:
        raise TechnologyError("break-even needs a run that relaxed.")
    room = theirs.energy_j - (ours.energy_j - relaxing)
    return room / relaxing if room > 0.0 else None


def break_even_map(
    ours: Bill, theirs: Bill, kind: str, factors: FloatArray, prices: FloatArray
) -> FloatArray:
    """Return our energy over theirs for factors on the steps (rows) and prices of `kind`."""
    relaxing = OpCounts()
    relaxing.events.update({key: n for key, n in ours.counts if key[0] in RELAXING})
    moving = replace(ours, counts=relaxing).energy_terms()
    rest = replace(ours, counts=ours.counts - relaxing).energy_terms()
    grid = np.empty((len(factors), len(prices)))
    for column, price in enumerate(prices):
        steps, other = nominal(moving, kind, price), nominal(rest, kind, price)
        grid[:, column] = (factors * steps + other) / nominal(theirs.energy_terms(), kind, price)
    return grid
