"""Rows of what chips cost: from reports as the command writes them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.hardware.__main__ import main
from experiments.reporting.number_text import NONE
from experiments.tables.readers.catalogue import READERS
from experiments.tables.readers.hardware import PLACES
from experiments.tables.registry import MEASUREMENTS, TABLES
from tests.experiments.tables.readers.reader_cases import fitting_rows

HARDWARE = MEASUREMENTS["hardware"].command


def test_rows_of_chips_are_ratios_by_technology_with_the_accuracy_of_eqprop(
    tmp_path: Path,
) -> None:
    contests = [
        {
            "substrate": substrate,
            "technology": technology,
            "rival": rival,
            "ratio": {"nominal": ratio, "low": ratio / 2, "high": 2 * ratio},
        }
        for substrate, technology in PLACES
        for rival, ratio in (("backprop", 6.21), ("bptt", 0.599))
    ]
    runs = [
        {"substrate": substrate, "learner": learner, "accuracy": accuracy}
        for substrate in {place for place, _ in PLACES}
        for learner, accuracies in (("eqprop", (0.97, 0.98)), ("bptt", (0.5, 0.5)))
        for accuracy in accuracies
    ]
    content = {"command": HARDWARE, "contests": contests, "runs": runs}
    (tmp_path / "report.json").write_text(json.dumps(content), encoding="utf-8")
    rows = READERS["hardware"](tmp_path, HARDWARE, tmp_path)
    assert [row[0] for row in rows] == list(PLACES.values())
    assert {row[1:] for row in rows} == {
        ("97.50 ± 0.71", "6.2 (3.1 to 12)", "0.60 (0.30 to 1.2)"),
    }


SMALL = ["--set", "hidden=4", "--set", "epochs=1", "--seeds", "2", "--workers", "1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clouds that a line almost separates."""
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    path = tmp_path_factory.mktemp("clouds") / "clouds.npz"
    np.savez(path, x=rng.standard_normal((60, 4)) + 2.0 * np.eye(4)[y], y=y)
    return path


def _swept(data: Path, name: str, *given: str) -> tuple[tuple[str, ...], ...]:
    """Run the sweep of a table on a small task, and return the rows of the table."""
    out, command = data.parent / name, MEASUREMENTS[name].command
    assert main(["--data", str(data), *given, *SMALL, "--out", str(out)]) == 0
    record = out / "sweep.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps(content | {"command": command}), encoding="utf-8")
    return fitting_rows(out, name)


def test_rows_of_widths_are_all_points_and_say_which_are_on_the_front(data: Path) -> None:
    given = ["weight_bits=4,6,8,12", "state_bits=4,6,10", "--technology", "digital_45nm"]
    rows = _swept(data, "widths", "--sweep", *given)
    assert [row[:2] for row in rows[:4]] == [("4", "4"), ("4", "6"), ("4", "10"), ("6", "4")]
    assert {row[-1] for row in rows} == {"yes", NONE}
    assert all(re.fullmatch(r"[\d.]+ ..? \([\d.]+ ..? to [\d.]+ ..?\)", row[3]) for row in rows)


def test_the_row_of_cells_is_named_by_the_preset(data: Path) -> None:
    grid = ["--sweep", "stuck=0.01"]
    (row,) = _swept(data, "cells-pcm", "--substrate", "crossbar", "--cells", "pcm", *grid)
    assert row[0] == "`pcm`"
    assert " ± " in row[1]
    assert re.fullmatch(r"[\d,.]+ \([\d,.]+ to [\d,.]+\)", row[4])
    (row,) = _swept(data, "cells-shipped", "--substrate", "crossbar", *grid)
    assert row[0] == "as shipped"


def test_rows_of_ratios_are_means_over_seeds(data: Path) -> None:
    axes = ["weight_range=0.5,2", "read_noise=0.002,0.02", "on_off_ratio=1.2,2,10,100"]
    rows = _swept(data, "on-off", "--substrate", "crossbar", "--sweep", *axes)
    assert [row[:2] for row in rows] == [
        (weight, noise) for weight in ("0.5", "2") for noise in ("0.002", "0.02")
    ]
    content = json.loads((data.parent / "on-off" / "sweep.json").read_text(encoding="utf-8"))
    shares = content["points"][0]["accuracies"].values()
    assert rows[0][2] == f"{100 * sum(shares) / 2:.1f}"


def test_published_figures_stand_beside_those_of_settle(tmp_path: Path) -> None:
    command = MEASUREMENTS["published"].command
    assert main(["--published", "--out", str(tmp_path)]) == 0
    rows = READERS["published"](tmp_path, command, tmp_path)
    assert len(rows) == TABLES["published"].parts[0][1]
    (isaac,) = [row for row in rows if row[:2] == ("ISAAC", "power of the chip")]
    assert isaac[2] == "65.8 W"
    assert isaac[5] == "second-hand"
