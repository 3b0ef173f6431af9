"""`python -m experiments.circuit transient`: ngspice and the engine settle side by side."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from engine import save
from experiments.circuit.__main__ import main
from tests.adapters.spice_cases import drawn, needs_ngspice


def _saved(folder: Path) -> list[str]:
    params, x, y = drawn(5, 4, 6, 3)
    save(folder / "circuit.npz", params)
    np.savez(folder / "mine.npz", x=x, y=y)
    asked = ["transient", str(folder / "circuit.npz"), "--data", str(folder / "mine.npz")]
    return [*asked, "--out", str(folder / "out")]


@needs_ngspice
def test_it_measures_how_long_each_phase_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, out = _saved(tmp_path), tmp_path / "out"
    assert main([*asked, "--samples", "2", "--capacitance", "1e-12"]) == 0
    assert "goal 1%: reached" in capsys.readouterr().out
    record = json.loads((out / "transient.json").read_text())
    assert [phase["phase"] for phase in record["phases"]] == ["free", "nudged"]
    for phase in record["phases"]:
        assert phase["spice_s"] == pytest.approx(phase["engine_s"], rel=0.01)
        assert phase["time_constants"] == pytest.approx(phase["engine_s"] / 1e-12)
        assert 0.1 < phase["time_constants"] < 20
    rows = list(csv.DictReader((out / "waveforms.csv").open()))
    assert {row["phase"] for row in rows} == {"sample 2, free", "sample 2, nudged"}
    assert (out / "transient.png").read_bytes().startswith(b"\x89PNG")
    assert "tran " in (out / "free-2.cir").read_text()
    bent = [*asked, "--diode", "shockley"]
    assert main(bent) == 0
    assert "These parts are not ideal: no goal." in capsys.readouterr().out


def test_a_fraction_that_says_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_saved(tmp_path), "--fraction", "1.5"]) == 2
    assert "the fraction is 1.5, expected less than one" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
