"""One wrong line in the description, or in what generates it, and the comparison fails."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import layered
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.rtl.description import chip_files
from hw_sim.rtl.plan import Plan, RtlError
from hw_sim.rtl.rehearsal import FREE, NUDGE, Rehearsal
from hw_sim.rtl.schedule import Schedule
from hw_sim.rtl.simulation import simulate, write_files
from tests.hw_sim.rtl.rtl_cases import (
    NETWORKS,
    batch,
    compared,
    needs_iverilog,
    strong_params,
)

SOFTMAX = {
    "saturation is not symmetric": ("saturate", "LOW = -HIGH;", "LOW = -HIGH - 1;"),
    "nothing saturates": ("core_logic", "total <= clipped_sum;", "total <= sum[ACC-1:0];"),
    "a sum begins at what was there": ("core_logic", "= first ? {SUM{1'b0}} :", "= 1'b0 ? 0 :"),
    "the nudge is rounded down": (
        "round_shift", "+ $signed({{(OUT - 1){1'b0}}, value[SHIFT-1]})", ""
    ),
    "the nudge has a point elsewhere": ("nudge_unit", "BELOW = 12", "BELOW = 11"),
    "the nudge is added": ("activation_unit", "- (entered_pulled ?", "+ (entered_pulled ?"),
    "addresses wrap around": (
        "activation_unit", "near > LAST ? LAST : near < FIRST ? FIRST : near", "near"
    ),
    "the halves of a table are exchanged": ("activation_unit", "~place", "place"),
    "the register shifts by 15": ("xorshift", "a >> 17", "a >> 15"),
    "the second of a pair draws, too": ("weight_walk", "draws = ~partner", "draws = 1'b1"),
    "the update is rounded down": ("update_unit", "$signed({{(CHANGE - 15){1'b0}}, random})", "0"),
    "an update that is shifted to the right loses its sign": (
        "update_unit", "wide >>> down", "wide >> down"
    ),
    "an update beyond its word wraps around": (
        "update_unit", "local_rule ? earned :", "local_rule ? scaled[CHANGE-1:0] :"
    ),
    "a free state that does not rest is the last but one": (
        "control", "free <= rests ? here : there;", "free <= here;"
    ),
    "a rate shifts by one more": ("update_unit", "wide <<< shift", "wide <<< (shift + 7'd1)"),
    "the state is taken before the test": ("control", "if (!rests) here <=", "here <="),
    "it stops one word late": ("control", "gap <= tolerance;", "gap < tolerance;"),
    "it goes on when it rests": ("control", "!rests && !last_step", "!last_step"),
    "it takes a step more": ("control", "steps + 1'b1 == step_limit", "steps == step_limit"),
    "a nudge begins where the last one ended": (
        "control", "else if (command != LEARN) here <= free;", ""
    ),
    "a phase writes over the free state": (
        "control", "here == free ? beside : 2'd3 - here - free", "beside"
    ),
    "both nudges are learned alike": ("core_logic", "negate ? trace - together :", "1'b0 ? 0 :"),
    "traces stay": ("neuron_core", "clear_trace ? {TRACE{1'b0}} :", "1'b0 ? 0 :"),
    "the share is rounded down": (
        "softmax_unit", "+ {{(STATE + 1){1'b0}}, norm[NORM-1:1]}", ""
    ),
    "the first logit counts as the largest": ("softmax_unit", "|| logit > largest", ""),
    "odds are looked up one deeper": ("softmax_unit", "wide_depth[ADDRESS-1:0] :", "~0 :"),
    "a copy is not written": ("settle_chip", "owns | copies", "owns"),
    "a symmetric weight learns twice": ("settle_chip", "symmetric ? rate -", "1'b0 ? rate -"),
    "an input has another row": ("settle_chip", "INPUT: begin hears_0 = 1'b1; row_0 = index +",
        "INPUT: begin hears_0 = 1'b1; row_0 = index -"),
    "a chip that never ends": ("control", "if (index == sweep_last) doing <= DRAIN;", ""),
}  # fmt: skip
"""What is wrong: file, line, and what stands there instead. Each is noticed by another word."""
DIRECT = {
    "the error has another sign": ("nudge_unit", "- {{(ERROR - TARGET)", "+ {{(ERROR - TARGET)"),
    "the nudge is not brought to the point": ("nudge_unit", "wide <<< FRACTION", "wide"),
    "the wrong target": ("settle_chip", "index - FIRST[INDEX-1:0] : output_index", "index : 0"),
    "a layer hears its neighbour one late": (
        "settle_chip", "row_1 = index - 4'd0 + 4'd1", "row_1 = index - 4'd0 + 4'd2"
    ),
}  # fmt: skip
"""The same where units are outputs."""
SQUARED = layered((4, 5, 3), readout="squared_error")
ROUNDED = DigitalConfig(8, 6, 12, table_bits=7, table_range=0.5, seed=9)


@cache
def _rehearsal(direct: bool) -> Rehearsal:
    """Saturate, stop early and late, learn alone, be told, and shift traces both ways."""
    network = SQUARED if direct else NETWORKS["looped"]
    schedule = Schedule(0.25, Relaxation(6, 2.0**-4), Relaxation(6, 2.0**-2), lr=1.0)
    params = strong_params(network, 1)
    params.theta[:] *= 0.4
    rehearsal = Rehearsal(Plan(network, ROUNDED), params, schedule)
    rehearsal.train(*batch(network, 4, 0))
    update = np.random.default_rng(0).normal(0.0, 0.5, network.size)
    rehearsal.visit(*batch(network, 2, 1), update)
    rehearsal.train(*batch(network, 2, 2))
    for lr in (2.0**-16, 2.0**20):
        short = replace(schedule, lr=lr, free=Relaxation(1, 0.0), nudged=Relaxation(1, 0.0))
        assert (short.shifts(rehearsal.plan, 1)[0] < 0) == (lr < 1)
        rehearsal.schedule = short
        rehearsal.train(*batch(network, 1, 3))
    for command in (FREE, NUDGE):
        phases = [line for line in rehearsal.lines if line["command"] == command]
        assert {line["steps"] == line["limit"] for line in phases} == {True, False}
    return rehearsal


def _broken(rehearsal: Rehearsal, fault: tuple[str, str, str]) -> dict[str, str]:
    file, line, instead = fault
    text = chip_files(rehearsal.plan)[f"{file}.v"]
    assert line in text
    return {file: text.replace(line, instead)}


@needs_iverilog
@pytest.mark.parametrize("direct", [False, True])
def test_without_a_fault_all_words_agree(direct: bool, tmp_path: Path) -> None:
    found = compared(_rehearsal(direct), tmp_path)
    assert found.differ == 0, found.printed


@needs_iverilog
@pytest.mark.parametrize("fault", SOFTMAX)
def test_a_fault_is_noticed(fault: str, tmp_path: Path) -> None:
    assert _differ(_rehearsal(False), SOFTMAX[fault], tmp_path) > 0


@needs_iverilog
@pytest.mark.parametrize("fault", DIRECT)
def test_a_fault_is_noticed_where_units_are_outputs(fault: str, tmp_path: Path) -> None:
    assert _differ(_rehearsal(True), DIRECT[fault], tmp_path) > 0


def _differ(rehearsal: Rehearsal, fault: tuple[str, str, str], folder: Path) -> int:
    return compared(rehearsal, folder, **_broken(rehearsal, fault)).differ


@needs_iverilog
def test_a_file_that_is_no_verilog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RtlError, match="iverilog refused the design"):
        compared(_rehearsal(True), tmp_path, saturate="module saturate(; endmodule\n")


@needs_iverilog
@pytest.mark.parametrize("name", ["weights", "states", "drives", "ends", "errors"])
def test_a_word_that_is_expected_wrong_is_noticed(name: str, tmp_path: Path) -> None:
    """The bench reads what it compares with: one word changed is one word that differs."""
    rehearsal = _rehearsal(False)
    texts = chip_files(rehearsal.plan) | rehearsal.bench_files()
    first, rest = texts[f"{name}.hex"].split("\n", 1)
    texts[f"{name}.hex"] = f"{int(first, 16) ^ 1:0{len(first)}x}\n{rest}"
    write_files(tmp_path, texts)
    assert simulate(tmp_path, texts, longest_s=60.0).differ == 1
