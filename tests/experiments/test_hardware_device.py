"""Files of a user in the hardware command: a measured device, and an energy table of Accelergy."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from experiments.hardware.__main__ import main
from experiments.hardware.device_fit import device_table, draw_device
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.devices import load_device
from tests.hw_sim.prices.hand_table import VERSION_4

SMALL = ["--set", "hidden=4", "--set", "epochs=1", "--set", "batch_size=8", "--workers", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clouds, and a device whose second pulse goes back a little."""
    found = tmp_path_factory.mktemp("files")
    y = np.arange(40) % 2
    x = np.random.default_rng(0).standard_normal((40, 3)) + 3.0 * y[:, None]
    np.savez(found / "clouds.npz", x=x, y=y)
    rows = ["pulse,potentiation,depression", "0,10,20", "1,14,16", "2,13,14", "3,20,10"]
    (found / "cells.csv").write_text("\n".join(rows) + "\n")
    return found


def _run(*given: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as printed:
        code = main(list(given))
    return code, printed.getvalue()


def test_the_residual_is_what_the_curve_leaves(folder: Path) -> None:
    """Pulses 1 and 2, out of order, are pooled: the curve is at 13.5 in their middle."""
    table = device_table(load_device(str(folder / "cells.csv")))
    assert table is not None
    up, down = table.rows
    curve = np.array([10 + 3.5 * 1 / 1.5, 13.5 + 6.5 * 0.5 / 1.5])
    left = np.array([14.0, 13.0]) - curve
    rms, largest = np.sqrt((left**2).sum() / 4) / 10, np.abs(left).max() / 10
    assert up == ("potentiation", "4", f"{100 * rms:.2f}", f"{100 * largest:.2f}")
    assert down == ("depression", "4", "0.00", "0.00")


def test_the_drawing_has_every_point_and_the_curve(folder: Path) -> None:
    device = load_device(str(folder / "cells.csv"))
    drawing = draw_device(device)
    assert drawing is not None
    for axes, way in zip(drawing.axes, (device.up, device.down), strict=True):
        points, curve = axes.lines[:2]
        np.testing.assert_allclose(points.get_xydata(), np.c_[way.pulses, 100 * way.measured])
        np.testing.assert_allclose(curve.get_xydata(), np.c_[way.knots[0], 100 * way.knots[1]])
        assert f"{100 * way.rms_error:.2f} %" in axes.get_title()
    assert draw_device(None) is None
    assert device_table(None) is None


def test_a_report_with_a_device_shows_its_fit(folder: Path) -> None:
    given = ["--data", str(folder / "clouds.npz"), "--substrate", "crossbar", "--no-sweeps"]
    given += ["--seeds", "1", *SMALL, "--set", f"crossbar.device={folder / 'cells.csv'}"]
    code, printed = _run(*given, "--out", str(folder / "out"))
    assert code == 0, printed
    assert (folder / "out" / "plots" / "device.png").stat().st_size > 10_000
    page = (folder / "out" / "report.md").read_text()
    residual = load_device(str(folder / "cells.csv")).up.rms_error
    assert "Measured device and its model" in page
    assert f"{100 * residual:.2f}" in page.split("Fit of the device")[1]
    assert "Published figures, computed again" in page


def test_a_table_of_accelergy_prices_a_run_and_is_explained(folder: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is an extra")
    path, given = folder / "chip.yaml", ["--data", str(folder / "clouds.npz"), *SMALL]
    given += ["--substrate", "digital", "--technology", str(path), "--explain", "weight_read"]
    path.write_text(yaml.safe_dump({"ERT": VERSION_4}))
    code, printed = _run(*given)
    assert code == 2
    assert "has no energy price for 'activation', " in printed
    assert "; name actions in 'settle: events'" in printed
    path.write_text(yaml.safe_dump({"ERT": VERSION_4, "settle": {"others": "digital_45nm"}}))
    code, printed = _run(*given)
    assert code == 0, printed
    assert "weight_read 2 pJ (2 pJ to 18 pJ), not stated, read: Accelergy table chip.y" in printed
    assert "weight_read is 2 pJ (2 pJ to 18 pJ), " in printed
    assert "over bptt: " in printed


def test_a_preset_of_cells_sets_the_crossbar_and_its_prices(folder: Path) -> None:
    given = ["--data", str(folder / "clouds.npz"), "--substrate", "crossbar", "--no-sweeps"]
    given += ["--seeds", "1", *SMALL, "--cells", "pcm", "--set", "crossbar.stuck=0"]
    code, printed = _run(*given, "--out", str(folder / "preset"))
    assert code == 0, printed
    content = json.loads((folder / "preset" / "report.json").read_text())
    chip = content["runs"][0]["settings"]["crossbar"]
    assert (chip["on_off_ratio"], chip["asymmetry"], chip["stuck"]) == (100.0, 0.5, 0.0)
    assert content["cells"] == "pcm"
    page = (folder / "preset" / "report.md").read_text().replace("\\", "")
    assert "melting resets a cell at once; guessed" in page.split("### Cells pcm")[1]
    prices = page.split("### Prices")[-1]
    assert "PCM write pulse" in prices
    assert "RRAM write pulse" not in prices


def test_without_times_there_is_a_dash_and_nowhere_zero_seconds(folder: Path) -> None:
    own, given = folder / "timeless.toml", ["--data", str(folder / "clouds.npz"), *SMALL]
    price = (
        '{ value = 1, low = 1, high = 2, unit = "pJ", node = "any", source = "x", status = "ran" }'
    )
    lines = [f"{kind} = {price}" for kind in CHIPS["digital"].events]
    own.write_text("\n".join(['[timeless]\ntitle = "No times"\n[timeless.energy]', *lines]))
    given += ["--substrate", "digital", "--technology", str(own), "--seeds", "1"]
    code, printed = _run(*given, "--no-sweeps", "--out", str(folder / "timeless"))
    assert code == 0, printed
    grid = folder / "timeless" / "grid"
    code, swept = _run(*given, "--sweep", "weight_bits=4,8", "--out", str(grid))
    assert code == 0, swept
    texts = [(folder / "timeless" / f"report.{end}").read_text() for end in ("md", "csv")]
    texts += [(grid / f"sweep.{end}").read_text() for end in ("md", "csv")]
    for text in (*texts, printed, swept):
        assert not re.search(r"(?<![\d.])0 [nµm]?s\b", text)
    content = json.loads((folder / "timeless" / "report.json").read_text())
    for contest in content["contests"]:
        assert contest["latency_s"] is contest["inference_latency_s"] is None
        assert contest["latency_ratio"] is contest["training_sample_latency_s"] is None
    assert "time of" not in texts[1] + texts[3]
    assert "Inference: time" not in texts[2]
