"""Prices and bills: linear in every price and every count, with both ends of every range."""

from collections import Counter
from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model.network import Network
from hw_sim.counts import OpCounts, WordCount
from hw_sim.events import KINDS, WAITS
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.price import PriceFunction, PriceTable
from hw_sim.prices.sums import Range, Sum, quantile, ratio_range
from hw_sim.prices.technology import Technology, load_technologies
from tests.hw_sim.chips.hand_chip import NETWORKS, HandChip
from tests.hw_sim.prices.hand_prices import MEMORY, MIXED, bill_of, everything, price, technology

POWERS = {"f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "": 0}


def rescaled(tech: Technology, section: str, factor: float, *names: str) -> Technology:
    """The same with some prices, or all of a section, times a factor."""
    group = dict(tech.prices[section])
    for name in names or tuple(group):
        p = group[name]
        ends = {"value": factor * p.value, "low": factor * p.low, "high": factor * p.high}
        group[name] = replace(p, **ends)  # type: ignore[arg-type]
    return replace(tech, prices={**tech.prices, section: group})


@pytest.mark.parametrize(
    ("section", "entry", "unit"),
    [
        *(("energy", "mac", f"{prefix}J") for prefix in "fpnu"),
        *(("latency", "mac", f"{prefix}s") for prefix in "pnum"),
        *(("area", "cell", f"{prefix}m2") for prefix in "um"),
        ("endurance", "weight_write", "writes"),
    ],
)
def test_value_and_both_ends_are_read_in_the_same_unit(
    tmp_path: Path, section: str, entry: str, unit: str
) -> None:
    path = tmp_path / "my.toml"
    fields = 'node = "45 nm", source = "a book", status = "ran"'
    path.write_text(
        f'[mine]\ntitle = "Mine"\n[mine.{section}]\n'
        f'{entry} = {{ value = 4, low = 3, high = 7, unit = "{unit}", {fields} }}\n'
        + ("" if section == "energy" else f'[mine.energy]\nmac = {{ value = 1, low = 1, high = 1, '
           f'unit = "pJ", {fields} }}\n')
    )  # fmt: skip
    (found,) = load_technologies(path)["mine"].price(section, entry).listed()
    prefix = unit.removesuffix("2").removesuffix("m") if section == "area" else unit[0]
    prefix = "" if section == "endurance" else prefix
    power = POWERS[prefix] * (2 if section == "area" else 1)
    ends = [found.value, found.low, found.high]
    assert ends == pytest.approx([4 * 10.0**power, 3 * 10.0**power, 7 * 10.0**power], rel=1e-12)


def test_what_a_file_leaves_out_is_one_at_a_time_unscaled_at_eight_bits(tmp_path: Path) -> None:
    fields = 'value = 4, low = 3, high = 7, node = "45 nm", source = "a book", status = "ran"'
    path = tmp_path / "my.toml"
    path.write_text(
        f'[plain]\ntitle = "Plain"\n[plain.energy]\nmac = {{ unit = "pJ", {fields} }}\n'
        f'[plain.latency]\nmac = {{ unit = "ns", {fields} }}\n'
        '[full]\ntitle = "Full"\nnote = "a note"\nreference_bits = 1\n'
        f'[full.energy]\nmac = {{ unit = "pJ", scales = "state", {fields} }}\n'
        f'[full.latency]\nmac = {{ unit = "ns", {fields} }}\n'
        '[full.machine]\nmac = { per = "chip", count = 4 }\n'
    )
    plain, full = load_technologies(path).values()
    assert (plain.name, plain.title, plain.note, plain.reference_bits) == ("plain", "Plain", "", 8)
    assert (full.note, full.reference_bits) == ("a note", 1)
    assert [p.scales for t in (plain, full) for p in t.price("energy", "mac").listed()] == [
        "none", "state",
    ]  # fmt: skip
    assert plain.machine.stages == {"mac": Resource("chip", 1)}
    assert full.machine.stages == {"mac": Resource("chip", 4)}
    counts = OpCounts()
    counts.add("free", "low", "mac", 20)
    for tech, rounds in ((plain, 20), (full, 5)):
        bill = Bill(tech, Design(MIXED, 8, 8, MEMORY), counts)
        assert bill.latency_s == pytest.approx(rounds * 4e-9)


def test_energy_is_the_sum_of_count_times_price_over_every_event() -> None:
    tech = technology(bits=4)
    bits = {"none": 1.0, "weight": 12 / 4, "state": 6 / 4, "product": 12 / 4 * 6 / 4}
    by_hand = Counter[tuple[str, str, str]]()
    for key, n in everything().events.items():
        if key[2] not in WAITS:
            p = tech.prices["energy"][key[2]]
            by_hand[key] = n * p.value * bits[p.scales]  # type: ignore[assignment]
    bill = bill_of(tech)
    assert bill.energy_parts() == pytest.approx(dict(by_hand))
    assert bill.energy_j == pytest.approx(sum(by_hand.values()))
    for by, column in (("phase", 0), ("place", 1), ("kind", 2)):
        groups = grouped(bill.energy_parts(), by)
        for name, share in groups.items():
            own = sum(value for key, value in by_hand.items() if key[column] == name)
            assert share == pytest.approx(own)


def test_words_of_another_width_move_the_value_and_both_ends() -> None:
    tech = technology(bits=4)
    total = bill_of(tech).energy_sum()
    bits = {"none": 1.0, "weight": 12 / 4, "state": 6 / 4, "product": 12 / 4 * 6 / 4}
    for kind, listed in tech.prices["energy"].items():
        n, found = total.terms[kind,], total.prices[kind]
        assert n == everything().total(kind)
        ends = [listed.low, listed.value, listed.high]
        expected = [bits[listed.scales] * end for end in ends]
        assert [found.low, found.value, found.high] == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_price_that_doubles_doubles_its_own_share(kind: str) -> None:
    tech = technology()
    for section in ("latency",) if kind in WAITS else ("energy", "latency"):
        once, twice = (bill_of(t) for t in (tech, rescaled(tech, section, 2.0, kind)))
        before, after = (grouped(getattr(b, f"{section}_parts")(), "kind") for b in (once, twice))
        before[kind] *= 2
        assert after == pytest.approx(before)


def test_a_time_may_grow_with_the_tiles_of_a_chip() -> None:
    """In steps, and its range with it."""
    tech, rows = technology(), (price("barrier", 19), price("barrier", 40))
    barrier = PriceFunction("barrier", PriceTable((1, 3), rows, "steps", "extend"), "tiles")
    tech = replace(tech, prices={**tech.prices, "latency": {"barrier": barrier}})
    tech = replace(tech, machine=Machine({"barrier": Resource()}))
    waited = everything().total("barrier")
    for tiles, factor in ((1, 1.0), (2, 1.0), (3, 2.0), (100, 2.0)):
        bill = bill_of(tech, tiles=tiles)
        assert bill.latency_s == pytest.approx(factor * 21.0 * waited)
        found = bill.latency_sum().prices["barrier time"]
        assert [found.low, found.high] == pytest.approx([factor * 8.4, factor * 52.5])


def test_a_wait_has_no_energy(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    fields = (
        'value = 4, low = 3, high = 7, unit = "pJ", node = "1 nm", source = "a", status = "ran"'
    )
    path.write_text(f'[mine]\ntitle = "Mine"\n[mine.energy]\nbarrier = {{ {fields} }}\n')
    with pytest.raises(TechnologyError, match="energy of 'barrier': there is no such event"):
        load_technologies(path)


@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_all_prices_scaled_scale_the_value_and_both_ends(factor: float) -> None:
    tech = technology()
    for section, kind in (("energy", "energy"), ("latency", "latency"), ("area", "area")):
        before = getattr(bill_of(tech), kind)()
        after = getattr(bill_of(rescaled(tech, section, factor)), kind)()
        assert before.low < before.nominal < before.high
        assert after.nominal == pytest.approx(factor * before.nominal)
        assert after.low == pytest.approx(factor * before.low)
        assert after.high == pytest.approx(factor * before.high)
    lives, longer = bill_of(tech).wear(), bill_of(rescaled(tech, "endurance", factor)).wear()
    assert lives is not None
    assert longer is not None
    assert lives.low < lives.nominal < lives.high
    for found, expected in zip(_ends(longer), _ends(lives), strict=True):
        assert found == pytest.approx(expected / factor)


def _ends(found: Range) -> tuple[float, float, float]:
    return found.nominal, found.low, found.high


def test_twice_the_work_costs_twice_of_everything_but_area_and_wear() -> None:
    once = bill_of(technology(Resource("array")))
    twice = replace(once, counts=once.counts + once.counts)
    assert twice.energy_j == pytest.approx(2 * once.energy_j)
    assert twice.latency_s == pytest.approx(2 * once.latency_s)
    assert _ends(twice.energy()) == pytest.approx([2 * end for end in _ends(once.energy())])
    assert _ends(twice.latency()) == pytest.approx([2 * end for end in _ends(once.latency())])
    assert twice.area() == once.area()
    assert twice.wear() == once.wear()


def test_the_ends_of_a_range_are_percentiles_of_triangles_in_the_logarithm() -> None:
    """Of one price they are known: a tenth of each half lies beyond `sqrt(0.1)` of the way in."""
    p = replace(price("mac", 0), low=1.0, value=4.0, high=1000.0)
    a, c, b = log(p.low), log(p.value), log(p.high)
    found = Sum.of({"mac": (3.0, p)}).spread()
    assert found.nominal == 12.0
    assert log(found.low / 3) == pytest.approx(a + sqrt(0.1) * (c - a), abs=0.05)
    assert log(found.high / 3) == pytest.approx(b - sqrt(0.1) * (b - c), abs=0.15)
    certain = replace(p, low=4.0, high=4.0)
    assert _ends(Sum.of({"mac": (3.0, certain)}).spread()) == (12.0, 12.0, 12.0)


FACTORS = st.sampled_from([1.0, 1.1, 3.0, 200.0])
PRICED = st.tuples(st.floats(1e-3, 1e3), st.floats(1e-2, 1e2), FACTORS, FACTORS)


@pytest.mark.parametrize(("down", "up"), [(1.0, 11.0), (11.0, 1.0), (2.0, 100.0)])
def test_a_price_is_the_middle_of_its_draws(down: float, up: float) -> None:
    """However much further its range reaches to one side."""
    p = replace(price("mac", 0), low=4.0 / down, value=4.0, high=4.0 * up)
    shares = (np.arange(1000) + 0.5) / 1000
    drawn = quantile(p, shares)
    assert (np.diff(drawn) >= 0.0).all()
    assert (drawn[:500] <= 4.0 * (1 + 1e-12)).all()
    assert (drawn[500:] >= 4.0 * (1 - 1e-12)).all()
    assert drawn.min() >= p.low * (1 - 1e-12)
    assert drawn.max() <= p.high * (1 + 1e-12)


@given(st.lists(PRICED, min_size=1, max_size=8), st.lists(PRICED, min_size=1, max_size=3))
@example([(1.0, 1.0, 1.0, 200.0)] * 8, [(1.0, 1.0, 1.0, 1.0)])  # none can be lower
@settings(deadline=None, max_examples=50)
def test_every_range_holds_its_value(
    ours: list[tuple[float, ...]], theirs: list[tuple[float, ...]]
) -> None:
    """Of a sum, and of the ratio of two."""
    sums = [
        Sum.of(
            {
                f"{side}{k}": (n, replace(price("mac", 0), low=v / down, value=v, high=v * up))
                for k, (n, v, down, up) in enumerate(priced)
            }
        )
        for side, priced in (("a", ours), ("b", theirs))
    ]
    for found in (*(each.spread() for each in sums), ratio_range(*sums)):
        assert found.low <= found.nominal <= found.high


def test_what_is_free_stays_free() -> None:
    """Whatever its high end: a range in the logarithm has no place for zero."""
    free = replace(price("mac", 0), low=0.0, value=0.0, high=1.0)
    assert _ends(Sum.of({"mac": (3.0, free)}).spread()) == (0.0, 0.0, 0.0)


def test_prices_of_different_events_are_drawn_apart() -> None:
    """Independent errors average out: the range of a sum is narrower than the sum of ranges."""
    alone = [Sum.of({str(n): (1.0, price("mac", 0))}).spread() for n in range(4)]
    together = Sum.of({str(n): (1.0, price("mac", 0)) for n in range(4)}).spread()
    assert together.nominal == pytest.approx(sum(r.nominal for r in alone))
    assert together.low > 1.1 * sum(r.low for r in alone)
    assert together.high < 0.9 * sum(r.high for r in alone)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_area_is_that_of_what_is_held(network: Network) -> None:
    """Neurons with the outputs that are no units, words of their widths, and cells."""
    bill, areas = bill_of(technology(), network), technology().prices["area"]
    neurons = network.units + (network.outputs if HandChip(network).softmax else 0)
    bits = 6 * 50 + 12 * 100 + 2 * 12 * 300
    by_hand = {"neuron": neurons, "memory_bit": bits, "cell": 70}
    assert bill.area_sum().terms == {(name,): n for name, n in by_hand.items()}
    area = bill.area()
    assert area is not None
    total = sum(n * areas[name].value for name, n in by_hand.items())
    assert area.nominal == pytest.approx(total)
    assert sum(n * areas[name].low for name, n in by_hand.items()) < area.low < total
    assert sum(n * areas[name].high for name, n in by_hand.items()) > area.high > total
    none = replace(technology(), prices={**technology().prices, "area": {}})
    assert bill_of(none, network).area() is None


def test_a_cell_wears_by_its_writes_over_its_life() -> None:
    """A short life is the high end of the wear."""
    life = technology().prices["endurance"]["weight_write"]
    wear = bill_of(technology()).wear()
    assert wear is not None
    assert wear.nominal == pytest.approx(40 / life.value)
    a, c, b = log(life.low), log(life.value), log(life.high)
    shortest, longest = a + sqrt(0.05 * (b - a) * (c - a)), b - sqrt(0.05 * (b - a) * (b - c))
    assert wear.high == pytest.approx(40 / exp(shortest), rel=0.1)
    assert wear.low == pytest.approx(40 / exp(longest), rel=0.1)


def test_words_of_a_width_of_their_own_are_held_with_the_states() -> None:
    memory = WordCount(states=10, weights=1, traces=1, wide=3, wide_bits=96)
    assert Design(MIXED, 8, 6, memory).parameters["state_bytes"] == (10 * 6 + 96) / 8
