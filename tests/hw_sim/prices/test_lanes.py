"""Time: work over lanes, and all lanes of a place at once."""

from dataclasses import replace

import pytest

from engine.model.network import Network
from hw_sim.counts import OpCounts
from hw_sim.prices.bill import LEAKAGE, Bill, Design, grouped
from hw_sim.prices.machine import Machine, Resource
from tests.hw_sim.chips.hand_chip import NETWORKS, HandChip
from tests.hw_sim.prices.hand_prices import MEMORY, bill_of, everything, price, technology


@pytest.mark.parametrize("lanes", [1, 2, 6])
def test_so_many_lanes_take_the_share_of_the_time(lanes: int) -> None:
    tech, bill = technology(Resource("chip", lanes)), bill_of(technology(Resource("chip", lanes)))
    for key, n in everything():
        serial = n / lanes * tech.prices["latency"][key[2]].value
        assert bill.latency_parts()[key] == pytest.approx(serial)
    assert bill_of(technology(Resource("chip", 2 * lanes))).latency_s == pytest.approx(
        bill.latency_s / 2
    )


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_each_unit_of_a_place_takes_its_share(network: Network) -> None:
    design = Design(network, 8, 8, MEMORY)
    for place, units in HandChip(network).layers.items():
        counts = OpCounts()
        counts.add("free", place, "activation", 5 * len(units))
        bill = Bill(technology(Resource("unit")), design, counts)
        assert bill.latency_s == pytest.approx(5 * _time("activation"))
    counts = OpCounts()
    counts.add("nudged", "readout", "activation", 5 * network.outputs)
    counts.add("readout", "border", "off_chip", 7)
    found = Bill(technology(Resource("unit")), design, counts).latency_s
    assert found == pytest.approx(5 * _time("activation") + 7 * _time("off_chip"))


def _time(kind: str) -> float:
    return technology().prices["latency"][kind].value


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("settles", [False, True])
def test_all_synapses_of_a_place_work_at_once(network: Network, settles: bool) -> None:
    """An update of every weight takes one write, a read of every cell of a place one read."""
    hand, design = HandChip(network), Design(network, 8, 8, MEMORY, settles)
    for place in {*hand.layers, "readout"} & set(hand.owner):
        owned = hand.owner.count(place)
        for phase, kind in (("update", "weight_write"), ("learn", "trace_write")):
            _takes_once(design, phase, place, kind, 5 * owned)
    for place, units in hand.layers.items():
        fed = network.inputs * len(units) * hand.driven.count(place)
        heard = sum(len(hand.sources_of(j)) for j in units)
        if fed:
            _takes_once(design, "input", place, "cell_read", 5 * 2 * fed)
        for phase in ("free", "nudged", "backward"):
            read = heard + fed * settles
            _takes_once(design, phase, place, "cell_read", 5 * 2 * read)
            _takes_once(design, phase, place, "weight_read", 5 * read)
    if hand.softmax:
        read = len(hand.read_units) * network.outputs
        _takes_once(design, "backward", "readout", "cell_read", 5 * 2 * read)
        _takes_once(design, "readout", "readout", "cell_read", 5 * 2 * read)
    _takes_once(design, "input", "border", "off_chip", 5)
    for place in {*hand.layers, "readout"} - set(hand.owner):
        _takes_once(design, "update", place, "trace_read", 5)  # without weights: one by one
    for place in set(hand.layers) - set(hand.driven):
        _takes_once(design, "input", place, "mac", 5)


def _takes_once(design: Design, phase: str, place: str, kind: str, count: int) -> None:
    """Five rounds of all lanes take five times the time of one event."""
    counts = OpCounts()
    counts.add(phase, place, kind, count)
    bill = Bill(technology(Resource("array")), design, counts)
    assert bill.latency_s == pytest.approx(5 * _time(kind)), (phase, place, kind)
    assert bill.latency().nominal == pytest.approx(bill.latency_s)


def test_events_without_a_time_are_hidden_and_cost_energy_all_the_same() -> None:
    tech = technology(leaks=True)
    latency, machine = {"mac": price("mac", 0)}, Machine({"mac": Resource()})
    quiet = replace(tech, prices={**tech.prices, "latency": latency}, machine=machine)
    bill = bill_of(quiet)
    assert {key[2] for key in bill.latency_parts()} == {"mac"}
    assert set(bill.latency_sum().prices) == {"mac time"}
    assert bill.latency_s == pytest.approx(2.0 * everything().total("mac"))
    quick, slow = (grouped(b.energy_parts(), "kind") for b in (bill, bill_of(tech)))
    assert quick.pop(LEAKAGE) < slow.pop(LEAKAGE)  # what hides costs no time either
    assert quick == pytest.approx(slow)
