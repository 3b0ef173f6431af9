"""The bracket of a ratio holds the spread of the prices and that of the seeds."""

import numpy as np
import pytest

from experiments.hardware.report_tables import range_text, ratio_text
from experiments.hardware.spread import drawn_again, mean_spread, ratio_spread
from hw_sim.prices.price import Price
from hw_sim.prices.sums import DRAWS, Range, Sum, ratio_range


def cost(macs: float, reads: float = 0.0, sure: bool = False) -> Sum:
    """Return what so many events cost, at prices that are sure or not."""
    ends = (1.0, 1.0) if sure else (0.5, 4.0)
    price = Price("mac", 1.0, *ends, "pJ", "", "by hand", "ran")
    other = Price("read", 2.0, 2.0, 2.0, "pJ", "", "by hand", "ran")
    return Sum.of({"mac": (macs, price), "read": (reads, other)})


def width(found: Range) -> float:
    return found.high - found.low


OURS = [cost(30, 5), cost(18, 4), cost(24, 9), cost(40, 6), cost(21, 5)]
THEIRS = [cost(10, 9), cost(12, 8), cost(7, 9), cost(11, 12), cost(14, 8)]
PAIRS = list(zip(OURS, THEIRS, strict=True))


def test_the_nominal_ratio_is_that_of_all_seeds_together() -> None:
    spread = ratio_spread(PAIRS)
    total = [sum((c for c in side[1:]), side[0]) for side in (OURS, THEIRS)]
    assert spread.both.nominal == pytest.approx(total[0].nominal / total[1].nominal)
    alone = ratio_range(*total)
    assert (spread.prices.low, spread.prices.high) == pytest.approx((alone.low, alone.high))


def test_the_bracket_of_both_is_wider_than_that_of_each() -> None:
    spread = ratio_spread(PAIRS)
    apart = width(spread.prices), width(spread.seeds)
    assert max(apart) < width(spread.both) < sum(apart)


def test_what_a_seed_does_to_both_learners_is_no_spread_of_their_ratio() -> None:
    pairs = [(cost(2 * n), cost(n)) for n in (10, 40, 25, 90)]
    spread = ratio_spread(pairs)
    assert spread.seeds == Range(2.0, 2.0, 2.0)
    ours, theirs = zip(*pairs, strict=True)
    assert width(ratio_spread(list(zip(ours, theirs[::-1], strict=True))).seeds) > 0.5


def test_one_seed_says_nothing_of_others() -> None:
    spread = ratio_spread(PAIRS[:1])
    assert width(spread.seeds) == 0.0
    assert spread.both == spread.prices


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_mean_of_drawn_seeds_has_the_variance_of_a_mean(seeds: int) -> None:
    """`s^2 / n` with the unbiased variance; `n` draws of `n` seeds would give less."""
    values, times = np.random.default_rng(3).random(seeds), drawn_again(seeds)
    means = (values[:, None] * times).sum(axis=0) / times.sum(axis=0)
    assert means.var() == pytest.approx(values.var(ddof=1) / seeds, rel=0.1)
    assert times.shape == (seeds, DRAWS)


def test_the_bracket_of_a_mean_holds_the_truth_as_often_as_it_says() -> None:
    """Nine times in ten for many seeds; a little less for eight, as without Student's factor."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        found = mean_spread([cost(n, sure=True) for n in rng.normal(100.0, 20.0, 8)]).both
        held += found.low <= 100.0 <= found.high
    assert 0.78 < held / 200 < 0.95


def test_a_verdict_needs_the_whole_bracket() -> None:
    assert ratio_spread([(cost(3), cost(1)), (cost(2), cost(1))]).verdict("less", "more") == "more"
    assert ratio_spread([(cost(1), cost(3)), (cost(1), cost(2))]).verdict("less", "more") == "less"
    split = [(cost(3), cost(2)), (cost(1), cost(2)), (cost(3), cost(2))]
    assert width(ratio_spread(split).prices) == pytest.approx(0.0)
    assert ratio_spread(split).verdict("less", "more") == "undecided"


@pytest.mark.parametrize("seeds", [1, 2, 3, 8])
def test_each_range_holds_its_value_whatever_the_seeds(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    for _ in range(20):
        counts = rng.lognormal(3.0, 1.5, (seeds, 2, 2))
        pairs = [(cost(*ours), cost(*theirs)) for ours, theirs in counts]
        found, mean = ratio_spread(pairs), mean_spread([ours for ours, _ in pairs])
        for part in (found.both, found.prices, found.seeds, mean.both):
            assert part.low <= part.nominal <= part.high


@pytest.mark.parametrize("digits", [2.9649, 0.99951, 99.95, 999.7, 1.0004])
def test_a_printed_range_holds_the_printed_value(digits: float) -> None:
    """Ends of fewer digits than the value would leave 2.96 outside of 3 to 3."""
    narrow = Range(digits, 0.99999 * digits, 1.00001 * digits)
    value, ends = ratio_text(narrow).split("\n")
    low, high = map(float, ends.strip("()").split(" to "))
    assert low <= float(value) <= high
    sizes = {"J": 1.0, "mJ": 1e-3, "µJ": 1e-6}
    value, ends = range_text(narrow, "J").split("\n")
    texts = (value, *ends.strip("()").split(" to "))
    nominal, low, high = (float(a) * sizes[b] for a, b in (text.split() for text in texts))
    assert low <= nominal <= high
