"""Floor plans: what lies where, how much of it is in use, and where the work was done."""

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.chip import Chip
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.floor_plan import on_cores, on_tiles
from hw_sim.chips.spiking import SpikingBackend, SpikingConfig
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.technology import shipped_technologies
from tests.hw_sim.chips.hand_chip import NETWORKS
from tests.hw_sim.chips.patches import NETWORKS as SHARED
from tests.hw_sim.chips.patches import batch_of, params_of


def test_784_256_10_fills_most_of_twenty_tiles() -> None:
    plan = on_tiles(looped_mlp(784, 256, 10), (128, 128))
    assert [spot.holds for spot in plan.spots] == ["W_in"] * 14 + ["W_rec"] * 4 + ["W_out"] * 2
    weights = 784 * 256 + 256 * 256 + 256 * 10
    assert sum(spot.synapses for spot in plan.spots) == weights
    assert plan.utilisation == pytest.approx(weights / (20 * 128 * 128))
    assert (plan.spots[12].rows, plan.spots[12].columns) == (16, 128)  # 784 = 6 x 128 + 16
    assert plan.side == 5


def test_cores_hold_units_in_their_order_and_outputs_after_them() -> None:
    plan = on_cores(looped_mlp(64, 40, 10), 32)
    assert [(spot.holds, spot.used, spot.room) for spot in plan.spots] == [
        ("hidden", 32, 32), ("hidden, readout", 18, 32)
    ]  # fmt: skip
    assert [spot.synapses for spot in plan.spots] == [32 * (64 + 40), 8 * (64 + 40) + 10 * 40]
    assert plan.utilisation == pytest.approx(50 / 64)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_neuron_lies_on_one_core(name: str) -> None:
    """Also where units are the outputs, which then have no neurons of their own."""
    network = NETWORKS[name]
    outside = network.outputs if network.reading and network.reading.link else 0
    for per_core in (1, 2, 100):
        spots = on_cores(network, per_core).spots
        assert sum(spot.used for spot in spots) == network.units + outside
        assert all(0 < spot.used <= per_core for spot in spots)


def inference(chip: Chip, settings: object) -> tuple:
    network, rng = looped_mlp(20, 12, 3), np.random.default_rng(0)
    backend = chip.backend(network, initial_params(network, rng), settings)
    x = rng.standard_normal((4, 20))
    backend.predict(backend.settle(backend.clamp(x), relaxation=Relaxation(6, 1e-3)))
    return network, backend


def test_words_passed_on_are_all_hops_that_were_counted() -> None:
    settings = CrossbarConfig(tile_rows=8, tile_columns=4)
    network, chip = inference(CHIPS["crossbar"], settings)
    busy = settings.hot_spots(network, chip.counts, chip.core_work)
    plan = settings.floor_plan(network)
    assert plan is not None
    assert len(busy) == len(plan.spots) == 3 * 3 + 2 * 3 + 2
    assert busy.sum() == chip.counts.total("hop") > 0
    assert isinstance(chip, CrossbarBackend)


@pytest.mark.parametrize("name", SHARED)
def test_words_passed_on_are_all_hops_of_a_training_step(name: str) -> None:
    """Of shared blocks and of several layers, in all phases, on a mesh that is not full."""
    network, (x, y) = SHARED[name], batch_of(SHARED[name])
    settings = CrossbarConfig(tile_rows=2, tile_columns=3)
    chip = CrossbarBackend(network, params_of(network), settings)
    clamped, gradient = chip.clamp(x, y), np.zeros(network.size)
    for beta, cost in ((0.0, 1.0), (0.25, 0.0)):
        settled = chip.settle(clamped, beta, Relaxation(3, 0.0))
        chip.accumulate(clamped, settled, gradient, energy=beta, cost=cost)
    chip.predict(settled)
    busy = settings.hot_spots(network, chip.counts, chip.core_work)
    assert busy.sum() == chip.counts.total("hop") > 0


def test_the_work_of_cores_is_all_that_was_counted() -> None:
    """Synaptic operations meet every product, and messages are received as often as sent."""
    settings = SpikingConfig(neurons_per_core=4, threshold=0.0)
    network, chip = inference(CHIPS["spiking"], settings)
    assert isinstance(chip, SpikingBackend)
    updates, spikes, sends, receives, synapses = chip.core_work.sum(1)
    assert spikes == chip.counts.total("spike_out")
    assert receives == chip.counts.total("message")
    assert sends == receives - chip.counts.total("message", "input")
    assert synapses == chip.counts.total("mac")
    busy = settings.hot_spots(network, chip.counts, chip.core_work)
    assert len(busy) == 4
    each = np.array([9.7, 30.0, 5.1, 16.0, 3.8]) @ [updates, spikes, sends, receives, synapses]
    assert busy.sum() == pytest.approx(each)


def test_chips_without_tiles_or_cores_have_no_floor_plan() -> None:
    network = looped_mlp(4, 3, 2)
    assert CHIPS["digital"].settings.floor_plan(network) is None
    assert CrossbarConfig().floor_plan(network) is None


def test_tiles_take_area_and_leak_by_their_converters() -> None:
    """Beyond one for each neuron; a router for each tile."""
    network = looped_mlp(20, 12, 3)
    chip = CrossbarBackend(network, initial_params(network, np.random.default_rng(0)))
    memory = chip.footprint.count(network)
    technology = shipped_technologies()["rram_crossbar"]
    whole, cut = (
        Bill(technology, Design(network, 8, 8, memory, tile=tile), chip.counts)
        for tile in ((0, 0), (8, 12))
    )
    lines = (8 + 12) + (8 + 12) + (4 + 12) + (8 + 12) + (4 + 12) + (8 + 3) + (4 + 3)
    assert sum(cut.tile_converters()) == lines
    further = lines - (12 + 3)
    area = cut.area_sum().nominal - whole.area_sum().nominal
    assert area == pytest.approx(further * 1200e-12 + 7 * 37500e-12)
    power = cut.static_sum().nominal - whole.static_sum().nominal
    assert power == pytest.approx(further * 20e-6)
