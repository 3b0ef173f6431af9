"""Rows of circuits: from what the commands write."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from engine import initial_params, resistive, save
from experiments.circuit.__main__ import main
from experiments.reporting.number_text import NONE
from experiments.tables.readers.catalogue import READERS
from experiments.tables.registry import MEASUREMENTS
from experiments.tables.stored import TablesError
from tests.adapters.spice_cases import needs_ngspice
from tests.experiments.tables.readers.reader_cases import fitting_rows
from tests.hw_sim.rtl.rtl_cases import needs_iverilog


def test_a_row_of_a_circuit_has_its_options_from_the_command(tmp_path: Path) -> None:
    runs = [{"seed": 42 + k, "accuracy": a, "cpu_seconds": 1.2} for k, a in enumerate((0.9, 0.92))]
    content = {"task": "digits", "sizes": [64, 128, 10], "runs": runs}
    (tmp_path / "circuits.json").write_text(json.dumps(content), encoding="utf-8")
    (row,) = READERS["circuit"](tmp_path, MEASUREMENTS["circuit-digits"].command, tmp_path)
    assert row == ("digits", "64-128-10", "20", "42 to 43", "91.00 ± 1.41", NONE, "1 s")


def _as_if_by(name: str, record: Path) -> None:
    """Let a small run stand for the whole one: the same file, by the command of the table."""
    content = json.loads(record.read_text(encoding="utf-8"))
    assert content["command"].startswith("python -m experiments.circuit ")
    content["command"] = MEASUREMENTS[name].command
    record.write_text(json.dumps(content), encoding="utf-8")


@needs_ngspice
@needs_iverilog
def test_agreement_is_what_agree_writes(tmp_path: Path) -> None:
    assert main(["agree", "--out", str(tmp_path)]) == 0
    rows = fitting_rows(tmp_path, "agreement")
    assert [row[0] for row in rows].count("") == 8
    assert rows[1][1:] == ("engine, ngspice with ideal diodes", rows[1][2], "1e-6 V")
    assert re.fullmatch(r"\d\.\de-\d+ V", rows[1][2])
    assert rows[2][3] == "none"
    assert re.fullmatch(r"0\.\d+ %", rows[3][2])
    assert rows[3][3] == "1 %"
    assert rows[10][2] == "0 of 2,194 words"
    content = json.loads((tmp_path / "agreement.json").read_text(encoding="utf-8"))
    content["rows"][0]["found"] = 0.5
    (tmp_path / "agreement.json").write_text(json.dumps(content), encoding="utf-8")
    assert fitting_rows(tmp_path, "agreement")[0][2] == "0.5 V"


@needs_ngspice
def test_rows_of_ngspice_are_what_spice_and_transient_write(tmp_path: Path) -> None:
    params = initial_params(resistive((64, 4, 10)), np.random.default_rng(0))
    save(tmp_path / "circuit.npz", params)
    given = [str(tmp_path / "circuit.npz"), "--task", "digits", "--out", str(tmp_path)]
    assert main(["spice", *given, "--samples", "0", "1", "2"]) == 0
    _as_if_by("spice", tmp_path / "spice.json")
    ((circuit, diodes, largest, apart, goal),) = fitting_rows(tmp_path, "spice")
    assert (circuit, diodes) == ("64-4-10, trained on digits, 3 samples", "ideal")
    assert largest.endswith(" V")
    assert float(apart.removesuffix(" V")) < 1e-6
    assert goal == "1e-6 V"
    shockley = ["--diode", "shockley", "--saturation", "1e-6", "--emission", "2"]
    assert main(["spice", *given, *shockley]) == 0
    _as_if_by("spice-leaking", tmp_path / "spice.json")
    ((circuit, diodes, _, _, goal),) = fitting_rows(tmp_path, "spice-leaking")
    assert (circuit, diodes) == (
        "64-4-10, trained on digits, 1 sample",
        "Shockley, 1e-6 A, emission 2",
    )
    assert goal == "none"
    assert main(["transient", *given]) == 0
    _as_if_by("transient", tmp_path / "transient.json")
    rows = fitting_rows(tmp_path, "transient")
    assert [row[:3] for row in rows] == [
        ("64-4-10, trained on digits", "ideal", phase) for phase in ("free", "nudged")
    ]
    phases = json.loads((tmp_path / "transient.json").read_text(encoding="utf-8"))["phases"]
    assert rows[0][3] == f"{1e6 * phases[0]['spice_s']:.5g} µs"
    assert (tmp_path / MEASUREMENTS["transient-picture"].picture).is_file()


def test_rows_of_spread_are_those_that_the_command_writes(tmp_path: Path) -> None:
    small = ["--hidden", "4", "--epochs", "1", "--samples", "64", "--seeds", "1", "--draws", "1"]
    assert main(["spread", "--task", "digits", *small, "--out", str(tmp_path)]) == 0
    _as_if_by("spread", tmp_path / "spread.json")
    rows = fitting_rows(tmp_path, "spread")
    assert [row[:2] for row in rows[:3]] == [("0", "0"), ("0.05", "0"), ("0.1", "0")]
    assert rows[-1][:3] == ("0", "8", "1")
    outcome = json.loads((tmp_path / "spread.json").read_text(encoding="utf-8"))["outcomes"][-1]
    assert rows[-1][3] == f"{100 * outcome['loaded']:.2f}"
    assert (tmp_path / MEASUREMENTS["spread-picture"].picture).is_file()


def test_a_table_is_not_made_of_another_circuit(tmp_path: Path) -> None:
    (tmp_path / "spice.json").write_text(json.dumps({"command": "python -m other"}), "utf-8")
    with pytest.raises(TablesError, match="was written by `python -m other`, not by"):
        fitting_rows(tmp_path, "spice")
