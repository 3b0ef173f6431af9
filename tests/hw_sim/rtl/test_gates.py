"""A core in gates: a library and a dump by hand, and the gates beside the core."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.prices.technology import load_technologies, shipped_technologies
from hw_sim.rtl.activity import (
    LEARNS,
    RESTS,
    SETTLES,
    Activity,
    cycle_energies,
    measure,
    toggle_energies,
)
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.liberty import read_library
from hw_sim.rtl.plan import Plan, RtlError
from hw_sim.rtl.rehearsal import Rehearsal
from hw_sim.rtl.simulation import write_files
from hw_sim.rtl.synthesis import Synthesis, missing_synthesiser, synthesise
from hw_sim.rtl.technology import BASE, NAME, technology_text
from tests.hw_sim.rtl.rtl_cases import (
    NETWORKS,
    SCHEDULE,
    batch,
    needs_iverilog,
    strong_params,
)

needs_yosys = pytest.mark.skipif(
    bool(missing_synthesiser()), reason=missing_synthesiser() or "nothing is missing"
)
LIBRARY = """library(tiny) {  /* two cells */
  voltage_unit : "1V"; leakage_power_unit : "1nW"; nom_voltage : 2.0;
  capacitive_load_unit (1,pf);
  cell (INV) { area : 3; cell_leakage_power : 0.5;
    pin(A) { direction : input; capacitance : 0.25; }
    pin(Y) { direction : output; capacitance : 0;
      internal_power() { related_pin : "A";
        rise_power(t) { index_1 ("0.0, 1.0"); index_2 ("0.1, 0.2");
          values ("9, 1.0", "9, 3.0"); }
        fall_power(t) { index_1 ("0.0, 1.0"); index_2 ("0.1, 0.2");
          values ("9, 2.0", \\
            "9, 4.0"); } } } }
  cell (DFF) { area : 5; cell_leakage_power : 1;
    pin(CLK) { direction : input; capacitance : 0.5; clock : true;
      internal_power() { rise_power(u) { index_1 ("0.1, 0.2"); values ("9, 0.5"); }
        fall_power(u) { index_1 ("0.1, 0.2"); values ("9, 1.5"); } } }
    pin(D) { direction : input; capacitance : 0.125; }
    pin(Q) { direction : output; capacitance : 0; } } }
"""
WIRING = {
    "ports": {"clk": {"bits": [2]}, "add": {"bits": [3]}, "learn": {"bits": [4]}},
    "netnames": {
        "clk": {"bits": [2]}, "add": {"bits": [3]}, "learn": {"bits": [4]},
        "bus": {"bits": [5, 6]}, "same": {"bits": [6, "0"]},
    },
    "cells": {
        "a": {"type": "INV", "connections": {"A": [5], "Y": [6]}},
        "b": {"type": "DFF", "connections": {"CLK": [2], "D": [6], "Q": [5]}},
        "c": {"type": "INV", "connections": {"A": ["1"], "Y": [7]}},
    },
}  # fmt: skip
DUMP = """$var wire 1 ! clk $end
$var wire 1 " add $end
$var wire 1 # learn $end
$var wire 2 $ bus [1:0] $end
$var wire 2 % same [1:0] $end
$enddefinitions $end
#0
$dumpvars
0!
x"
0#
bx $
b0x %
$end
#5
1!
#10
0!
1"
b01 $
#15
1!
#17
b10 $
b01 %
#20
0!
#25
1!
0"
1#
#30
0!
#35
1!
0#
#40
0!
#45
1!
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.lib"
    path.write_text(LIBRARY)
    return path


def _made() -> Synthesis:
    return Synthesis("tiny", {"INV": 2, "DFF": 1}, 11.0, 2.0, 8000.0, "", WIRING)


def test_energies_of_nets_by_hand(library: Path) -> None:
    """Half of the load times 2 V squared; an inverter loses 1.5 + 2 load, a clock pin 1."""
    found = toggle_energies(_made(), read_library(library))
    expected = {2: 2 * 0.5 + 1.0, 5: 2 * 0.25, 6: 2 * 0.125 + 1.5 + 2 * 0.125, 7: 1.5}
    assert found == pytest.approx(expected)


def test_cycles_of_a_dump_by_hand(library: Path) -> None:
    """A cycle ends with a rising edge, which belongs to the next; what is unknown takes nothing."""
    energies = toggle_energies(_made(), read_library(library))
    cycles, spent = cycle_energies(iter(DUMP.splitlines(keepends=True)), _made(), energies)
    clock, bus = 2.0, 0.5 + 2.0
    assert cycles == {SETTLES: 2, LEARNS: 1, RESTS: 1}
    assert spent == pytest.approx({SETTLES: 4 * clock + bus, LEARNS: 2 * clock, RESTS: 2 * clock})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("module x;", "no Liberty file"),
        (LIBRARY.replace("1nW", "1uW"), "has units ('1 pf', '1uW')"),
    ],
)
def test_what_is_no_library_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.lib"
    path.write_text(text)
    with pytest.raises(RtlError, match="bad") as refused:
        read_library(path)
    assert said in str(refused.value)


def test_a_technology_prices_the_core_and_nothing_else(tmp_path: Path) -> None:
    """The gates' product above rest, its time, rest and area; all else as it ships."""
    gross = Activity({}, {SETTLES: 50.0, LEARNS: 40.0, RESTS: 10.0}, 1, 0)
    net = Activity({}, {SETTLES: 30.0, LEARNS: 20.0, RESTS: 8.0}, 1, 0)
    path = tmp_path / "technology.toml"
    path.write_text(technology_text(Plan(NETWORKS["looped"], DigitalConfig()), _made(), gross, net))
    found, base = load_technologies(path)[NAME], shipped_technologies()[BASE]
    mac = found.price("energy", "mac")
    assert (mac.value, mac.low, mac.high) == pytest.approx((40e-12, 22e-12, 80e-12))
    assert found.price("latency", "mac").value == pytest.approx(8e-9)
    assert found.price("power", "neuron").value == pytest.approx(10e-12 / 8e-9)
    assert found.price("area", "neuron").value == pytest.approx(11e-12)
    assert mac.status == "ran"
    own = {("energy", "mac"), ("latency", "mac"), ("power", "neuron"), ("area", "neuron")}
    for section, prices in base.prices.items():
        for name, price in prices.items():
            assert (found.prices[section][name] == price) == ((section, name) not in own)
    assert found.machine == base.machine


@needs_iverilog
@needs_yosys
def test_the_gates_give_the_words_of_the_core(tmp_path: Path) -> None:
    """With delays and without; one exclusive-or in the wrong place is noticed."""
    network, config = NETWORKS["looped"], DigitalConfig(5, 4, 10, table_bits=5)
    plan = Plan(network, config)
    rehearsal = Rehearsal(plan, strong_params(network, 0), SCHEDULE)
    rehearsal.train(*batch(network, 2, 0))
    design = chip_files(plan) | rehearsal.bench_files()
    write_files(tmp_path, design)
    widths = {
        "WORD": plan.word_bits, "OWN": config.state_bits + 1, "WEIGHT": config.weight_bits,
        "ACC": config.accumulator_bits, "TRACE": plan.trace_bits,
    }  # fmt: skip
    made = synthesise("core_logic", widths, tmp_path)
    assert made.cells["DFFPOSX1"] == 2 * config.accumulator_bits + config.state_bits + 2
    gross, net = (measure(tmp_path, design, made, delays) for delays in (True, False))
    assert (gross.differ, net.differ) == (0, 0)
    assert gross.compared > 1000
    assert gross.cycles == net.cycles
    assert gross.energy_pj[SETTLES] > net.energy_pj[SETTLES] > net.energy_pj[RESTS] > 0
    cycles = np.array([gross.cycles[kind] for kind in (SETTLES, LEARNS, RESTS)])
    assert (cycles > 0).all()
    wrong = replace(made, netlist=made.netlist.replace("XOR2X1", "XNOR2X1", 1))
    assert measure(tmp_path, design, wrong, False).differ > 0
