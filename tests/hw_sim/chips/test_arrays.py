"""Blocks that are larger than an array: tiles with converters, wires and noise of their own."""

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.model.builders import looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from hw_sim.chips.arrays import arrays, tile_table
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CROSSBAR, CrossbarBackend
from hw_sim.chips.messages import recurrent_ways
from hw_sim.chips.wires import column_currents, seen_conductances
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.chips.patches import NETWORKS, batch_of, params_of

IDEAL = CrossbarConfig(on_off_ratio=np.inf)


def chip_of(network: Network, config: CrossbarConfig) -> CrossbarBackend:
    return CrossbarBackend(network, initial_params(network, np.random.default_rng(0)), config)


def test_784_rows_on_tiles_of_128_take_seven_conversions_a_column() -> None:
    """And six additions to join their words; each input has a driver on each tile of its row."""
    hidden = 150
    chip = chip_of(looped_mlp(784, hidden, 10), replace(IDEAL, tile_rows=128, tile_columns=128))
    chip.clamp(np.ones((1, 784)))
    assert chip.counts.total("conversion", "input") == 784 * 2 + 7 * hidden
    assert chip.counts.total("addition", "input") == 6 * hidden
    assert chip.counts.total("cell_read", "input") == 2 * 784 * hidden
    held = chip.footprint.count(chip.network)
    design = Design(chip.network, 8, 8, held, tile=chip.tile)
    parts = Bill(shipped_technologies()["rram_crossbar"], design, chip.counts).energy_parts()
    assert parts["input", "hidden", "addition"] == pytest.approx(6 * hidden * 0.03e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_tiles_that_hold_every_block_change_nothing_but_what_moves(name: str) -> None:
    """States go from the tile where they are kept to those of other blocks."""
    network, (x, y) = NETWORKS[name], batch_of(NETWORKS[name])
    found = []
    for tile in (0, 40):
        config = CrossbarConfig(
            wire_resistance=1e-3, adc_bits=6, read_noise=0.01, tile_rows=tile, tile_columns=tile
        )
        chip = CrossbarBackend(network, params_of(network), config)
        state = chip.settle(chip.clamp(x, y), 0.25, Relaxation(3, 0.0)).state
        inside = {key: n for key, n in chip.counts if key[2] != "hop"}
        found.append((state, inside))
        assert bool(chip.counts.total("hop")) == bool(tile and len(arrays(network)) > 1)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("name", NETWORKS)
def test_perfect_tiles_are_as_good_as_a_whole_array(name: str) -> None:
    """Of every kind of link, in both directions: only the counts differ."""
    network, (x, y) = NETWORKS[name], batch_of(NETWORKS[name])
    states, conversions = [], []
    for rows, columns in ((0, 0), (2, 2)):
        config = replace(IDEAL, tile_rows=rows, tile_columns=columns)
        chip = CrossbarBackend(network, params_of(network), config)
        states.append(chip.settle(chip.clamp(x, y), 0.25, Relaxation(4, 0.0)).state)
        conversions.append(chip.counts.total("conversion"))
    np.testing.assert_allclose(*states, atol=1e-12)
    assert conversions[1] > conversions[0]


def test_backwards_the_rows_of_a_tile_are_its_columns() -> None:
    network = NETWORKS["doubled"]  # blocks of 5 x 3 and 3 x 5, both read both ways
    ways = recurrent_ways(network)
    for way, (joined, driven) in zip(ways, tile_table(ways, (2, 4), True), strict=True):
        words, totals = way.shape
        height, width = (4, 2) if way.backwards else (2, 4)
        assert joined == min(height, words)
        assert driven == ceil(totals / width)
    for way, (joined, _) in zip(ways, tile_table(ways, (2, 4), False), strict=True):
        assert joined == way.shape[0]  # analog currents of all tiles join


def test_each_tile_has_wires_of_its_own() -> None:
    """What the circuits of all tiles lose is what is seen, and less than one array loses."""
    cells, resistance = np.random.default_rng(2).random((7, 10)), 1e-3
    found = seen_conductances(cells, resistance, (3, 4))
    for top in range(0, 7, 3):
        for left in range(0, 10, 4):
            tile = np.s_[top : top + 3, left : left + 4]
            alone = column_currents(cells[tile], resistance, np.eye(len(cells[tile])))
            np.testing.assert_allclose(found[tile], alone, atol=2e-4)
            np.testing.assert_array_equal(found[tile], seen_conductances(cells[tile], resistance))
    assert (found >= seen_conductances(cells, resistance) - 1e-15).all()


@pytest.mark.parametrize("name", ["tile_rows", "tile_columns"])
def test_a_tile_has_a_size(name: str) -> None:
    set_to = CROSSBAR.settings_from({name: 128})
    assert getattr(set_to, name) == 128
    with pytest.raises(EngineError, match=f"{name} -1, expected 0 or at least 1"):
        CrossbarConfig(**{name: -1})  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=f"{name} is 2.5, expected a whole number"):
        CrossbarConfig(**{name: 2.5})  # type: ignore[arg-type]
