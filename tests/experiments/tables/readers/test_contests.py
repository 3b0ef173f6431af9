"""Rows of comparisons: from the own report of known runs."""

import json
from pathlib import Path

import pytest

from experiments.parity.report_files import write_report
from experiments.parity.roster import CONTESTANTS
from experiments.records import Record
from experiments.reporting.number_text import MINUS, points_between
from experiments.statistics import compare
from experiments.tables.readers.catalogue import READERS
from experiments.tables.registry import MEASUREMENTS
from experiments.tables.stored import TablesError

PARITY = MEASUREMENTS["parity"].command
ACCURACIES = {
    "eqprop_looped": (0.98, 0.97),
    "eqprop_layered": (0.96, 0.98),
    "backprop_looped": (0.97, 0.97),
    "backprop_feedforward": (0.99, 0.98),
}


def _records() -> list[Record]:
    """Two seeds of each contestant on digits."""
    return [
        Record(
            "digits", "Digits 8x8", name, 42 + k, accuracy, 0.1, 1000, 0.1, 100, {}, (), None, 1.0
        )
        for name in CONTESTANTS
        for k, accuracy in enumerate(ACCURACIES[name])
    ]


def _write_parity(folder: Path, command: str) -> None:
    best = {"digits": "backprop_feedforward"}
    write_report(_records(), folder, best_baseline=best, command=command, machine={})


def test_a_row_of_parity_has_means_deviations_and_both_gaps(tmp_path: Path) -> None:
    _write_parity(tmp_path, f"{PARITY} --workers 1 --out {tmp_path}")
    (row,) = READERS["parity"](tmp_path, PARITY, tmp_path)
    pairs = ACCURACIES["eqprop_looped"], ACCURACIES["backprop_feedforward"]
    assert row[:8] == (
        "Digits 8x8",
        "97.04 ± 0.35",
        "94.63 ± 0.73",
        "97.00 ± 0.00",
        "98.50 ± 0.71",
        "97.50 ± 0.71",
        "97.00 ± 1.41",
        "+0.50",
    )
    gap = compare(*pairs, n_test=[1000, 1000], majority_rate=[0.1, 0.1], margin=0.005)
    assert row[8] == points_between(gap.difference, gap.interval).replace("\n", " ")
    assert row[8].startswith(f"{MINUS}1.00 (")


def test_the_output_of_another_command_is_refused(tmp_path: Path) -> None:
    _write_parity(tmp_path, f"{PARITY} --epochs 1")
    with pytest.raises(TablesError, match=r"was written by `.*--epochs 1`, not by"):
        READERS["parity"](tmp_path, PARITY, tmp_path)
    with pytest.raises(TablesError, match="cannot be read"):
        READERS["parity"](tmp_path / "elsewhere", PARITY, tmp_path)


def test_a_row_of_vision_is_the_line_of_its_table(tmp_path: Path) -> None:
    command = MEASUREMENTS["vision"].command
    table = "| Task | Source |\n| --- | --- |\n| MNIST | here |\n| CIFAR-10 | there |\n"
    (tmp_path / "table.md").write_text(f"### Title\n\n{table}\nWords.\n", encoding="utf-8")
    (tmp_path / "results.json").write_text(json.dumps({"command": command}), encoding="utf-8")
    rows = READERS["vision"](tmp_path, command, tmp_path)
    assert rows == (("MNIST", "here"), ("CIFAR-10", "there"))
