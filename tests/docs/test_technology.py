"""The technology file that the documents show is one."""

import re
from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from hw_sim.chips.digital import DigitalBackend
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.technology import Technology, load_technologies, shipped_technologies

DOCUMENT = Path(__file__).parents[2] / "docs" / "hardware.md"


def _bill(technology: Technology) -> Bill:
    """What one relaxation of a small network on the digital chip costs."""
    network = looped_mlp(6, 5, 3)
    chip = DigitalBackend(network, initial_params(network, np.random.default_rng(0), np.float64))
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (4, 6))
    chip.settle(chip.clamp(x), relaxation=Relaxation(5, 0.0))
    return Bill(technology, Design(network, 8, 8, chip.footprint.count(network)), chip.counts)


def test_the_documented_file_prices_the_digital_chip(tmp_path: Path) -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## How to add a technology\n")[1]
    blocks = re.findall(r"^```toml\n(.*?)^```$", section.split("\n## ")[0], re.M | re.S)
    path = tmp_path / "my.toml"
    path.write_text("\n".join(blocks), encoding="utf-8")
    (mine,), base = load_technologies(path).values(), shipped_technologies()["digital_45nm"]
    counts = grouped(dict(_bill(base).counts), "kind")
    shipped, own = (grouped(_bill(of).energy_parts(), "kind") for of in (base, mine))
    assert own["mac"] == pytest.approx(0.2e-12 * counts["mac"])
    assert own["weight_read"] < shipped["weight_read"]
    assert 0.0 < _bill(mine).latency_s < _bill(base).latency_s
