"""Throughput by hand: one sample after the other, and one at every stage."""

from dataclasses import replace
from math import ceil

import pytest

from engine.model.builders import looped_mlp
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.technology import shipped_technologies
from hw_sim.prices.throughput import stage_times, throughput
from tests.hw_sim.prices.test_schedule import HIDDEN, bill_on, by_hand, noisy_crossbar, one_gradient

TECHNOLOGIES = shipped_technologies()
PIPELINE = Machine({"conversion": Resource(), "mac": Resource()}, overlaps=True)


def bill(machine: Machine, batch: int = 1, updates: int = 0) -> Bill:
    """Six samples, each with 3 conversions of 100 ns and 50 products of 1 ns; updates of 200 ns."""
    counts = OpCounts()
    counts.add("free", "hidden", "conversion", 6 * 2)
    counts.add("nudged", "readout", "conversion", 6)
    counts.add("free", "hidden", "mac", 6 * 50)
    counts.add("update", "hidden", "mac", updates * 200)
    technology = replace(TECHNOLOGIES["rram_crossbar"], machine=machine)
    design = Design(looped_mlp(2, 3, 2), 8, 8, WordCount(1, 1, 1))
    return Bill(technology, design, counts, batch=batch)


def test_inference_leaves_a_pipeline_whenever_its_longest_stage_is_done() -> None:
    found = throughput(bill(PIPELINE), 6)
    assert found is not None
    assert found.alone == pytest.approx(1 / 350e-9)
    assert found.pipelined == pytest.approx(1 / 300e-9)
    assert (found.stage, found.in_flight) == ("conversion", 2)


@pytest.mark.parametrize(("batch", "updates"), [(3, 2), (2, 3), (4, 2)])
def test_a_pipeline_fills_anew_after_every_update(batch: int, updates: int) -> None:
    found = throughput(bill(PIPELINE, batch, updates), 6)
    assert found is not None
    assert found.alone == pytest.approx(6 / (6 * 350e-9 + updates * 200e-9))
    time = updates * (50e-9 + 200e-9) + 6 * 300e-9
    assert found.pipelined == pytest.approx(6 / time)


def test_stages_that_do_not_overlap_gain_nothing() -> None:
    found = throughput(bill(replace(PIPELINE, overlaps=False), 3, 2), 6)
    assert found is not None
    assert found.pipelined == found.alone
    assert found.in_flight == 1


def test_where_nothing_takes_time_there_is_no_throughput() -> None:
    assert throughput(replace(bill(PIPELINE), counts=OpCounts()), 6) is None


def test_one_gradient_on_a_crossbar_is_bound_by_its_converters() -> None:
    """Of the calculation by hand of its schedule."""
    network, chip, steps = one_gradient(noisy_crossbar(), HIDDEN)
    found = throughput(bill_on("rram_crossbar", network, chip), 1)
    prices = TECHNOLOGIES["rram_crossbar"].prices["latency"]
    rounds = by_hand("rram_crossbar", *steps)
    stages = {kind: n * prices[kind].listed()[0].value for kind, n in rounds.items()}
    assert stage_times(bill_on("rram_crossbar", network, chip)) == pytest.approx(stages)
    assert found is not None
    assert found.pipelined == pytest.approx(1 / max(stages.values()))
    assert found.alone == pytest.approx(1 / sum(stages.values()))
    assert found.in_flight == ceil(sum(stages.values()) / max(stages.values())) == 2


def test_only_machines_with_separate_stages_overlap() -> None:
    """A microcontroller has one core, a GPU one stream of launches, cores wait at a barrier."""
    overlapping = {name for name, t in TECHNOLOGIES.items() if t.machine.overlaps}
    assert overlapping == {"digital_45nm", "digital_7nm", "rram_crossbar"}
