"""The units of a chip as gates: every one is counted, by its flip-flops too."""

from pathlib import Path

import pytest

from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.synthesis import missing_synthesiser
from hw_sim.rtl.units import UNITS, unit_gates
from tests.hw_sim.rtl.rtl_cases import NETWORKS

needs_yosys = pytest.mark.skipif(
    bool(missing_synthesiser()), reason=missing_synthesiser() or "nothing is missing"
)


@needs_yosys
def test_every_unit_is_counted(tmp_path: Path) -> None:
    """Where units are outputs there is no softmax; cores hold a total, a drive and their own."""
    config = DigitalConfig(4, 4, 8, table_bits=4)
    plan = Plan(NETWORKS["squared error"], config)
    found = {unit.name: unit for unit in unit_gates(chip_files(plan), tmp_path)}
    assert set(found) == set(UNITS.values()) - {UNITS["softmax_unit"]}
    cores, register = found[UNITS["core_logic"]], found[UNITS["xorshift"]]
    assert cores.count == found[UNITS["neuron_core"]].count == plan.cores == 8
    assert cores.cells["DFFPOSX1"] == 8 * (2 * config.accumulator_bits + config.state_bits + 2)
    assert register.cells["DFFPOSX1"] == 32
    assert all(unit.count == 1 for unit in found.values() if unit.name[:4] != "core")
    assert all(unit.area_um2 > 0 for unit in found.values())
