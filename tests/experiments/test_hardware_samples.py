"""What the report says of one sample and of average power."""

from dataclasses import replace

import pytest

from engine.model.builders import looped_mlp
from experiments.hardware.cost_tables import cost_table
from experiments.hardware.costs import Cost
from experiments.hardware.glance_table import glance_table
from experiments.hardware.report_tables import worn_text
from experiments.hardware.sample_tables import Run, power_text, sample_table, training_samples
from experiments.reporting.number_text import NONE
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import Technology, shipped_technologies, technology_from

NETWORK = looped_mlp(4, 6, 3)


def bill() -> Bill:
    counts = OpCounts()
    counts.add("free", "hidden", "activation", 60)
    counts.add("input", "border", "off_chip", 7 * 4)
    counts.add("nudged", "border", "off_chip", 7 * 3)
    design = Design(NETWORK, 8, 8, WordCount(50, 100, 300))
    return Bill(shipped_technologies()["gpu"], design, counts)


def test_samples_are_counted_where_they_enter_the_chip() -> None:
    assert training_samples(bill()) == 7


def test_a_power_beyond_what_a_board_may_draw_is_marked() -> None:
    """A million times dearer activations are no card of this world."""
    assert power_text(bill()).startswith("50")
    assert "limit" not in power_text(bill())
    technology = bill().technology
    energy = dict(technology.prices["energy"])
    (price,) = energy["activation"].listed()
    energy["activation"] = price.times(1e6)
    hot = replace(technology, prices={**technology.prices, "energy": energy})
    assert power_text(replace(bill(), technology=hot)).endswith("above the limit of 400 W")


def test_where_nothing_takes_time_there_is_no_power() -> None:
    assert power_text(replace(bill(), counts=OpCounts())) == NONE


def test_where_a_technology_states_no_times_there_is_a_dash() -> None:
    """And where it does there is a time, in the same cells."""
    price = {"low": 1, "value": 1, "high": 1, "unit": "pJ", "node": "any", "source": "own"}
    energy = dict.fromkeys(("activation", "off_chip"), price | {"status": "recalled"})
    timeless = technology_from("plain", {"title": "plain", "energy": energy}, "own.toml")
    for technology, is_timed in ((timeless, False), (shipped_technologies()["gpu"], True)):
        cost = _cost(technology)
        for table in (sample_table([], [cost]), cost_table([cost])):
            cells = dict(zip(table.header, table.rows[0], strict=True))
            times = [cell for title, cell in cells.items() if "time" in title]
            assert len(times) == 2
            assert all((cell != NONE) == is_timed for cell in times)


def test_memory_at_a_glance_is_all_memory() -> None:
    """Weights, states, gradients and optimizer are all bits; gradients are one word a weight."""
    memory = WordCount(50, 100, 3 * NETWORK.size, cells=200, wide=7, wide_bits=90)
    found = replace(bill(), design=Design(NETWORK, 8, 6, memory))
    run = Run("digital", found.technology, "eqprop", found, found, 7)
    table = glance_table([run, run._replace(learner="bptt")])
    (row,) = table.rows
    cells = dict(zip(table.header[6:10], row[6:10], strict=True))
    assert str(cells["Weights, KiB"]).endswith("and 200 cells")
    parts = [float(str(cell).split("\n")[0]) for cell in cells.values()]
    assert sum(parts) == pytest.approx(found.design.memory_bits / 8192, abs=0.2)
    assert parts[2] == pytest.approx(2 * 8 * NETWORK.size / 8192, abs=0.05)


def _cost(technology: Technology) -> Cost:
    run = replace(bill(), technology=technology)
    return Cost("digital", technology, run, run, (run,), inferences=7, steps=3.0)


def test_a_chip_is_worn_out_after_its_endurance_over_the_writes_of_a_training() -> None:
    technology = shipped_technologies()["rram_crossbar"]
    worn = replace(bill(), technology=technology, most_writes=2e4)
    value, ends = worn_text(worn).split("\n")
    assert value == "5,000"  # of 1e8 writes
    low, high = (float(end.replace(",", "")) for end in ends.strip("()").split(" to "))
    assert 1e6 / 2e4 < low < 5000 < high < 1e9 / 2e4
    assert worn_text(replace(worn, most_writes=0)) == worn_text(bill()) == NONE
