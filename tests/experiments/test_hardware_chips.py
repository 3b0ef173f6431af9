"""A chip that is new to the command: one entry in the catalogue, and all of it works."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.hardware.contest import check_prices, design_of, summarise
from experiments.hardware.job import Job, network_of, run_job
from experiments.hardware.settings import Settings, changed
from experiments.tasks import find_task
from hw_sim.audit.training_step import audit_substrate
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.chip import Chip
from hw_sim.chips.digital import DIGITAL
from hw_sim.prices.technology import TechnologyError, shipped_technologies

NETWORK = looped_mlp(3, 4, 2)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Chip:
    """A fourth chip, entered in the one list."""
    settings = DIGITAL.settings_from({"weight_bits": 9})
    chip = replace(DIGITAL, name="twin", settings=settings, technologies=("digital_7nm",))
    monkeypatch.setitem(CHIPS, "twin", chip)
    return chip


def test_a_new_chip_needs_one_entry_to_be_set_run_priced_and_audited(twin: Chip) -> None:
    settings = changed(Settings(), ["twin.state_bits=9", "hidden=3", "epochs=1", "free_steps=2"])
    check_prices(["twin"], settings.chips, shipped_technologies(), None)
    job = Job(find_task("digits"), "eqprop", "twin", 42, settings)
    outcome = run_job(job)
    assert outcome.settings["twin"]["state_bits"] == 9
    assert outcome.saturations.keys() == {"accumulator", "weight", "input", "load"}
    design = design_of(outcome, network_of(job))
    assert (design.weight_bits, design.state_bits) == (9, 9)
    priced = summarise(
        "digits", [outcome, replace(outcome, learner="bptt")], [], shipped_technologies(), None,
        0.0, {"eqprop": network_of(job), "bptt": network_of(job)},
    )  # fmt: skip
    assert [c.technology.name for c in priced.contests] == ["digital_7nm"]
    chip = twin.build(NETWORK, initial_params(NETWORK, np.random.default_rng(0)), twin.settings)
    assert audit_substrate(chip, np.ones((1, 3)), np.eye(2)[:1]).synapse_writes == 2 * NETWORK.size


def test_an_unknown_chip_is_refused_by_name() -> None:
    with pytest.raises(EngineError, match="no substrate 'twin'; known: digital, crossbar, spiking"):
        changed(Settings(), ["twin.state_bits=9"])


def test_only_tiles_need_a_price_of_additions() -> None:
    technologies = dict(shipped_technologies())
    crossbar = technologies["rram_crossbar"]
    energy = {k: v for k, v in crossbar.prices["energy"].items() if k != "addition"}
    cheap = {"cheap": replace(crossbar, name="cheap", prices={**crossbar.prices, "energy": energy})}
    check_prices(["crossbar"], Settings().chips, cheap, ["cheap"])
    tiled = changed(Settings(), ["crossbar.tile_rows=128"])
    check_prices(["crossbar"], tiled.chips, technologies, None)
    with pytest.raises(TechnologyError, match="no energy price for 'addition'"):
        check_prices(["crossbar"], tiled.chips, cheap, ["cheap"])


def test_all_that_a_technology_lacks_on_any_of_its_chips_is_named_at_once() -> None:
    """First energies, then times, then areas: each in one sentence."""
    shipped, chips = shipped_technologies(), Settings().chips

    def sentence(**changes: Any) -> str:
        known = {"mine": replace(shipped["rram_crossbar"], name="mine", **changes)}
        with pytest.raises(TechnologyError) as refused:
            check_prices(["crossbar", "spiking"], chips, known, ["mine"])
        return str(refused.value)

    whole = shipped["rram_crossbar"].prices
    found = sentence(prices={**whole, "energy": {"mac": whole["energy"]["mac"]}})
    needed = {*CHIPS["crossbar"].events, *CHIPS["spiking"].events} - {"mac"}
    assert set(re.findall("'(\\w+)'", found)) == {"mine", *needed}
    spoken = {"message": whole["energy"]["mac"], "spike_out": whole["energy"]["mac"]}
    energy = {**whole["energy"], **spoken}
    found = sentence(prices={**whole, "energy": energy})
    assert "neither how long 'message', 'spike_out' take" in found
    machine = replace(shipped["rram_crossbar"].machine, stated=False)
    found = sentence(prices={**whole, "energy": energy, "area": {"x": None}}, machine=machine)
    assert found.endswith("no area price for 'neuron', 'memory_bit', 'cell'.")
