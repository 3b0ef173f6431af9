"""Bills: parts sum to the whole, ranges contain it, break-even points are where costs are equal."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.network import looped_mlp
from hw_sim.cost import (
    Bill,
    Design,
    break_even_map,
    break_even_price,
    break_even_steps,
    break_even_time,
    energy_range,
    on_crossbar,
    ratio_range,
    sensitivities,
)
from hw_sim.counts import OpCounts
from hw_sim.technology import TechnologyError, shipped_technologies

NETWORK = looped_mlp(4, 6, 3)
TECHNOLOGIES = shipped_technologies()
KINDS = ("mac", "activation", "state_read", "weight_read", "weight_write", "trace_write")
COUNTS = st.dictionaries(
    st.tuples(
        st.sampled_from(["input", "free", "nudged", "learn", "update"]),
        st.sampled_from(["hidden", "readout"]),
        st.sampled_from(KINDS),
    ),
    st.integers(1, 10**9),
    min_size=1,
)


def _bill(events: dict[tuple[str, str, str], int], name: str = "digital_45nm") -> Bill:
    counts = OpCounts()
    for key, n in events.items():
        counts.add(*key, n)
    return Bill(TECHNOLOGIES[name], Design(NETWORK, 8, 8, 500), counts)


@given(COUNTS, st.sampled_from(sorted(TECHNOLOGIES)))
def test_parts_sum_to_the_total(events: dict[tuple[str, str, str], int], name: str) -> None:
    bill = _bill(events, name)
    for parts in (bill.energy_by_kind(), bill.energy_by_phase(), bill.energy_by_place()):
        assert sum(parts.values()) == pytest.approx(bill.energy_j)
    by_hand = sum(
        n * TECHNOLOGIES[name].price("energy", kind).value
        for (_, _, kind), n in events.items()
        if TECHNOLOGIES[name].price("energy", kind).scales == "none"
    )
    assert bill.energy_j >= by_hand * (1 - 1e-12)


@given(COUNTS)
def test_the_range_lies_within_the_extremes(events: dict[tuple[str, str, str], int]) -> None:
    bill = _bill(events)
    found, kinds = energy_range(bill), bill.energy_weights()
    assert found.low >= sum(n * p.low for n, p in kinds.values()) * (1 - 1e-9)
    assert found.high <= sum(n * p.high for n, p in kinds.values()) * (1 + 1e-9)
    assert found.low < found.high


def test_a_missing_price_is_an_error_that_names_the_event() -> None:
    bill = _bill({("free", "hidden", "conversion"): 3})
    with pytest.raises(TechnologyError, match="'digital_45nm' has no energy price for 'conver"):
        _ = bill.energy_j


def test_words_of_more_bits_cost_more() -> None:
    bill = _bill({("free", "hidden", "mac"): 10, ("free", "hidden", "state_read"): 10})
    wide = replace(bill, design=replace(bill.design, weight_bits=16))
    assert wide.energy_by_kind()["mac"] == pytest.approx(2 * bill.energy_by_kind()["mac"])
    assert wide.energy_by_kind()["state_read"] == bill.energy_by_kind()["state_read"]


OURS = _bill({("free", "hidden", "mac"): 4000, ("update", "hidden", "weight_write"): 100})
THEIRS = _bill({("free", "hidden", "mac"): 1000, ("update", "hidden", "weight_write"): 700})


def test_break_even_is_where_both_cost_the_same() -> None:
    factor = break_even_steps(OURS, THEIRS)
    assert factor is not None
    ratio = break_even_map(OURS, THEIRS, "mac", np.array([factor]), np.array([0.3e-12]))
    assert ratio[0, 0] == pytest.approx(1.0)
    price = break_even_price(OURS, THEIRS, "mac")
    assert price is not None
    even = break_even_map(OURS, THEIRS, "mac", np.array([1.0]), np.array([price]))
    assert even[0, 0] == pytest.approx(1.0)
    cheap = break_even_map(OURS, THEIRS, "mac", np.array([1.0]), np.array([price / 2]))
    assert cheap[0, 0] < 1.0  # we do more of it, so a lower price is better for us


def test_where_there_is_no_break_even_none_is_given() -> None:
    worse = _bill({("free", "hidden", "mac"): 4000, ("update", "hidden", "weight_write"): 900})
    assert break_even_price(worse, THEIRS, "mac") is None
    assert break_even_steps(worse, THEIRS) is None


def test_the_price_that_moves_the_ratio_most_is_first() -> None:
    swings = sensitivities(OURS, THEIRS)
    assert swings[0].size >= swings[-1].size > 1.0
    ratio = ratio_range(OURS, THEIRS)
    assert min(s.low for s in swings) <= ratio.nominal <= max(s.high for s in swings)
    equal = sensitivities(OURS, OURS)
    assert equal[0].size == pytest.approx(1.0)


def test_the_same_prices_are_drawn_for_both_sides() -> None:
    ratio = ratio_range(OURS, OURS)
    assert ratio.low == pytest.approx(1.0)
    assert ratio.high == pytest.approx(1.0)


def test_latency_is_shared_by_the_units_of_a_place() -> None:
    bill = _bill({("free", "hidden", "mac"): 36})
    assert bill.latency_s == pytest.approx(36 / 6 * 10e-9)


def test_break_even_of_time_is_where_both_take_as_long() -> None:
    ours = _bill({("free", "hidden", "mac"): 3600, ("free", "hidden", "activation"): 60})
    theirs = _bill({("free", "hidden", "mac"): 600, ("free", "hidden", "activation"): 6000})
    even = break_even_time(ours, theirs, "mac")
    assert even is not None
    # 600 e + 10 a = 100 e + 1000 a with a = 10 ns.
    assert even == pytest.approx(990 * 10e-9 / 500)
    assert break_even_time(ours, ours, "mac") is None


def test_wear_counts_cells() -> None:
    design = Design(NETWORK, 8, 8, 500, cells_per_weight=2)
    bill = _bill({("update", "hidden", "weight_write"): 2 * NETWORK.size * 50})
    rram = Bill(TECHNOLOGIES["rram_crossbar"], design, bill.counts)
    assert rram.wear() == pytest.approx(50 / 1e8)
    assert bill.wear() is None


def test_backprop_on_a_crossbar_reads_cells_and_converts() -> None:
    counts = OpCounts()
    counts.add("free", "hidden", "mac", 24)
    counts.add("free", "hidden", "state_read", 4)
    counts.add("free", "hidden", "state_write", 6)
    counts.add("free", "hidden", "weight_read", 24)
    counts.add("learn", "hidden", "mac", 24)
    moved = on_crossbar(counts)
    assert moved.total("cell_read") == 48
    assert moved.total("conversion") == 10
    assert moved.total("mac") == 24
    assert moved.total("weight_read") == 0
