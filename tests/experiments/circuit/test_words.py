"""`words`: what it keeps, and a word that differs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine import load, looped_mlp
from experiments.circuit import words
from experiments.circuit.__main__ import main
from hw_sim.rtl import simulation
from hw_sim.rtl.simulation import Comparison
from tests.hw_sim.rtl.rtl_cases import needs_iverilog


def test_networks_are_kept_without_a_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulation.shutil, "which", lambda name: None)
    assert main(["words", "--train-only", "--out", str(tmp_path)]) == 0
    assert load(tmp_path / "layered.npz")[0].network.sizes["layer2"] == 16
    assert not (tmp_path / "words.json").exists()
    assert main(["words", "--out", str(tmp_path)]) == 2
    assert "it is in the package iverilog" in capsys.readouterr().out


@needs_iverilog
def test_a_word_that_differs_is_a_goal_that_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_off(*given: object) -> Comparison:
        found = simulation.simulate(*given)  # type: ignore[arg-type]
        compared, _ = found.kinds["weights"]
        return replace(found, kinds={**found.kinds, "weights": (compared, 1)})

    monkeypatch.setattr(words, "DRAWN", looped_mlp(3, 2, 10))
    monkeypatch.setattr(words, "CASES", (("drawn", words.Widths()),))
    monkeypatch.setattr(words, "simulate", one_off)
    assert main(["words", "--out", str(tmp_path)]) == 1
    (row,) = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))["rows"]
    assert row["differ"] == 1
