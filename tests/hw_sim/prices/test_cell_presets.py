"""Presets of cells: they fit the crossbar, state their sources, and price what they change."""

from dataclasses import replace

import pytest

from hw_sim.chips.crossbar import MIDDLING
from hw_sim.prices.cell_presets import PRESETS, priced_with, read_price
from hw_sim.prices.price import STATUSES
from hw_sim.prices.technology import shipped_technologies


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_crossbar_with_sources(name: str) -> None:
    preset = PRESETS[name]
    kinds = {k: type(getattr(MIDDLING, k)) for k in preset.settings}
    chip = replace(MIDDLING, **{k: kinds[k](s.value) for k, s in preset.settings.items()})
    assert chip.on_off_ratio == preset.settings["on_off_ratio"].value
    assert preset.assignments("crossbar")[0] == f"crossbar.on_off_ratio={chip.on_off_ratio:g}"
    for stated in preset.settings.values():
        assert stated.status in STATUSES
        assert len(stated.source) > 5
    for price in (preset.read, preset.write, preset.endurance):
        assert price.status in STATUSES
        assert 0.0 < price.low <= price.value <= price.high


def test_resistances_and_their_ratio_agree() -> None:
    """A read takes `V^2 t / R`: its ends are a cell that is off for a tenth of the time, and on."""
    for name, on, off, energy in (
        ("rram_isaac", 1.33e3, 2e4, 0.2**2 * 1e-8),
        ("rram_neurram", 2.5e5, 1e6, 0.2**2 * 1e-8),
        ("rram_2v", 6e3, 9e5, 0.2**2 * 1e-8),
        ("neurosim_ideal", 1 / 5e-6, 1 / 1e-7, 0.5**2 * 5e-9),
        ("neurosim_real", 1 / 1e-5, 1 / 4.76e-7, 0.5**2 * 5e-9),
        ("pcm", 4e4, 4e6, 0.2**2 * 1e-8),
    ):
        preset = PRESETS[name]
        assert preset.settings["on_off_ratio"].value == pytest.approx(off / on, rel=0.01)
        assert preset.read.value == pytest.approx(energy / on, rel=0.01)
        assert preset.read.low == pytest.approx(0.1 * energy / off, rel=0.01)
    neurram = shipped_technologies()["rram_crossbar"].price_at("energy", "cell_read", {})
    assert neurram.value == pytest.approx(read_price(2.5e5, 1e6, "the same cell").value)


def test_pulses_of_neurosim_take_what_its_numbers_say() -> None:
    """`V^2 G t` at the mean conductance, and at both ends of it."""
    for name, low, high, seconds in (
        ("neurosim_ideal", 1e-7, 5e-6, 1e-8), ("neurosim_real", 4.76e-7, 1e-5, 8e-8),
    ):  # fmt: skip
        found = PRESETS[name].write
        ends = [2.0**2 * g * seconds for g in (low, (low + high) / 2, high)]
        assert [found.low, found.value, found.high] == pytest.approx(ends, rel=0.01)


def test_only_technologies_with_cells_are_changed() -> None:
    shipped, preset = shipped_technologies(), PRESETS["pcm"]
    for name, technology in shipped.items():
        found = priced_with(technology, preset)
        if name == "rram_crossbar":
            assert found.price("energy", "cell_read") == preset.read
            assert found.price("energy", "weight_write") == preset.write
            assert found.price("energy", "conversion") == technology.price("energy", "conversion")
            assert found.price("endurance", "weight_write") == preset.endurance
        else:
            assert found == technology
