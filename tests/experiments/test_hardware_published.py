"""Published chips: each figure is held to a calculation by hand, and to what the page says."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from experiments.hardware.__main__ import main
from experiments.hardware.published import Quoted, isaac, loihi_keywords, publications
from experiments.hardware.workloads import at_clock, forward_counts, spiking_step
from hw_sim.prices.price import STATUSES
from hw_sim.prices.technology import shipped_technologies

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"
AUTOENCODER = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
PRODUCTS, UNITS = 264_192, 1_672
KEYWORDS = 390 * 256 + 256 * 256 + 256 * 29

BY_HAND = {
    # Milliwatts of a unit: converters, eight arrays, additions of seven words in eight, its tile.
    "ISAAC, power of the chip": 2016e-3 * (16 + 4 + 2.4 + 0.2 * 7 / 8 + (20.7 + 7 + 42 / 4) / 12),
    "ISAAC, throughput of the chip": 1e-12 * 168 * 12 * 8 * (2 * 128 * 16) / 1.6e-6,
    "Cortex-M4 (STM32L4R5), time of an inference": (2.5 * PRODUCTS + 30 * UNITS) / 120e6,
    "Cortex-M7 (STM32H7A3), time of an inference": (2.5 * PRODUCTS + 30 * UNITS) / 280e6,
    "Cortex-M4 (STM32L4R5), energy of an inference": 50e-12 * (2.5 * PRODUCTS + 30 * UNITS),
    "Cortex-M7 (STM32H7A3), energy of an inference": 50e-12 * (2.5 * PRODUCTS + 30 * UNITS),
    "Loihi, energy of an inference, all above idle": 1e-11
    * (35.5 * KEYWORDS + 72.8 * 541 + 69.3 * 541 + 111 * 902 + 500 * 390),
    "Weights in DRAM, power of 20 inferences a second": 20e-12 * (640 + 4.6) * 31_623**2,
}
BY_HAND["Loihi, the same without these 70 mW"] = BY_HAND[
    "Loihi, energy of an inference, all above idle"
]


def figures() -> dict[str, Quoted]:
    return {f"{f.chip}, {f.quantity}": f for p in publications() for f in p.figures}


@pytest.mark.parametrize("name", BY_HAND)
def test_each_figure_is_what_a_hand_makes_of_the_published_numbers(name: str) -> None:
    """Within two per mille: rounded prices, and states beside a billion weights."""
    figure = figures()[name]
    assert figure.settle.nominal == pytest.approx(BY_HAND[name], rel=2e-3)
    assert figure.settle.low < figure.settle.nominal < figure.settle.high


def test_no_figure_is_left_without_a_hand() -> None:
    assert set(figures()) == set(BY_HAND)
    assert len(publications()) >= 3


def test_the_page_states_every_ratio(tmp_path: Path) -> None:
    part = PAGE.read_text(encoding="utf-8").split("## Published chips")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()]
    stated = {f"{row[0]}, {row[1]}": row for row in rows if len(row) == 6}
    for name, figure in figures().items():
        assert float(stated[name][4]) == pytest.approx(figure.ratio, rel=5e-3), name
        assert stated[name][5] == figure.status
        for column, value in ((2, figure.published), (3, figure.settle.nominal)):
            number, unit = re.match(r"([\d.,]+) (\S+)", stated[name][column]).groups()  # type: ignore[union-attr]
            scale = {"µ": 1e-6, "m": 1e-3}.get(unit[0], 1.0)
            assert scale * float(number.replace(",", "")) == pytest.approx(value, rel=5e-3), name


def test_every_parameter_has_a_source_and_a_status() -> None:
    for publication in publications():
        assert publication.parameters
        for stated in (*publication.parameters, *publication.figures):
            assert stated.status in STATUSES
            assert stated.source
        for figure in publication.figures:
            assert figure.why


def test_a_pass_through_dense_layers_is_counted_once_for_each_weight() -> None:
    counts = forward_counts(AUTOENCODER)
    assert counts.total("mac") == PRODUCTS
    assert counts.total("activation") == UNITS
    assert counts.total("weight_read") == PRODUCTS + UNITS  # and the biases
    assert counts.total("mac", place="layer5") == 128 * 8


def test_a_spiking_step_says_everything_to_the_next_layer() -> None:
    counts = spiking_step((390, 256, 256, 29))
    assert counts.total("mac") == KEYWORDS
    assert counts.total("message") == 390 + 256 + 256  # to the one core of the next layer
    assert counts.total("activation") == counts.total("spike_out") == 256 + 256 + 29
    assert counts.total("off_chip") == 390


def test_a_faster_clock_shortens_every_time_and_no_energy() -> None:
    slow = shipped_technologies()["microcontroller"]
    fast = at_clock(slow, 400e6)
    for kind, price in fast.prices["latency"].items():
        assert price.at({}).value == pytest.approx(slow.price("latency", kind).at({}).value / 4)
    assert fast.prices["energy"] == slow.prices["energy"]


def test_time_and_power_of_isaac_follow_from_one_unit() -> None:
    power, throughput = isaac().figures
    per_operation = power.settle.nominal / throughput.settle.nominal  # pJ
    assert per_operation == pytest.approx(51.96 / 41.29, rel=1e-3)


def test_loihi_lies_between_the_two_ways_to_read_its_measurement() -> None:
    above_idle, without_host = loihi_keywords().figures
    assert without_host.published < above_idle.settle.nominal < above_idle.published


def test_the_command_prints_every_figure_and_trains_nothing(tmp_path: Path) -> None:
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["--published", "--out", str(tmp_path)]) == 0
    said = printed.getvalue()
    assert [path.name for path in tmp_path.iterdir()] == ["published.json"]
    for figure in figures().values():
        assert figure.quantity in said
        assert f"{figure.ratio:.3g}" in said
    assert "each its own" in said
    assert "second-hand" in said
