"""Measured devices: a known law is recovered from its pulses, and a bad file is refused."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError
from experiments.hardware.settings import Settings, changed
from hw_sim.chips.cells import CellArray, CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.devices import load_device
from tests.hw_sim.chips.small_training import LEARNED, held_out_cost

pytestmark = pytest.mark.filterwarnings("ignore::engine.errors.NudgeWarning")

LOW, HIGH, SHARE = 2.0, 32.0, 0.05
"""Soft bounds in microsiemens: a pulse goes a share of the way to the end that it moves to."""


def soft_bounds(pulses: int, start: float, end: float, share: float = SHARE) -> np.ndarray:
    return end + (start - end) * (1.0 - share) ** np.arange(pulses + 1)


def written(
    folder: Path, up: np.ndarray, down: np.ndarray, name: str = "device.csv", unit: float = 1.0
) -> str:
    """Write both branches; the shorter has empty cells at its end."""
    rows = ["pulse,potentiation,depression"]
    for k in range(max(len(up), len(down))):
        cells = [f"{unit * branch[k]:.17g}" if k < len(branch) else "" for branch in (up, down)]
        rows.append(f"{k},{cells[0]},{cells[1]}")
    path = folder / name
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def test_soft_bounds_are_recovered_from_their_pulses(tmp_path: Path) -> None:
    up = soft_bounds(80, LOW, HIGH)
    down = soft_bounds(60, up[-1], LOW)
    device = load_device(written(tmp_path, up, down))
    assert device.pulses == pytest.approx(70.0)
    assert device.on_off_ratio == pytest.approx(up[-1] / LOW)
    for way, measured in ((device.up, up), (device.down, down)):
        assert way.rms_error < 1e-12
        np.testing.assert_allclose(way.measured, (measured - LOW) / (up[-1] - LOW))
    span, level = up[-1] - LOW, np.linspace(0.1, 0.9, 50)
    held = LOW + span * level
    for count, end, reach in ((1.0, HIGH, up[-1]), (-1.0, LOW, down[-1]), (7.0, HIGH, up[-1])):
        law = end + (held - end) * (1.0 - SHARE) ** abs(count)
        law = np.minimum(law, reach) if count > 0 else np.maximum(law, np.minimum(reach, held))
        found = device.moved(level, np.full(50, count))
        # Between two pulses the curve is straight: off by an eighth of the bend at most.
        np.testing.assert_allclose(found, (law - LOW) / span, atol=SHARE**2 / 4)


def test_the_unit_of_a_conductance_does_not_matter(tmp_path: Path) -> None:
    up, down = soft_bounds(40, LOW, HIGH), soft_bounds(40, HIGH, LOW)
    one, other = (load_device(written(tmp_path, up, down, unit=unit)) for unit in (1.0, 1e-6))
    np.testing.assert_allclose(one.up.fitted, other.up.fitted, rtol=1e-9)
    np.testing.assert_allclose(one.down.knots, other.down.knots, rtol=1e-9, atol=1e-12)
    assert one.on_off_ratio == pytest.approx(other.on_off_ratio)


def test_scatter_is_averaged_and_its_size_is_told(tmp_path: Path) -> None:
    """The curve is monotone, nearer to the law than the data are, and says how far they lie."""
    rng, pulses, noise = np.random.default_rng(0), 300, 0.6
    law = soft_bounds(pulses, LOW, HIGH, 0.01), soft_bounds(pulses, HIGH, LOW, 0.01)
    device = load_device(
        written(tmp_path, *(branch + noise * rng.standard_normal(pulses + 1) for branch in law))
    )
    scales = []
    for way, true in zip((device.up, device.down), law, strict=True):
        assert (way.sign * np.diff(way.knots[1]) > 0.0).all()
        assert (np.diff(way.knots[0]) > 0.0).all()
        scale, offset = np.polyfit(way.measured, true, 1)
        assert way.rms_error * scale == pytest.approx(noise, rel=0.2)
        scales.append(np.sqrt(np.mean((offset + scale * way.fitted - true) ** 2)))
    assert max(scales) < noise / 2


def test_no_pulse_moves_a_cell_back(tmp_path: Path) -> None:
    """Not even where one branch ends before the other, or a level lies beyond both."""
    up, down = soft_bounds(10, 5.0, 20.0), soft_bounds(30, HIGH, LOW)
    device = load_device(written(tmp_path, up, down))
    level = np.linspace(0.0, 1.0, 101)
    for count in (0.3, 1.0, 50.0):
        assert (device.moved(level, np.full(101, count)) >= level).all()
        assert (device.moved(level, np.full(101, -count)) <= level).all()
    np.testing.assert_array_equal(device.moved(level, np.zeros(101)), level)


def test_cells_follow_their_device(tmp_path: Path) -> None:
    """Whole pulses, right in the mean, each along the measured curve."""
    pairs, path = 4000, written(tmp_path, soft_bounds(50, LOW, HIGH), soft_bounds(50, HIGH, LOW))
    config = CrossbarConfig(on_off_ratio=np.inf, device=path, levels=3, nonlinearity=9.0)
    array, device = CellArray(config, pairs, np.random.default_rng(0)), load_device(path)
    array.program(np.linspace(-1.5, 1.5, pairs))
    before = array.level.copy()
    assert len(np.unique(before)) > pairs  # written by hand, not by blind pulses
    asked = 3.3 / device.pulses
    pulses = array.pulse(np.full(pairs, 2 * config.largest_weight * asked))
    counts = array.writes - 1
    assert set(np.unique(counts)) == {3, 4}
    assert counts.mean() == pytest.approx(3.3, abs=0.03)
    assert pulses == counts.sum()
    np.testing.assert_allclose(array.level, device.moved(before, counts * [[1.0], [-1.0]]))


def test_a_network_learns_with_measured_cells(tmp_path: Path) -> None:
    up = soft_bounds(400, LOW, HIGH, 0.005)
    path = written(tmp_path, up, soft_bounds(400, up[-1], LOW, 0.005))
    config = CrossbarConfig(on_off_ratio=np.inf, device=path)
    assert held_out_cost(partial(CrossbarBackend, config=config)) < LEARNED


def test_the_command_takes_a_device(tmp_path: Path) -> None:
    path = written(tmp_path, soft_bounds(5, LOW, HIGH), soft_bounds(5, HIGH, LOW))
    settings = changed(Settings(), [f"crossbar.device={path}"])
    assert settings.chips["crossbar"].device == path  # type: ignore[attr-defined]


GOOD = "pulse,potentiation,depression\n0,1,9\n1,4,5\n2,6,2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has the header '', expected pulse,potentiation,depression"),
        (GOOD.replace("pulse", "time"), "has the header 'time,potentiation,depression'"),
        (GOOD + "3,7\n", "line 5 has 2 cells, expected 3"),
        (GOOD + "3,nan,1\n", "line 5 has 'nan', expected a number from 0 on"),
        (GOOD + "3,inf,1\n", "line 5 has 'inf'"),
        (GOOD + "3,-2,1\n", "line 5 has '-2'"),
        (GOOD + "3,much,1\n", "line 5 has 'much'"),
        (GOOD + "2,7,1\n", "has pulse numbers that do not rise"),
        (GOOD + ",7,1\n", "has a conductance without a pulse number"),
        ("pulse,potentiation,depression\n0,1,9\n1,4,5\n", "has 2 rows of potentiation"),
        (GOOD.replace("6,2", ",2"), "has 2 rows of potentiation, expected at least 3"),
        ("pulse,potentiation,depression\n0,9,9\n1,5,5\n2,1,1\n", "potentiation does not rise"),
        ("pulse,potentiation,depression\n0,1,1\n1,5,1\n2,9,1\n", "depression does not fall"),
        ("x" * (1 << 22) + GOOD, "has 4,194,352 bytes, expected at most 4,194,304"),
    ],
)
def test_a_file_that_is_no_device_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "device.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EngineError, match=message) as refused:
        CrossbarConfig(device=str(path))
    assert str(refused.value).startswith(f"device file {path}")
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be read"):
        CrossbarConfig(device=str(tmp_path / "none.csv"))
    path = tmp_path / "bytes.csv"
    path.write_bytes(b"\xff\xfe\x00pulse")
    with pytest.raises(EngineError, match="cannot be read"):
        CrossbarConfig(device=str(path))
