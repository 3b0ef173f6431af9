"""A chip is one object: whoever lists, prices, sets or builds chips finds all of it there."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.chip import Chip
from hw_sim.events import WAITS
from hw_sim.prices.technology import shipped_technologies

NETWORK = looped_mlp(3, 40, 2)
"""On more than one core of any mesh."""
each_chip = pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)


@each_chip
def test_what_a_chip_does_is_what_it_says_needs_a_price(chip: Chip) -> None:
    """Every event of a training step is declared, and every declared event has happened."""
    rng = np.random.default_rng(0)
    backend = chip.build(NETWORK, initial_params(NETWORK, rng, np.float64), chip.settings)
    clamped = backend.clamp(rng.standard_normal((4, 3)), np.eye(2)[[0, 1, 1, 0]])
    gradient = np.zeros(NETWORK.size)
    free = backend.settle(clamped, 0.0, Relaxation(4))
    for beta in (-0.5, 0.5):
        nudged = backend.settle(clamped, beta, Relaxation(4), free.state)
        backend.accumulate(clamped, nudged, gradient, energy=beta)
    backend.accumulate(clamped, free, gradient, cost=1.0)
    backend.apply(-gradient)
    assert {key[2] for key, _ in backend.counts} - set(WAITS) == set(chip.events)
    assert (backend.most_writes > 0) == bool(backend.footprint.cells)  # only cells wear
    for name in chip.technologies:
        for kind in chip.events:
            assert shipped_technologies()[name].price("energy", kind).name == kind


@each_chip
def test_a_chip_is_found_by_its_name_and_its_settings_by_theirs(chip: Chip) -> None:
    assert CHIPS[chip.name] is chip
    assert chip.settings_from(asdict(chip.settings)) == chip.settings


def test_settings_say_what_a_price_scales_with() -> None:
    digital, crossbar, spiking = (
        CHIPS[k].settings_from for k in ("digital", "crossbar", "spiking")
    )
    assert digital({"weight_bits": 11, "state_bits": 7}).word_bits == (11, 7)
    assert crossbar({"adc_bits": 5}).word_bits == (8, 5)
    assert crossbar({"adc_bits": 0}).word_bits == (8, 8)
    assert spiking({}).word_bits == (8, 8)
    assert crossbar({"convert_each_step": False}).stays_analog
    assert not any(settings({}).stays_analog for settings in (digital, crossbar, spiking))


def test_a_seed_changes_what_is_random_and_nothing_else() -> None:
    for chip in CHIPS.values():
        one, two = chip.settings.with_seed(0), chip.settings.with_seed(1)
        assert (one != two) == hasattr(chip.settings, "seed")
        if one != two:
            assert replace(two, seed=one.seed) == one  # type: ignore[attr-defined]
