"""What training takes in a technology: EqProp against a rival, and EqProp alone."""

from dataclasses import dataclass
from functools import cached_property

from experiments.hardware.spread import RatioSpread, mean_spread, ratio_spread
from experiments.reporting.number_text import in_units
from hw_sim.prices.bill import Bill
from hw_sim.prices.break_even import (
    Swing,
    break_even_factor,
    break_even_steps,
    difference,
    sensitivities,
)
from hw_sim.prices.sums import Range, Sum
from hw_sim.prices.technology import Technology

SHOWN_PRICES = 3
"""Prices whose break-even point is stated, beside that of a weight write."""
FAR = 1000.0
"""Break-even prices further than this factor from the price are not worth stating."""


@dataclass(frozen=True)
class Contest:
    """A substrate in a technology against one rival, both trained to the target.

    Bills are of all seeds together.
    """

    substrate: str
    technology: Technology
    rival: str
    ours: Bill
    theirs: Bill
    pairs: tuple[tuple[Bill, Bill], ...]
    """Of each seed alone, ours and theirs."""
    ours_once: Bill
    """All inferences of the test parts."""
    theirs_once: Bill
    inferences: int
    steps: float
    """Mean steps of a sample over all its phases, until the target."""

    @property
    def seeds(self) -> int:
        """How many trainings the bills are of."""
        return len(self.pairs)

    @cached_property
    def ratio(self) -> RatioSpread:
        """Our energy of training over theirs."""
        return ratio_spread([(a.energy_sum(), b.energy_sum()) for a, b in self.pairs])

    @cached_property
    def time_ratio(self) -> RatioSpread | None:
        """Our time of training over theirs, where times have prices."""
        sums = [(a.latency_sum(), b.latency_sum()) for a, b in self.pairs]
        timed = all(found.terms for pair in sums for found in pair)
        return ratio_spread(sums) if timed else None

    @cached_property
    def swings(self) -> list[Swing]:
        """The prices that decide, the strongest first."""
        return sensitivities(self.ours.energy_sum(), self.theirs.energy_sum())

    @property
    def verdict(self) -> str:
        """Which is cheaper, over the whole range of prices and seeds."""
        return self.ratio.verdict("cheaper", "dearer")

    @property
    def time_verdict(self) -> str:
        """Which is faster, over the whole range of times and seeds."""
        return self.time_ratio.verdict("faster", "slower") if self.time_ratio else "undecided"

    @cached_property
    def training_energy(self) -> Range:
        """Joules of one training."""
        return mean_spread([ours.energy_sum() for ours, _ in self.pairs]).both

    @cached_property
    def training_time(self) -> Range:
        """Seconds of one training."""
        return mean_spread([ours.latency_sum() for ours, _ in self.pairs]).both

    def inference_energy(self) -> Range:
        """Return joules of one inference."""
        return scaled(self.ours_once.energy(), 1.0 / self.inferences)

    def break_even(self) -> list[str]:
        """Say in sentences where the balance of energy tips."""
        factor = break_even_steps(self.ours, self.theirs)
        sentences = ["no number of steps is small enough"]
        if factor is not None:
            sentences = [f"fewer than {factor * self.steps:.3g} steps (took {self.steps:.3g})"]
        ours, theirs = self.ours.energy_sum(), self.theirs.energy_sum()
        shown = [swing.kind for swing in self.swings[:SHOWN_PRICES]]
        for kind in dict.fromkeys([*shown, "weight_write"]):
            sentences += _tipping_point(ours, theirs, kind)
        return sentences

    def break_even_times(self) -> list[str]:
        """Say in sentences where the balance of time tips."""
        ours, theirs = self.ours.latency_sum(), self.theirs.latency_sum()
        sentences = []
        for kind in {**ours.prices, **theirs.prices}:
            sentences += _tipping_point(ours, theirs, kind)
        return sentences or ["no single time decides"]


def _tipping_point(ours: Sum, theirs: Sum, kind: str) -> list[str]:
    """Say at which price the balance tips, unless that is far from the price there is."""
    price, factor = {**theirs.prices, **ours.prices}.get(kind), None
    if price is not None:
        factor = break_even_factor(ours, theirs, kind)
    if price is None or factor is None or not 1 / FAR <= factor <= FAR:
        return []
    side = "under" if difference(ours, theirs, kind) > 0 else "over"
    unit = price.unit[-1]  # of pJ, ns and mW: J, s and W
    now, even = (in_units(value, unit) for value in (price.value, factor * price.value))
    return [f"{kind} {side} {even} (is {now})"]


@dataclass(frozen=True)
class Cost:
    """What EqProp alone takes on a substrate in a technology, where no rival is counted.

    Bills are of all seeds together: of training to the target, and of all test inferences.
    """

    substrate: str
    technology: Technology
    trained: Bill
    once: Bill
    by_seed: tuple[Bill, ...]
    """Of each training alone."""
    inferences: int
    steps: float
    """Mean steps of a sample over all its phases, until the target."""

    @property
    def seeds(self) -> int:
        """How many trainings the bill is of."""
        return len(self.by_seed)

    @cached_property
    def training_energy(self) -> Range:
        """Joules of one training."""
        return mean_spread([bill.energy_sum() for bill in self.by_seed]).both

    @cached_property
    def training_time(self) -> Range:
        """Seconds of one training."""
        return mean_spread([bill.latency_sum() for bill in self.by_seed]).both


def inverse(value: Range) -> Range:
    """Return the range of one over a value, which is not zero."""
    return Range(1.0 / value.nominal, 1.0 / value.high, 1.0 / value.low)


def timed(value: Range) -> Range | None:
    """Return a time, or `None` where a technology states no times."""
    return value if value.high > 0.0 else None


def scaled(value: Range, factor: float) -> Range:
    """Return a range in other units."""
    return Range(factor * value.nominal, factor * value.low, factor * value.high)
