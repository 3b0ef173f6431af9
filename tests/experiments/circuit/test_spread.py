"""`python -m experiments.circuit spread`: specimens are tried, kept, drawn, and refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.circuit.__main__ import main
from experiments.circuit.specimens import Design, Specimen, Study, Tried
from experiments.circuit.spread_report import spread_table
from experiments.tasks import find_task

SMALL = ("--hidden", "24", "--epochs", "8", "--samples", "800", "--batch-size", "8")
SPREADS = ("--mismatch", "0", "0.8", "--diode-spread", "0", "4", "--draws", "2", "--seeds", "1")


def test_it_tries_every_specimen_and_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["spread", *SMALL, *SPREADS, "--out", str(tmp_path)]
    assert main(asked) == 0
    found = json.loads((tmp_path / "spread.json").read_text())
    specimens = [one["specimen"] for one in found["outcomes"]]
    assert [(s["device"], s["diode"], s["draw"]) for s in specimens] == [
        (0.0, 0.0, 0),
        *((0.8, 0.0, draw) for draw in (0, 1)),
        *((0.0, 4.0, draw) for draw in (0, 1)),
    ]
    ideal, *spread = found["outcomes"]
    assert ideal["loaded"] == ideal["in_place"] > 0.6
    assert all(one["in_place"] > one["loaded"] for one in spread)
    assert (tmp_path / "spread.png").read_bytes().startswith(b"\x89PNG")
    assert "trained in place" not in (tmp_path / "spread.md").read_text().splitlines()[0]
    # What was tried is believed, and what is new is added to it.
    ideal["in_place"] = 0.125
    found["outcomes"].pop()
    (tmp_path / "spread.json").write_text(json.dumps(found))
    capsys.readouterr()
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "4 of 5 specimens were done before." in printed
    assert "12.50" in printed
    again = json.loads((tmp_path / "spread.json").read_text())["outcomes"]
    assert again[-1] == spread[-1]
    # Specimens of another design are not.
    other = ["--window", "50", "--mismatch", "0", "--diode-spread", "0", "--epochs", "1"]
    assert main([*asked, *other]) == 0
    printed = capsys.readouterr().out
    assert "is of another design, and is replaced" in printed
    assert "done before" not in printed


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--window", "1"], "the window is 1, expected more than 1"),
        (["--task", "none"], "There is no task 'none'"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(
    wrong: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spread", *SMALL, *wrong, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["-0.1", "nan", "inf", "much"])
def test_a_spread_is_zero_or_more(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["spread", f"--mismatch={value}"])
    assert "is not a number of zero or more" in capsys.readouterr().err


def test_devices_have_the_same_limits_in_both_ways() -> None:
    design = Design("digits", (12,), 2, 16, 300, 20.0, "validation")
    task = find_task("digits")
    study = Study(design, task, 42)
    study.train_ideally()
    assert study.ideal is not None
    most = design.largest(task)
    for name, squares in study.network.squares.items():
        assert study.ideal[name].max() <= np.float32(most)
        assert squares.g_min == pytest.approx(most / 20.0)
        assert study.ideal[name].min() >= np.float32(squares.g_min)


def test_the_table_counts_who_gains() -> None:
    design = Design("digits", (12,), 2, 16, None, 100.0, "test")
    pairs = [(0.5, 0.9), (0.6, 0.6), (0.8, 0.7)]
    outcomes = [
        Tried(Specimen(0.4, 0.0, draw, 42), loaded, in_place, 0.0)
        for draw, (loaded, in_place) in enumerate(pairs)
    ]
    (row,) = spread_table(outcomes, "Digits", design).rows
    assert row[:3] == ("0.4", "0", "3")
    assert row[3:] == (
        "63.33 ± 15.28", "50.00", "73.33 ± 15.28", "60.00", "+10.00", "1 / 1 / 1",
    )  # fmt: skip
