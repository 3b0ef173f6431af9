"""`python -m experiments.circuit`: train, write, compare, refuse."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from adapters import spice_run
from engine import initial_params, load, looped_mlp, save
from experiments.circuit.__main__ import main
from tests.adapters.spice_cases import drawn, needs_ngspice


def saved(folder: Path) -> tuple[Path, Path]:
    """Return a circuit and samples for it, in files."""
    params, x, y = drawn(5, 4, 6, 3)
    save(folder / "circuit.npz", params)
    np.savez(folder / "mine.npz", x=x, y=y)
    return folder / "circuit.npz", folder / "mine.npz"


@needs_ngspice
def test_it_writes_netlists_and_compares_every_voltage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circuit, data = saved(tmp_path)
    asked = ["spice", str(circuit), "--data", str(data), "--samples", "2", "0"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "goal 1e-06 V: reached" in printed
    assert (tmp_path / "out" / "free.cir").read_text().startswith("* Settle: 4-3-3-3, beta 0")
    rows = list(csv.DictReader((tmp_path / "out" / "voltages.csv").open()))
    assert len(rows) == 2 * 2 * 9
    assert {row["sample"] for row in rows} == {"0", "2"}
    for row in rows:
        assert float(row["spice_v"]) == pytest.approx(float(row["engine_v"]), abs=1e-6)
    bent = [*asked, "--diode", "shockley", "--out", str(tmp_path / "bent")]
    assert main(bent) == 0
    assert "These parts are not ideal: no goal." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--samples", "3"], "there is no sample 3: the last one is 2"),
        (["--task", "digits"], "say which samples: either --data FILE or --task NAME"),
    ],
)
def test_samples_that_there_are_not_are_refused(
    wrong: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circuit, data = saved(tmp_path)
    asked = ["spice", str(circuit), "--data", str(data), "--out", str(tmp_path / "out"), *wrong]
    assert main(asked) == 2
    assert sentence in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_nudge_without_an_equilibrium_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    circuit, data = saved(tmp_path)
    asked = ["spice", str(circuit), "--data", str(data), "--beta", "1e300"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "stopped being finite" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_without_ngspice_netlists_are_written_and_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A transient is nothing but a comparison, and writes none."""
    monkeypatch.setattr(spice_run.shutil, "which", lambda name: None)
    circuit, data = saved(tmp_path)
    asked = [str(circuit), "--data", str(data), "--out", str(tmp_path / "out")]
    said = "ngspice, which runs the netlist, is not installed: it is in the package ngspice."
    assert main(["transient", *asked]) == 2
    assert capsys.readouterr().out == f"Error: {said}\n"
    assert not (tmp_path / "out").exists()
    assert main(["spice", *asked]) == 0
    assert f"Not run: {said}" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"free.cir", "nudged.cir"}


def test_other_networks_and_other_data_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path)
    network = looped_mlp(4, 6, 3)
    save(tmp_path / "looped.npz", initial_params(network, np.random.default_rng(0)))
    (tmp_path / "torn.npz").write_bytes(b"PK")
    np.savez(tmp_path / "narrow.npz", x=np.zeros((2, 3)))
    np.savez(tmp_path / "empty.npz", x=np.zeros((0, 4)))
    cases = {
        ("looped.npz", "mine.npz"): "the network is not resistive: coupling 'W_in' (InputDrive)",
        ("torn.npz", "mine.npz"): "is not a whole Settle checkpoint",
        ("circuit.npz", "torn.npz"): "torn.npz is not a readable .npz of plain arrays",
        ("circuit.npz", "circuit.npz"): "circuit.npz has no array 'x'",
        ("circuit.npz", "narrow.npz"): "x has shape (1, 3), expected (samples, 4)",
        ("circuit.npz", "empty.npz"): "empty.npz has x of shape (0, 4), which holds no sample",
        ("circuit.npz", "none.npz"): "there is no file",
        ("mine.npz", "mine.npz"): "is no Settle checkpoint: it holds 'x', 'y'.",
        ("none.npz", "mine.npz"): "there is no file",
    }
    for (network_file, data_file), sentence in cases.items():
        asked = ["spice", str(tmp_path / network_file), "--data", str(tmp_path / data_file)]
        assert main([*asked, "--out", str(tmp_path / "out")]) == 2
        assert sentence in capsys.readouterr().out


def test_it_trains_a_circuit_on_digits_and_saves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [
        "--hidden",
        "24",
        "--epochs",
        "8",
        "--samples",
        "800",
        "--batch-size",
        "8",
        "--seeds",
        "2",
        "--total",
        "9",
    ]
    assert main(["train", *small, "--out", str(tmp_path)]) == 0
    assert "64-24-10" in capsys.readouterr().out
    found = json.loads((tmp_path / "circuits.json").read_text())
    assert [run["seed"] for run in found["runs"]] == [42, 43]
    assert (found["rate"], found["amplification"], found["total"]) == (0.02, 1.0, 9.0)
    assert all(run["accuracy"] > 0.6 for run in found["runs"])
    params, _, _ = load(tmp_path / "circuit-42.npz")
    for name, squares in params.network.squares.items():
        assert params[name].min() >= np.float32(squares.g_min)
