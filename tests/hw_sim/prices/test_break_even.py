"""Two bills: break-even points are where costs are equal, and both see the same prices."""

from dataclasses import replace

import numpy as np
import pytest

from engine.model.builders import looped_mlp
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.break_even import (
    Swing,
    break_even_factor,
    break_even_map,
    break_even_steps,
    difference,
    sensitivities,
)
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.machine import Machine
from hw_sim.prices.price import Price
from hw_sim.prices.sums import ratio_range
from tests.hw_sim.prices.hand_prices import plain_technology

DESIGN = Design(looped_mlp(4, 6, 3), 8, 8, WordCount(50, 100, 300))
TECHNOLOGY = plain_technology()


def _bill(**events: int) -> Bill:
    counts = OpCounts()
    for kind, n in events.items():
        phase = "update" if kind == "weight_write" else "free"
        counts.add(phase, "hidden", kind, n)
    return Bill(TECHNOLOGY, DESIGN, counts)


OURS, THEIRS = _bill(mac=4000, weight_write=100), _bill(mac=1000, weight_write=700)
TERMS = OURS.energy_sum(), THEIRS.energy_sum()


def test_break_even_is_where_both_cost_the_same() -> None:
    factor = break_even_steps(OURS, THEIRS)
    assert factor is not None
    ratio = break_even_map(OURS, THEIRS, "mac", np.array([factor]), np.array([1.0]))
    assert ratio[0, 0] == pytest.approx(1.0)
    price = break_even_factor(*TERMS, "mac")
    assert price is not None
    factors = np.array([price / 2, price, 2 * price])
    low, even, high = break_even_map(OURS, THEIRS, "mac", np.array([1.0]), factors)[0]
    assert even == pytest.approx(1.0)
    assert low < 1.0 < high  # we do more of it, so a lower price is better for us
    assert difference(*TERMS, "mac") == pytest.approx(3000 * 0.3e-12)
    assert difference(*TERMS, "weight_write") == pytest.approx(-600 * 2.5e-12)


def test_where_there_is_no_break_even_none_is_given() -> None:
    worse = _bill(mac=4000, weight_write=900)
    assert break_even_factor(worse.energy_sum(), TERMS[1], "mac") is None
    assert break_even_factor(TERMS[0], TERMS[0], "mac") is None
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
    half = ratio_range(TERMS[0], TERMS[0] + TERMS[0])
    assert (half.low, half.high) == pytest.approx((0.5, 0.5))


def test_break_even_of_time_is_where_both_take_as_long() -> None:
    ours = _bill(mac=3600, activation=60).latency_sum()
    theirs = _bill(mac=600, activation=6000).latency_sum()
    # 600 e + 60 a = 100 e + 6000 a with a = 10 ns: six units multiply, one table is looked up.
    assert break_even_factor(ours, theirs, "mac time") == pytest.approx(5940 / 500)


def test_sensitivities_and_ratios_by_hand() -> None:
    """Each price alone goes from its low to its high end; the rest stays at its value."""
    swings = {swing.kind: swing for swing in sensitivities(*TERMS)}
    prices = TERMS[0].prices
    assert set(swings) == {"mac", "weight_write"}
    for kind, swing in swings.items():
        ends = []
        for end in (prices[kind].low, prices[kind].high):
            at = {name: price.value for name, price in prices.items()} | {kind: end}
            ours = 4000 * at["mac"] + 100 * at["weight_write"]
            theirs = 1000 * at["mac"] + 700 * at["weight_write"]
            ends.append(ours / theirs)
        assert (swing.low, swing.high) == pytest.approx(ends)
        assert swing.size == pytest.approx(max(ends) / min(ends))
        assert swing.decides == (min(ends) < 1.0 < max(ends))
    ratio = ratio_range(*TERMS)
    mac, write = prices["mac"].value, prices["weight_write"].value
    by_hand = (4000 * mac + 100 * write) / (1000 * mac + 700 * write)
    assert ratio.nominal == pytest.approx(by_hand)
    assert ratio.low < ratio.nominal < ratio.high
    turned = ratio_range(TERMS[1], TERMS[0])
    assert turned.nominal == pytest.approx(1 / ratio.nominal)
    # The same draws: the least of one is the most of the other, but for interpolation.
    assert turned.low == pytest.approx(1 / ratio.high, rel=0.01)
    assert turned.high == pytest.approx(1 / ratio.low, rel=0.01)


def test_swings_that_end_at_one_decide_nothing() -> None:
    assert not Swing("mac", 1.0, 2.0).decides
    assert not Swing("mac", 0.5, 1.0).decides
    assert Swing("mac", 2.0, 0.5).decides
    assert Swing("mac", 2.0, 0.5).size == Swing("mac", 0.5, 2.0).size == 4.0


def test_prices_that_matter_alike_are_in_order_of_their_names() -> None:
    same = _bill(mac=10, activation=10, weight_write=10).energy_sum()
    assert [s.kind for s in sensitivities(same, same)] == ["activation", "mac", "weight_write"]


def test_the_map_is_the_ratio_of_bills_with_those_steps_and_that_price() -> None:
    """Every entry is a bill of its own: only phases that relax grow, and one price is another."""
    factors, prices = np.array([1.0, 2.0, 5.0]), np.array([0.1e-12, 7e-12])
    moved = prices / 0.3e-12
    counts = OpCounts()
    for phase, n in (("input", 30), ("free", 400), ("nudged", 50), ("learn", 60), ("update", 7)):
        counts.add(phase, "hidden", "mac", n)
        counts.add(phase, "hidden", "weight_read", 2 * n)
    ours = Bill(TECHNOLOGY, replace(DESIGN, weight_bits=16), counts)
    grid = break_even_map(ours, THEIRS, "mac", factors, moved)
    assert grid.shape == (3, 2)
    read = write = 2.5e-12
    for row, factor in enumerate(factors):
        for column, mac in enumerate(prices):
            times = 30 + factor * (400 + 50) + 60 + 7
            # Weights of twice the reference width double our prices; a factor moves both sides.
            expected = (times * 2 * mac + 2 * times * 2 * read) / (1000 * mac + 700 * write)
            assert grid[row, column] == pytest.approx(expected)
    factor = break_even_steps(ours, THEIRS)
    assert factor is not None
    assert even_energy(ours, factor) == pytest.approx(THEIRS.energy_j)


def even_energy(bill: Bill, factor: float) -> float:
    """Energy of a run with so many times its relaxation steps."""
    parts = bill.energy_parts().items()
    return sum(v * (factor if key[0] in ("free", "nudged") else 1.0) for key, v in parts)


def test_a_price_that_only_one_side_pays_has_its_own_break_even() -> None:
    ours, theirs = _bill(mac=10).energy_sum(), _bill(weight_write=8).energy_sum()
    mac, write = 0.3e-12, 2.5e-12
    assert difference(ours, theirs, "mac") == pytest.approx(10 * mac)
    assert difference(ours, theirs, "weight_write") == pytest.approx(-8 * write)
    assert difference(ours, theirs, "hop") == 0
    assert break_even_factor(ours, theirs, "mac") == pytest.approx(8 * write / (10 * mac))
    assert break_even_factor(theirs, ours, "mac") == pytest.approx(8 * write / (10 * mac))
    swings = sensitivities(ours, theirs)
    assert {swing.kind for swing in swings} == {"mac", "weight_write"}
    assert {swing.kind for swing in sensitivities(theirs, ours)} == {"mac", "weight_write"}


def test_without_room_for_a_step_there_is_no_break_even() -> None:
    """What they pay is just what we pay without relaxing; one more event of theirs is room."""
    whole = replace(
        TECHNOLOGY,
        machine=Machine(),
        prices={**TECHNOLOGY.prices, "energy": {k: _whole(k) for k in ("mac", "weight_write")}},
    )
    ours = replace(_bill(mac=4, weight_write=8), technology=whole)
    for writes, factor in ((7, None), (8, None), (9, 1.0), (10, 2.0)):
        theirs = replace(_bill(weight_write=writes), technology=whole)
        assert break_even_steps(ours, theirs) == factor


def _whole(kind: str) -> Price:
    """A price in whole joules, so that sums are exact."""
    value = {"mac": 1.0, "weight_write": 4.0}[kind]
    return Price(kind, value, value, value, "", "", "", "")
