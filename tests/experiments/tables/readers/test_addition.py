"""Rows of ten-digit addition: from what the commands write."""

import json
import shlex
from pathlib import Path

from experiments.addition.__main__ import main
from experiments.addition.reliability import write_group
from experiments.addition.seed_run import MetricRow
from experiments.reporting.number_text import NONE
from experiments.tables.readers.catalogue import READERS
from experiments.tables.registry import MEASUREMENTS, TABLES


def _summary(seed: int, exact: float, step: int) -> dict[str, object]:
    return {
        "seed": seed, "grokked": exact >= 0.99, "best_val_exact": exact, "best_step": step,
        "test_exact": exact, "steps": 20_000, "elapsed_sec": 1.0, "params": 456,
    }  # fmt: skip


def test_a_recipe_has_its_share_of_seeds_and_when_they_grokked(tmp_path: Path) -> None:
    command = MEASUREMENTS["grokking-456"].command
    runs = [_summary(43, 0.96, 20_000), _summary(44, 0.05, 500)]
    runs += [_summary(45, 1.0, 15_500), _summary(46, 1.0, 13_000)]
    curves = {43: [MetricRow(500, 1.0, 1.0, 1.0, 0.01, 1.0)]}
    write_group(tmp_path / "sparse_456", command, runs, curves)
    (row,) = READERS["grokking"](tmp_path, command, tmp_path)
    assert row == ("456", "43 to 46", "2 of 4", "6.76 % to 93.2 %", "13,000 to 15,500")
    assert len(row) == len(TABLES["grokking"].header)
    write_group(tmp_path / "sparse_456", command, [_summary(43, 0.0, 500)], curves)
    assert READERS["grokking"](tmp_path, command, tmp_path)[0][2:] == (
        "0 of 1",
        "0 % to 97.5 %",
        NONE,
    )


def test_rows_of_the_energy_adder_are_both_methods(tmp_path: Path) -> None:
    command = MEASUREMENTS["energy-adder"].command
    small = ["--digits", "1", "2", "--seeds", "1", "--updates", "1", "--out", str(tmp_path)]
    assert main(["energy", *small]) == 0
    record = tmp_path / "energy.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    assert shlex.split(content["command"])[2:4] == ["experiments.addition", "energy"]
    record.write_text(json.dumps(content | {"command": command}), encoding="utf-8")
    rows = READERS["energy_adder"](tmp_path, command, tmp_path)
    assert [row[:2] for row in rows] == [
        (digits, method) for digits in "12" for method in ("EqProp", "backprop through the steps")
    ]
    first = content["results"][0]
    assert rows[0][2:4] == (f"{first['exact']:,} of 2,000", f"{100 * first['right_digits']:.1f}")
    assert len(rows) == TABLES["energy-adder"].parts[0][1]
