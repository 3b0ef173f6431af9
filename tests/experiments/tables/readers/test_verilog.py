"""Rows of Verilog: from what the commands write."""

import json
from pathlib import Path

import pytest

from engine import looped_mlp
from experiments.circuit import words
from experiments.circuit.__main__ import main
from experiments.tables.registry import MEASUREMENTS
from tests.experiments.tables.readers.reader_cases import fitting_rows
from tests.hw_sim.rtl.rtl_cases import needs_iverilog


@needs_iverilog
def test_rows_of_words_have_each_kind_and_none_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "DRAWN", looped_mlp(3, 2, 10))
    monkeypatch.setattr(words, "CASES", (("drawn", words.Widths(6, 6, 12, 1.0)),) * 10)
    assert main(["words", "--out", str(tmp_path)]) == 0
    rows = fitting_rows(tmp_path, "words")
    assert rows[0][:2] == ("as drawn 3-2-10", "6 / 6 / 12 (`--weight-range 1`)")
    record = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))["rows"][0]
    assert rows[0][2] == f"{record['words']['states']:,}"
    assert sum(record["words"].values()) == record["compared"] > 300
    assert rows[0][-1] == "0"
    assert {path.name for path in tmp_path.glob("*.npz")} == {
        "digits.npz",
        "layered.npz",
        "looped.npz",
        "squared.npz",
    }


def test_rows_of_gates_are_both_tables(tmp_path: Path) -> None:
    content = {
        "command": MEASUREMENTS["gates-logic"].command,
        "logic": [["area of the cells", "66 um2", ""]] * 8,
        "products": [["a product", "1.0 pJ", "0.5 to 2.0"]] * 5,
    }
    (tmp_path / "verilog").mkdir()
    (tmp_path / "verilog" / "gates.json").write_text(json.dumps(content), encoding="utf-8")
    assert fitting_rows(tmp_path, "gates-logic")[0] == ("area of the cells", "66 µm²", "")
    assert fitting_rows(tmp_path, "gates-products")[0] == ("a product", "1.0 pJ", "0.5 to 2.0")
