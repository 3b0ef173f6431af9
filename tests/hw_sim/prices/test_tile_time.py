"""Tiles have converters, drivers and routers of their own: time by hand for 64-32-10."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import LEAKAGE, Bill, Design, grouped
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.throughput import throughput
from tests.hw_sim.chips.hand_mesh import HandMesh
from tests.hw_sim.prices.test_schedule import (
    HIDDEN,
    IN,
    OUT,
    PHASES,
    TECHNOLOGIES,
    by_hand,
    one_gradient,
)

TILE = (16, 8)
RRAM = TECHNOLOGIES["rram_crossbar"]


def tiled(tile: tuple[int, int]) -> tuple[Bill, tuple[int, int]]:
    """One gradient on noisy tiles, which takes all its steps."""
    config = CrossbarConfig(read_noise=0.01, tile_rows=tile[0], tile_columns=tile[1])
    network, chip, steps = one_gradient(partial(CrossbarBackend, config=config), HIDDEN)
    design = Design(network, 8, 8, chip.footprint.count(network), tile=tile)
    return Bill(RRAM, design, chip.counts), steps


def test_tiles_convert_side_by_side() -> None:
    """More conversions than one array takes, in as many rounds."""
    (whole, steps), (cut, again) = tiled((0, 0)), tiled(TILE)
    assert steps == again
    assert cut.counts.total("conversion") > 2 * whole.counts.total("conversion")
    rounds = by_hand("rram_crossbar", *steps)
    found = {name[0]: n for name, n in cut.latency_sum().terms.items()}
    hops = found.pop("hop time")
    assert hops > 0
    assert found == pytest.approx({f"{kind} time": n for kind, n in rounds.items()})
    assert "hop time" not in whole.latency_sum().prices


@pytest.mark.parametrize("shared_by", [1, 4, 8, 100])
def test_lines_of_a_tile_take_turns_and_tiles_do_not(shared_by: int) -> None:
    """There are 8 columns and 16 rows on a tile, and never more than these wait."""
    bill, (free, back) = tiled(TILE)
    machine = Machine({"conversion": Resource("line", shared_by=shared_by)})
    shared = replace(bill, technology=replace(RRAM, machine=machine))
    rows, columns = min(16, shared_by), min(8, shared_by)
    there = rows + columns  # of the read-out as well: 32 rows on two tiles, 10 columns on two
    rounds = (1 + free + back) * there + back * 2 * there + there
    assert shared.latency_s == pytest.approx(rounds * 100e-9)


def test_rows_of_all_tiles_are_written_at_once() -> None:
    network, counts = tiled((0, 0))[0].design.network, OpCounts()
    counts.add("update", "hidden", "weight_write", 3 * (IN + HIDDEN + 1) * HIDDEN)
    counts.add("update", "readout", "weight_write", 3 * (HIDDEN + 1) * OUT)
    design = Design(network, 8, 8, WordCount(1, 1, 1), tile=TILE)
    time = Bill(RRAM, design, counts).latency_s
    assert time == pytest.approx(3 * (16 + 16 + 1 + 16 + 1) * 100e-9)  # blocks follow one another


def test_words_wait_for_the_busiest_router() -> None:
    """Four words leave a tile in a cycle; what drives goes first, then what is added up."""
    bill, (free, back) = tiled(TILE)
    mesh = HandMesh(bill.design.network, *TILE)

    def rounds(*journeys: list[tuple[int, int]]) -> float:
        return mesh.busiest([way for part in journeys for way in part]) / 4

    drive, join = mesh.to_drive, mesh.to_join
    inside = rounds(drive("W_rec")) + rounds(join("W_rec"))
    there = rounds(drive("W_out")) + rounds(join("W_out"))
    ends = (drive(name, end) for name in ("W_in", "W_rec") for end in (False, True))
    returned = rounds(drive("W_out", True)) + rounds(join("W_out", True))
    found = grouped(bill._rounds, "kind")["hop"]
    assert found == pytest.approx(
        rounds(drive("W_in")) + rounds(join("W_in")) + (free + back) * inside
        + back * (there + returned) + PHASES * rounds(*ends) + there + rounds(drive("W_out", True))
    )  # fmt: skip
    hops = bill.counts.total("hop")
    assert found * 4 < hops  # routers work side by side
    assert bill.energy_parts()["free", "hidden", "hop"] == pytest.approx(
        free * (mesh.driven("W_rec") + mesh.joined("W_rec")) * 0.65e-12
    )


def test_a_wide_word_is_dearer_to_move() -> None:
    bill, _ = tiled(TILE)
    wide = replace(bill, design=replace(bill.design, state_bits=16))
    moved = [grouped(b.energy_parts(), "kind")["hop"] for b in (bill, wide)]
    np.testing.assert_allclose(moved[1], 2 * moved[0])


def test_an_inference_of_784_256_10_takes_what_the_page_says() -> None:
    """`docs/hardware.md`, tiles of 128 x 128 against whole arrays."""
    network, rng, found = looped_mlp(784, 256, 10), np.random.default_rng(0), {}
    for tile in (0, 128):
        config = CrossbarConfig(read_noise=0.01, tile_rows=tile, tile_columns=tile)
        chip = CrossbarBackend(network, initial_params(network, rng), config)
        clamped = chip.clamp(rng.uniform(-1, 1, (1, 784)))
        chip.predict(chip.settle(clamped, relaxation=Relaxation(20, 0.0)))
        memory = chip.footprint.count(network, moments=2)
        found[tile] = Bill(RRAM, Design(network, 8, 8, memory, tile=config.tile), chip.counts)
    whole, cut = found[0], found[128]
    assert [bill.counts.total("conversion") for bill in found.values()] == [11546, 24116]
    times = [grouped(bill.latency_parts(), "kind") for bill in found.values()]
    for time in times:
        assert time["conversion"] == pytest.approx(4.4e-6)
    shared = replace(cut, design=replace(cut.design, tile=(0, 0)))  # by all tiles of an array
    assert grouped(shared.latency_parts(), "kind")["conversion"] == pytest.approx(8.9e-6, rel=0.01)
    assert cut.counts.total("hop") == 44570
    assert times[1]["hop"] == pytest.approx(2.9e-6, rel=0.01)
    assert [bill.latency_s for bill in found.values()] == pytest.approx([5.5e-6, 8.4e-6], rel=0.01)
    assert [bill.energy_j for bill in found.values()] == pytest.approx([0.30e-6, 1.12e-6], rel=0.01)
    parts = grouped(cut.energy_parts(), "kind")
    assert parts["hop"] / cut.energy_j == pytest.approx(0.026, abs=5e-4)
    assert parts[LEAKAGE] / cut.energy_j == pytest.approx(0.75, abs=5e-3)
    areas = [1e6 * bill.area_sum().nominal for bill in found.values()]
    assert areas == pytest.approx([2.5, 8.6], rel=0.02)
    rates = [throughput(bill, 1) for bill in (whole, cut)]
    assert [rate.alone for rate in rates if rate] == pytest.approx([181e3, 119e3], rel=0.01)
    assert [rate.pipelined for rate in rates if rate] == pytest.approx([227e3, 227e3], rel=0.01)
