"""What the report says of one sample and of average power."""

from dataclasses import replace

from engine.model.builders import looped_mlp
from experiments.hardware.sample_tables import power_text, training_samples
from experiments.reporting.number_text import NONE
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies

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
