"""Bills: parts sum to the whole, and ranges contain it."""

from collections import Counter
from dataclasses import replace
from functools import partial
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.builders import layered, looped_mlp
from hw_sim.counts import Amounts, OpCounts, WordCount
from hw_sim.prices.bill import LEAKAGE, Bill, Design, grouped
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import shipped_technologies

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
MEMORY = WordCount(states=50, weights=100, traces=300)


def _bill(events: dict[tuple[str, str, str], int], name: str = "digital_45nm") -> Bill:
    counts = OpCounts()
    for key, n in events.items():
        counts.add(*key, n)
    return Bill(TECHNOLOGIES[name], Design(NETWORK, 8, 8, MEMORY), counts)


@given(COUNTS, COUNTS, st.floats(0.0, 1.0), st.sampled_from(sorted(TECHNOLOGIES)))
def test_a_bill_between_two_counts_lies_on_a_straight_line(
    first: dict[tuple[str, str, str], int],
    more: dict[tuple[str, str, str], int],
    share: float,
    name: str,
) -> None:
    before, gained = (_bill(events, name) for events in (first, more))
    done = OpCounts(Counter(first)), OpCounts(Counter(first) + Counter(more))
    between = replace(before, counts=Amounts.between(*done, share))
    for part in ("energy_j", "latency_s"):
        ends = getattr(before, part), getattr(gained, part)
        assert getattr(between, part) == pytest.approx(ends[0] + share * ends[1])
    whole = Amounts.between(*done, 1.0)
    assert dict(whole) == dict(done[1])
    assert dict(whole + whole) == dict(done[1] + done[1])
    assert whole.total("mac", "free") == done[1].total("mac", "free")


@given(COUNTS, st.sampled_from(sorted(TECHNOLOGIES)))
def test_parts_sum_to_the_total(events: dict[tuple[str, str, str], int], name: str) -> None:
    bill = _bill(events, name)
    for by in ("kind", "phase", "place"):
        energies, times = bill.energy_parts(), bill.latency_parts()
        assert sum(grouped(energies, by).values()) == pytest.approx(bill.energy_j)
        assert sum(grouped(times, by).values()) == pytest.approx(bill.latency_s)
    price = partial(TECHNOLOGIES[name].price_at, "energy", parameters=bill.design.parameters)
    by_hand = sum(n * price(kind).value for (_, _, kind), n in events.items())
    leaked = grouped(bill.energy_parts(), "kind").get(LEAKAGE, 0.0)
    assert leaked == pytest.approx(bill.static_sum().nominal * bill.latency_s)
    assert bill.energy_j == pytest.approx(by_hand + leaked)
    assert bill.energy().nominal == pytest.approx(bill.energy_j)
    assert bill.latency().nominal == pytest.approx(bill.latency_s)


@given(COUNTS)
def test_ranges_lie_within_the_extremes(events: dict[tuple[str, str, str], int]) -> None:
    bill = _bill(events)
    for found, total in (
        (bill.energy(), bill.energy_sum()),
        (bill.latency(), bill.latency_sum()),
        (bill.area(), bill.area_sum()),
    ):
        assert found is not None
        prices = total.prices
        low, high = (
            sum(n * prod(getattr(prices[p], end) for p in of) for of, n in total.terms.items())
            for end in ("low", "high")
        )
        assert low * (1 - 1e-9) <= found.low <= found.high <= high * (1 + 1e-9)
        assert found.low < found.high or not total.terms


def test_a_missing_price_is_an_error_that_names_the_event() -> None:
    bill = _bill({("free", "hidden", "conversion"): 3})
    with pytest.raises(TechnologyError, match="'digital_45nm' has no energy price for 'conver"):
        _ = bill.energy_j
    several = _bill({("free", "hidden", kind): 3 for kind in ("hop", "mac", "conversion")})
    with pytest.raises(TechnologyError, match=r"no energy price for 'conversion', 'hop'\."):
        several.energy_parts()
    cells = replace(bill.design, memory=replace(MEMORY, cells=7))
    with pytest.raises(TechnologyError, match="'digital_45nm' has no area price for 'cell'"):
        replace(bill, design=cells).area()


def test_a_wider_multiplier_costs_more_and_the_adder_behind_it_does_not() -> None:
    """Weights and states of twice the width: the multiplier moves to its 16-bit row."""
    bill = _bill({("free", "hidden", "mac"): 10, ("free", "hidden", "activation"): 10})
    wide = replace(bill, design=replace(bill.design, weight_bits=16, state_bits=16))
    narrow, wider = (grouped(b.energy_parts(), "kind") for b in (bill, wide))
    assert narrow["mac"] == pytest.approx(10 * (0.2 + 0.1) * 1e-12)
    assert wider["mac"] == pytest.approx(10 * (0.51 + 0.1) * 1e-12)
    assert 1.9 < wider["mac"] / narrow["mac"] < 3.4
    assert wider["activation"] == pytest.approx(2 * narrow["activation"])


def test_a_word_costs_what_its_memory_costs() -> None:
    """The same reads from a memory of 32 KB, of 1 MB and of 32 MB, at 45 nm."""
    found = []
    for size in (1 << 15, 1 << 20, 1 << 25):
        bill = _bill({("free", "hidden", "weight_read"): 10})
        held = replace(bill.design, memory=replace(MEMORY, weights=size))
        found.append(replace(bill, design=held).energy_j / 10)
    assert found == pytest.approx([2.1e-12, 11.7e-12, 60.6e-12])


def test_two_bits_more_make_a_converter_four_times_as_dear() -> None:
    bill = _bill({("free", "hidden", "conversion"): 10}, "rram_crossbar")
    found = [
        replace(bill, design=replace(bill.design, state_bits=bits)).energy_j for bits in (6, 8, 10)
    ]
    leaked = bill.energy_parts()["free", "hidden", LEAKAGE]
    by_hand = [10 * 0.42e-12, 10 * 1.67e-12, 10 * 6.67e-12]
    assert [energy - leaked for energy in found] == pytest.approx(by_hand, rel=0.02)


def test_latency_is_shared_by_the_units_of_a_place() -> None:
    bill = _bill({("free", "hidden", "mac"): 36})
    assert bill.latency_s == pytest.approx(36 / 6 * 10e-9)


@pytest.mark.parametrize(
    ("phase", "place", "weights"),
    [("input", "hidden", 4 * 6), ("nudged", "hidden", 6 * 6), ("nudged", "readout", 6 * 3)],
)
def test_one_read_of_an_array_takes_its_settling_time(phase: str, place: str, weights: int) -> None:
    """However many cells it has, and whatever other arrays the place has."""
    bill = _bill({(phase, place, "cell_read"): 5 * 2 * weights}, "rram_crossbar")
    assert bill.latency_s == pytest.approx(5 * 10e-9)


def test_arrays_of_a_layer_in_the_middle_are_read_at_once() -> None:
    network = layered((4, 6, 5, 3))
    middle = next(iter(network.columns))
    counts = OpCounts()
    counts.add("free", middle, "cell_read", 2 * 6 * 5)
    bill = Bill(TECHNOLOGIES["rram_crossbar"], Design(network, 8, 8, MEMORY), counts)
    assert bill.latency_s == pytest.approx(10e-9)


def test_input_cells_conduct_while_an_analog_state_settles() -> None:
    bill = _bill({("free", "hidden", "cell_read"): 7 * 2 * (24 + 36)}, "rram_crossbar")
    settling = replace(bill, design=replace(bill.design, settles=True))
    assert settling.latency_s == pytest.approx(7 * 10e-9)
    kinds = [grouped(b.energy_parts(), "kind")["cell_read"] for b in (settling, bill)]
    assert kinds[0] == kinds[1]


def test_area_is_that_of_neurons_words_and_cells() -> None:
    bill = _bill({}, "rram_crossbar")
    bill = replace(bill, design=replace(bill.design, memory=replace(MEMORY, cells=200)))
    bits = 8 * 50 + 8 * 100 + 16 * 300
    area = bill.area()
    assert area is not None
    assert area.nominal == pytest.approx((9 * 1200 + bits * 0.17 + 200 * 0.05) * 1e-12)
    assert _bill({}, "gpu").area() is None


def test_wear_is_that_of_the_busiest_cell() -> None:
    bill = replace(_bill({}, "rram_crossbar"), most_writes=50)
    wear = bill.wear()
    assert wear is not None
    assert wear.nominal == pytest.approx(50 / 1e8)
    assert 50 / 1e9 <= wear.low < wear.high <= 50 / 1e6
    assert _bill({}).wear() is None
