"""How sure a mean over seeds and a ratio of two is: by the prices, by the seeds, and by both.

Prices lie within their ranges, and seeds are drawn again out of those that ran (bootstrap), in the
same draws: what is paid for a seed is priced with the prices of its draw. Of `n` seeds `n - 1` are
drawn, with replacement, so that the variance of their mean is `s^2 / n` with the unbiased `s^2`; a
seed carries both learners, which share its split and its order of batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.arrays import FloatArray
from hw_sim.prices.sums import DRAWS, Range, Sum, draw_places, range_of

ONE = Sum({(): 1.0})
"""What each seed counts for in a mean."""


@dataclass(frozen=True)
class RatioSpread:
    """The range of a value over prices and seeds together, and over each while the other stays."""

    both: Range
    prices: Range
    seeds: Range
    """Without width where there is one seed only: it says nothing of others."""

    def verdict(self, less: str, more: str) -> str:
        """Say whether a ratio is below or above one over the whole range, or undecided."""
        if self.both.high < 1.0:
            return less
        return more if self.both.low > 1.0 else "undecided"


def mean_spread(costs: Sequence[Sum]) -> RatioSpread:
    """Return the mean over seeds."""
    return ratio_spread([(cost, ONE) for cost in costs])


def ratio_spread(pairs: Sequence[tuple[Sum, Sum]]) -> RatioSpread:
    """Return what all seeds took over what all took of another, seed by seed in pairs."""
    places = draw_places(*(cost for pair in pairs for cost in pair))
    drawn = np.array([[cost.drawn(places) for cost in pair] for pair in pairs])
    nominal = np.array([[[cost.nominal] for cost in pair] for pair in pairs])
    seeds, all_once = drawn_again(len(pairs)), np.ones((len(pairs), 1))
    value = float(_ratio(nominal, all_once)[0])
    return RatioSpread(
        range_of(value, _ratio(drawn, seeds)),
        range_of(value, _ratio(drawn, all_once)),
        range_of(value, _ratio(nominal, seeds)),
    )


def drawn_again(seeds: int) -> FloatArray:
    """Return how often each seed is in each draw, `(seeds, draws)`."""
    if seeds == 1:
        return np.ones((1, DRAWS))
    rng = np.random.default_rng(1)  # not the stream of the prices
    return rng.multinomial(seeds - 1, [1 / seeds] * seeds, DRAWS).T.astype(np.float64)


def _ratio(costs: FloatArray, times: FloatArray) -> FloatArray:
    """Return the ratio of the sums over seeds of `costs (seeds, 2, draws)`, each so many times."""
    ours, theirs = (costs * times[:, None, :]).sum(axis=0)
    ratio: FloatArray = ours / theirs
    return ratio
