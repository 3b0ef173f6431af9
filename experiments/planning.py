"""How many seeds would decide: the power of the paired tests of `experiments.statistics`.

It is computed under one assumption: that mean and deviation of the differences between seeds are
those that were measured. Few seeds measure them badly, so the numbers are estimates themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from experiments.statistics import SIGNIFICANCE, PairedComparison

POWER = 0.8
"""With which probability a test is to come out."""
MOST_SEEDS = 10_000
"""Beyond which nobody will go."""
SLICES = 400
"""Into which the distribution of the sample deviation is cut."""


@dataclass(frozen=True)
class SeedPlan:
    """Seeds in all that show equivalence, or a difference; `None` where no number of them does."""

    equivalence: int | None
    difference: int | None

    @property
    def fewest(self) -> int | None:
        """Seeds in all after which one of the two is likely to be shown."""
        found = [count for count in (self.equivalence, self.difference) if count is not None]
        return min(found, default=None)


def plan_seeds(case: PairedComparison, significance: float = SIGNIFICANCE) -> SeedPlan | None:
    """Return how many seeds decide with a probability of 80 %; one seed has no spread to plan by.

    `significance` is that of each test after every correction.
    """
    gap, spread, margin = abs(case.difference), case.spread, case.margin
    if case.seeds < 2:
        return None
    return SeedPlan(
        equivalence=_fewest(lambda n: power_of_equivalence(n, gap, spread, margin, significance)),
        difference=_fewest(lambda n: power_of_difference(n, gap, spread, significance)),
    )


def power_of_difference(seeds: int, gap: float, spread: float, significance: float) -> float:
    """Return how probably a two-sided paired t-test shows a gap of that size."""
    free, shift = seeds - 1, gap / spread * np.sqrt(seeds)
    edge = stats.t.ppf(1 - significance / 2, free)
    return float(stats.nct.sf(edge, free, shift) + stats.nct.cdf(-edge, free, shift))


def power_of_equivalence(
    seeds: int, gap: float, spread: float, margin: float, significance: float
) -> float:
    """Return how probably two one-sided paired t-tests show that a gap lies within the margin.

    Both have to come out, and share the sample deviation: given that, the mean has to lie within
    the margin by so much; the probability is averaged over the deviation, slice by slice.
    """
    free, error = seeds - 1, spread / np.sqrt(seeds)
    middles = (np.arange(SLICES) + 0.5) / SLICES
    measured = error * np.sqrt(stats.chi2.ppf(middles, free) / free)
    room = margin - stats.t.ppf(1 - significance, free) * measured
    inside = stats.norm.cdf((room - gap) / error) - stats.norm.cdf((-room - gap) / error)
    return float(np.where(room > 0.0, inside, 0.0).mean())


def _fewest(power: Callable[[int], float]) -> int | None:
    """Return the smallest number of seeds with that power, which grows with it."""
    many = 2
    while power(many) < POWER:
        many *= 2
        if many > MOST_SEEDS:
            return None
    few = many // 2
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if power(middle) >= POWER else (middle, many)
    return many
