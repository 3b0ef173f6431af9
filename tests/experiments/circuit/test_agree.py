"""`python -m experiments.circuit agree`: the table, what is not run, and a fault that is seen."""

import json
from pathlib import Path

import pytest

from adapters import spice_netlist, spice_run
from engine import load
from experiments.circuit import agree
from experiments.circuit.__main__ import main
from hw_sim.rtl import simulation
from tests.adapters.spice_cases import needs_ngspice
from tests.hw_sim.rtl.rtl_cases import needs_iverilog


def _rows(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((folder / "agreement.json").read_text())["rows"]
    return found


@needs_ngspice
@needs_iverilog
def test_engine_circuit_and_words_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agree", "--out", str(tmp_path)]) == 0
    rows = _rows(tmp_path)
    assert len(rows) == 12
    assert {row["verdict"] for row in rows} == {"reached", "reported"}
    for row in rows:
        if "shockley" in str(row["compared"]):
            assert 0.1 < float(str(row["found"])) < 2.0
        if "Verilog" in str(row["compared"]):
            assert row["found"] == 0
            words = str(row["note"]).removeprefix("of ").removesuffix(" words")
            assert int(words.replace(",", "")) > 2000
    assert main(["draw", str(tmp_path / "circuit-2-4-2.cir")]) == 0
    assert load(tmp_path / "circuit-2-4-2.npz")[0].network.sizes["outputs"] == 2
    assert "| looped 3-8-2, exclusive or | simulated chip" in capsys.readouterr().out


def test_without_the_tools_rows_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spice_run.shutil, "which", lambda name: None)
    assert main(["agree", "--out", str(tmp_path)]) == 0
    rows = _rows(tmp_path)
    assert [row["verdict"] for row in rows].count("not run") == 10
    assert [row["verdict"] for row in rows].count("reached") == 2
    printed = capsys.readouterr().out
    assert "it is in the package ngspice." in printed
    assert simulation.missing_simulator() in printed


@needs_ngspice
def test_a_netlist_with_a_fault_is_a_goal_that_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_a_leak(*given: object) -> str:
        return spice_netlist.write_netlist(*given).replace("Rl2_0 n2_0 0 1\n", "")  # type: ignore[arg-type]

    monkeypatch.setattr(agree, "write_netlist", without_a_leak)
    monkeypatch.setattr(agree, "_circuits", lambda: iter([next(_circuits())]))
    monkeypatch.setattr(agree, "_digitals", lambda: iter(()))
    assert main(["agree", "--out", str(tmp_path)]) == 1
    missed = [row["compared"] for row in _rows(tmp_path) if row["verdict"] == "missed"]
    assert missed == ["engine, ngspice with ideal diodes"]


_circuits = agree._circuits
