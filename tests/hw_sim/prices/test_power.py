"""Power: what is drawn all the time is paid for all the time, and every bill has an average."""

from dataclasses import replace

import numpy as np
import pytest

from engine.model.builders import looped_mlp
from hw_sim.chips.substrate import NEURON_WORDS
from hw_sim.counts import Footprint, OpCounts
from hw_sim.formula import dense_counts
from hw_sim.prices.bill import LEAKAGE, Bill, Design, grouped
from hw_sim.prices.break_even import (
    RELAXING,
    break_even_factor,
    break_even_map,
    break_even_steps,
    sensitivities,
)
from hw_sim.prices.machine import Machine
from hw_sim.prices.sums import ratio_range
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.prices.hand_prices import bill_of, technology

TECHNOLOGIES = shipped_technologies()
FIXED = ("digital_45nm", "digital_7nm", "rram_crossbar", "gpu")


def one_gradient(name: str, inputs: int = 64, hidden: int = 32, samples: int = 1) -> Bill:
    """Price 20 free and twice 10 nudged steps of a sample, and its local rules."""
    network = looped_mlp(inputs, hidden, 10)
    counts = dense_counts(network, samples, 20 * samples, 20 * samples, phases=2)
    counts.add("input", "border", "off_chip", inputs * samples)
    memory = Footprint(NEURON_WORDS, ("weight", "gradient")).count(network)
    return Bill(TECHNOLOGIES[name], Design(network, 8, 8, memory), counts)


@pytest.mark.parametrize("inputs_hidden", [(64, 32), (784, 512), (784, 8192)])
def test_a_gpu_draws_more_than_it_does_idle_and_less_than_its_board(
    inputs_hidden: tuple[int, int],
) -> None:
    """One sample took 1.7 mW of a card of hundreds of watts, when only events were priced."""
    bill = one_gradient("gpu", *inputs_hidden)
    idle, limit = bill.static_sum().nominal, bill.power_limit_w()
    assert limit is not None
    for found in (bill, bill.one_at_a_time()):
        assert found.power_w is not None
        assert idle < found.power_w < limit
    worked = bill.energy_j - idle * bill.latency_s
    alone = bill.one_at_a_time()
    assert worked == pytest.approx(alone.energy_j - idle * alone.latency_s, rel=1e-6)


def test_a_batch_shares_the_launches_of_a_gpu() -> None:
    bill = one_gradient("gpu")
    times, alone = (grouped(b.latency_parts(), "kind") for b in (bill, bill.one_at_a_time()))
    assert alone["activation"] == pytest.approx(256 * times["activation"])
    assert alone["mac"] == times["mac"]
    # 41 launches for the layer, 21 for the read-out, each of 5 us.
    assert alone["activation"] == pytest.approx(62 * 5e-6)
    assert bill.one_at_a_time().energy_j > 50 * 62 * 5e-6  # joules, at 50 W


def test_an_update_is_launched_once_for_all_weights_of_a_place() -> None:
    """A root and a quotient of each weight, once for a batch whatever its samples."""
    bill, counts = one_gradient("gpu"), OpCounts()
    counts.add("update", "hidden", "activation", 2 * (64 + 32 + 1) * 32)
    counts.add("update", "readout", "activation", 2 * (32 + 1) * 10)
    update = replace(bill, counts=counts)
    assert update.latency_s == pytest.approx(4 * 5e-6)
    assert update.one_at_a_time().latency_s == update.latency_s


def test_a_large_network_keeps_a_gpu_busy() -> None:
    small, large = one_gradient("gpu").power_w, one_gradient("gpu", 784, 8192).power_w
    assert small is not None
    assert large is not None
    assert small < 60.0 < 200.0 < large


@pytest.mark.parametrize("name", FIXED[:2])
def test_leakage_is_power_times_time_and_a_part_of_its_own(name: str) -> None:
    bill = one_gradient(name)
    prices = bill.technology.prices["power"]
    static = 42 * prices["neuron"].listed()[0].value
    static += bill.design.memory_bits * prices["memory_bit"].listed()[0].value
    assert bill.static_sum().nominal == pytest.approx(static)
    parts = bill.energy_parts()
    times = grouped(bill.latency_parts(), "phase")
    for phase, time in times.items():
        leaked = sum(e for key, e in parts.items() if key[0] == phase and key[2] == LEAKAGE)
        assert leaked == pytest.approx(static * time)
    for by in ("phase", "place", "kind"):
        assert sum(grouped(parts, by).values()) == pytest.approx(bill.energy_j)
    assert bill.power_w == pytest.approx(bill.energy_j / bill.latency_s)


def test_without_time_there_is_no_power() -> None:
    bill = replace(one_gradient("digital_45nm"), counts=OpCounts())
    assert bill.power_w is None
    assert bill.power() is None
    hidden = replace(bill_of(technology()).technology, machine=Machine())
    assert replace(bill_of(technology()), technology=hidden).power() is None


@pytest.mark.parametrize("name", FIXED)
def test_the_range_of_the_power_holds_all_that_its_prices_allow(name: str) -> None:
    counts = OpCounts()
    counts.add("free", "hidden", "mac", 10**6)
    bill = replace(one_gradient(name), counts=counts)
    found = bill.power()
    assert found is not None
    assert found.nominal == pytest.approx(bill.power_w)
    energy, time = bill.energy_sum(), bill.latency_sum()
    mac, tick = energy.prices["mac"], time.prices["mac time"]
    per_round = counts.total("mac") / time.terms["mac time",]
    static = [sum(n * getattr(bill.static_sum().prices[k[0]], end) for k, n in
                  bill.static_sum().terms.items()) for end in ("low", "high")]  # fmt: skip
    assert found.low >= per_round * mac.low / tick.high + static[0]
    assert found.high <= per_round * mac.high / tick.low + static[1]


def test_break_even_points_hold_for_times_and_powers_too() -> None:
    """Energy is a straight line in each price, though powers are paid by the time."""
    ours = bill_of(technology(leaks=True))
    counts = OpCounts()
    for (phase, place, kind), n in ours.counts:
        counts.add(phase, place, kind, 4 * n if kind == "hop" else n // 2)
    theirs = replace(ours, counts=counts)
    a, b = ours.energy_sum(), theirs.energy_sum()
    tips = {name: break_even_factor(a, b, name) for name in a.prices}
    found = {name: factor for name, factor in tips.items() if factor is not None}
    assert "hop time" in found
    for name, factor in found.items():
        assert a.moved(name, factor) == pytest.approx(b.moved(name, factor))
        (ratio,) = break_even_map(ours, theirs, name, np.ones(1), np.array([factor]))[0]
        assert ratio == pytest.approx(1.0)
    swings = {swing.kind: swing for swing in sensitivities(a, b)}
    price = a.prices["hop time"]
    for end, value in ((swings["hop time"].low, price.low), (swings["hop time"].high, price.high)):
        tech = replace(
            ours.technology,
            prices={
                **ours.technology.prices,
                "latency": {
                    **ours.technology.prices["latency"], "hop": replace(price, value=value),
                },
            },
        )  # fmt: skip
        moved = [replace(bill, technology=tech).energy_j for bill in (ours, theirs)]
        assert end == pytest.approx(moved[0] / moved[1])


def test_the_factor_on_the_steps_includes_what_leaks_meanwhile() -> None:
    ours = bill_of(technology(leaks=True))
    theirs = replace(ours, counts=ours.counts + ours.counts)
    factor = break_even_steps(ours, theirs)
    assert factor is not None
    rest = sum(e for key, e in ours.energy_parts().items() if key[0] not in RELAXING)
    assert rest + factor * (ours.energy_j - rest) == pytest.approx(theirs.energy_j)
    (grid,) = break_even_map(ours, theirs, "mac", np.array([factor]), np.ones(1))
    assert grid[0] == pytest.approx(1.0)


def test_one_draw_moves_a_price_on_both_sides_though_their_memories_differ() -> None:
    """Of one kind of event, the ratio is that of its two prices, wherever they lie."""
    small = replace(one_gradient("digital_7nm"), counts=OpCounts())
    small.counts.add("free", "hidden", "weight_read", 1000)
    wide = replace(small.design, memory=replace(small.design.memory, weights=10**6))
    large = replace(small, design=wide)
    assert large.energy_j > small.energy_j
    ratio = ratio_range(large.energy_sum(), small.energy_sum())
    assert ratio.nominal == pytest.approx(large.energy_j / small.energy_j)
    one, other = (b.energy_sum().prices["weight_read"] for b in (large, small))
    ends = [one.low / other.low, one.high / other.high, ratio.nominal]
    assert min(ends) * 0.99 <= ratio.low <= ratio.high <= max(ends) * 1.01
