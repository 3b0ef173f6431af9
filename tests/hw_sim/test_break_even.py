"""Two bills: break-even points are where costs are equal, and both see the same prices."""

import numpy as np
import pytest

from engine.network import looped_mlp
from hw_sim.break_even import (
    break_even_map,
    break_even_price,
    break_even_steps,
    difference,
    ratio_range,
    sensitivities,
)
from hw_sim.cost import Bill, Design
from hw_sim.counts import OpCounts, WordCount
from hw_sim.technology import TechnologyError, shipped_technologies

DESIGN = Design(looped_mlp(4, 6, 3), 8, 8, WordCount(50, 100, 300))
TECHNOLOGY = shipped_technologies()["digital_45nm"]


def _bill(**events: int) -> Bill:
    counts = OpCounts()
    for kind, n in events.items():
        phase = "update" if kind == "weight_write" else "free"
        counts.add(phase, "hidden", kind, n)
    return Bill(TECHNOLOGY, DESIGN, counts)


OURS, THEIRS = _bill(mac=4000, weight_write=100), _bill(mac=1000, weight_write=700)
TERMS = OURS.energy_terms(), THEIRS.energy_terms()


def test_break_even_is_where_both_cost_the_same() -> None:
    factor = break_even_steps(OURS, THEIRS)
    assert factor is not None
    ratio = break_even_map(OURS, THEIRS, "mac", np.array([factor]), np.array([0.3e-12]))
    assert ratio[0, 0] == pytest.approx(1.0)
    price = break_even_price(*TERMS, "mac")
    assert price is not None
    prices = np.array([price / 2, price, 2 * price])
    low, even, high = break_even_map(OURS, THEIRS, "mac", np.array([1.0]), prices)[0]
    assert even == pytest.approx(1.0)
    assert low < 1.0 < high  # we do more of it, so a lower price is better for us
    assert difference(*TERMS, "mac") == 3000
    assert difference(*TERMS, "weight_write") == -600


def test_where_there_is_no_break_even_none_is_given() -> None:
    worse = _bill(mac=4000, weight_write=900)
    assert break_even_price(worse.energy_terms(), TERMS[1], "mac") is None
    assert break_even_price(TERMS[0], TERMS[0], "mac") is None
    assert break_even_steps(worse, THEIRS) is None
    with pytest.raises(TechnologyError, match="needs a run that relaxed"):
        break_even_steps(_bill(weight_write=3), THEIRS)


def test_the_price_that_moves_the_ratio_most_is_first() -> None:
    swings = sensitivities(*TERMS)
    assert swings[0].size >= swings[-1].size > 1.0
    ratio = ratio_range(*TERMS)
    assert min(s.low for s in swings) <= ratio.nominal <= max(s.high for s in swings)
    assert sensitivities(TERMS[0], TERMS[0])[0].size == pytest.approx(1.0)
    # 0.3 to 3.3 pJ a product against 2.5 pJ a write: either may be dearer.
    assert swings[0].kind == "mac"
    assert swings[0].decides


def test_the_same_prices_are_drawn_for_both_sides() -> None:
    ratio = ratio_range(TERMS[0], TERMS[0])
    assert ratio.low == pytest.approx(1.0)
    assert ratio.high == pytest.approx(1.0)
    half = ratio_range(TERMS[0], {kind: (2 * n, p) for kind, (n, p) in TERMS[0].items()})
    assert (half.low, half.high) == pytest.approx((0.5, 0.5))


def test_break_even_of_time_is_where_both_take_as_long() -> None:
    ours = _bill(mac=3600, activation=60).latency_terms()
    theirs = _bill(mac=600, activation=6000).latency_terms()
    # 600 e + 10 a = 100 e + 1000 a with a = 10 ns.
    assert break_even_price(ours, theirs, "mac") == pytest.approx(990 * 10e-9 / 500)
