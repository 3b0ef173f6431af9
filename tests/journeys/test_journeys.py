"""What users do from beginning to end, by the words that they type.

The journey through scikit-learn is in `tests/adapters/test_sklearn_estimator.py`, that of a
contributor in `tests/docs/test_examples.py`, which applies the recipes of docs/extending.md.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from settle.__main__ import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, as far from the code as any."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write_flowers(path: Path) -> None:
    """A table as spreadsheets of half the world export it: semicolons, commas, an index."""
    x, y = load_iris(return_X_y=True)
    names = ("setosa", "versicolor", "virginica")
    rows = [["", "sepal length", "sepal width", "petal length", "petal width", "species"]]
    for k, (row, place) in enumerate(zip(x, y, strict=True)):
        rows.append([str(k), *(f"{v:.1f}".replace(".", ",") for v in row), names[place]])
    path.write_text("\n".join(";".join(row) for row in rows) + "\n", encoding="utf-8")


def test_a_researcher_compares_on_a_table_of_her_own_and_uses_what_was_trained(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_flowers(place / "flowers.csv")
    small = ["--set", "epochs=40", "hidden=16", "batch_size=16", "--seeds", "2", "--workers", "1"]
    asked = ["parity", "--data", "flowers.csv", *small, "--no-controls", "--save-weights"]
    assert main([*asked, "--out", "out"]) == 0
    printed = capsys.readouterr().out
    assert "150 samples" in printed
    assert "species" in printed
    assert "Missing: Tasks" not in printed
    assert "learning taken away" not in printed  # a table of controls, of which none ran
    assert "The networks: out/networks" in printed
    found = json.loads((place / "out" / "results.json").read_text(encoding="utf-8"))
    assert found["command"].endswith("--out out") if "command" in found else found
    network = next((place / "out" / "networks").glob("*eqprop_looped-42.npz"))
    assert main(["predict", str(network), "flowers.csv", "--out", "answers.csv"]) == 0
    with (place / "answers.csv").open(newline="") as file:
        answers = list(csv.DictReader(file))
    assert np.mean([row["predicted"] == row["label"] for row in answers]) > 0.9
    capsys.readouterr()
    assert main(["gradient", str(network), "flowers.csv"]) == 0
    assert "W_rec" in capsys.readouterr().out


CHIP = """
[my_chip]
extends = "digital_45nm"
title = "My chip"

[my_chip.energy.mac]
value = 1
low = 0.5
high = 2
unit = "pJ"
node = "28 nm"
source = "my run"
status = "ran"
scales = "product"
"""


def test_an_architect_prices_a_network_on_a_chip_of_his_own(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "my_chip.toml").write_text(CHIP)
    chip = ["--technology", "my_chip.toml", "--substrate", "digital"]
    assert main(["hardware", "--explain", "mac", *chip]) == 0
    assert "my run" in capsys.readouterr().out
    assert [path.name for path in place.iterdir()] == ["my_chip.toml"]
    small = ["--network", "64-8-10", "--set", "epochs=1", "--seeds", "1", "--no-sweeps"]
    assert main(["hardware", *chip, *small, "--workers", "1", "--out", "out"]) == 0
    printed = capsys.readouterr().out
    page = (place / "out" / "report.html").read_text(encoding="utf-8")
    assert "my_chip" in printed
    assert "My chip" in page
    assert "64-8-10" in page


def test_each_stumble_is_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_flowers(place / "flowers.csv")
    for asked, said in (
        (["paritty"], "did you mean parity"),
        (["parity", "--data", "flowers.csv", "--label", "specie"], "did you mean species"),
        (["hardware", "--substrate", "crossbar", "--bits", "8", "8"], "--bits"),
        (["predict", "flowers.csv", "flowers.csv"], "flowers.csv"),
    ):
        try:
            code = main([*asked, *(["--out", "out"] if asked[0] != "paritty" else [])])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = capsys.readouterr()
        assert code == 2
        assert said in captured.out + captured.err
        assert "Traceback" not in captured.out + captured.err
    assert not (place / "out").exists()
