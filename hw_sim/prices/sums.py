"""Sums of products of prices: what they come to, within which range, and what moves them.

A sum is a straight line in each of its prices: energy is paid by the event, and power by the time
that the events take, so that its terms are products of a power and a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from engine.arrays import FloatArray
from hw_sim.prices.price import Price

DRAWS = 2000
"""Of the prices within their ranges."""
LOW, HIGH = 5, 95
"""Percentiles of the draws that a range reports."""

Terms: TypeAlias = Mapping[tuple[str, ...], float]
"""How often each product of prices is paid, by their names; each at most once in a product."""


@dataclass(frozen=True)
class Range:
    """A nominal value, and the 5th and 95th percentile of its draws, at least as wide as to it."""

    nominal: float
    low: float
    high: float


@dataclass(frozen=True)
class Sum:
    """`sum_t n_t prod_(p in t) price_p`."""

    terms: Terms = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def of(cls, paid: Mapping[str, tuple[float, Price]]) -> "Sum":
        """Return a sum of prices, each paid so often."""
        terms: dict[tuple[str, ...], float] = {(name,): n for name, (n, _) in paid.items()}
        return cls(terms, {name: price for name, (_, price) in paid.items()})

    def __add__(self, other: "Sum") -> "Sum":
        terms = dict(self.terms)
        for names, n in other.terms.items():
            terms[names] = terms.get(names, 0.0) + n
        return Sum(terms, {**self.prices, **other.prices})

    def __mul__(self, other: "Sum") -> "Sum":
        """Return the product of two sums that share no price."""
        terms = {a + b: m * n for a, m in self.terms.items() for b, n in other.terms.items()}
        return Sum(terms, {**self.prices, **other.prices} if terms else {})

    @property
    def nominal(self) -> float:
        """The sum at nominal prices."""
        return sum(self._split("")) if self.terms else 0.0

    def moved(self, name: str, factor: float) -> float:
        """Return the sum at nominal prices, but for one that is so many times as high."""
        rest, share = self._split(name)
        return rest + factor * share

    def share(self, name: str) -> float:
        """Return the part that is paid with a price, and grows with it."""
        return self._split(name)[1]

    def ends(self, name: str) -> tuple[float, float]:
        """Return the sum at the low and at the high end of one price."""
        price = self.prices.get(name)
        if price is None or price.value == 0.0:
            return self.nominal, self.nominal
        low, high = (self.moved(name, end / price.value) for end in (price.low, price.high))
        return low, high

    def drawn(self, places: Mapping[str, FloatArray]) -> FloatArray:
        """Return the sum for draws of its prices, each so far into its range."""
        drawn = {name: quantile(price, places[name]) for name, price in self.prices.items()}
        total = np.zeros(DRAWS)
        for names, n in self.terms.items():
            total += n * np.prod([drawn[name] for name in names], axis=0)
        return total

    def spread(self) -> Range:
        """Propagate the ranges of the prices by Monte Carlo."""
        return range_of(self.nominal, self.drawn(draw_places(self)))

    def _split(self, name: str) -> tuple[float, float]:
        """Return what is paid without a price, and what with it."""
        parts = [0.0, 0.0]
        for names, n in self.terms.items():
            parts[name in names] += n * prod(self.prices[k].value for k in names)
        return parts[0], parts[1]


def draw_places(*sums: Sum, seed: int = 0) -> dict[str, FloatArray]:
    """Draw for each price how far into its range it lies, `(draws,)` from 0 to 1.

    The same for all sums: a price of one name moves together in all of them.
    """
    rng = np.random.default_rng(seed)
    return {name: rng.random(DRAWS) for name in sorted({n for s in sums for n in s.prices})}


def quantile(price: Price, share: FloatArray) -> FloatArray:
    """Return the price below which a share lies: half of it below the value, half above.

    On each side triangular in the logarithm, from the value to its end. So the value is the median
    of its draws, however much further a range reaches up than down.
    """
    if price.value == 0.0 or price.low == price.high:
        return np.full(share.shape, price.value)
    low, middle, high = np.log([price.low, price.value, price.high])
    below = low + (middle - low) * np.sqrt(np.minimum(1.0, 2.0 * share))
    above = high - (high - middle) * np.sqrt(np.minimum(1.0, 2.0 * (1.0 - share)))
    found: FloatArray = np.exp(np.where(share < 0.5, below, above))
    return found


def ratio_range(ours: Sum, theirs: Sum) -> Range:
    """Return our sum over theirs; both are priced with the same draw of the prices."""
    places = draw_places(ours, theirs)
    return range_of(ours.nominal / theirs.nominal, ours.drawn(places) / theirs.drawn(places))


def range_of(value: float, draws: FloatArray) -> Range:
    """Return a value with the percentiles of its draws, or with itself where it is beyond them.

    The sum of many prices that can hardly be lower, but much higher, lies above its nominal value
    in nearly every draw.
    """
    low, high = np.percentile(draws, [LOW, HIGH])
    return Range(float(value), min(float(value), float(low)), max(float(value), float(high)))
