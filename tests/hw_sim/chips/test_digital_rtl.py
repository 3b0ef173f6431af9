"""A hardware description of the digital chip, simulated by iverilog: every word is the same."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import Params
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.fixed_point import GAIN_FRACTION, RANDOM_BITS, DigitalConfig

pytestmark = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="iverilog, which simulates the chip, is not installed."
)
SOURCE = Path(__file__).with_name("digital_neuron.v")
NETWORK, SAMPLES, ROUNDS = looped_mlp(5, 6, 3), 3, 2
BETA, RULE = 0.375, Relaxation(9, 0.01)
WIDTHS = {
    "8/8/20": DigitalConfig(8, 8, 20, table_bits=8, table_range=4.0),
    "8/8/32": DigitalConfig(8, 8, 32, table_bits=10),
    "12/10/16": DigitalConfig(12, 10, 16),
    "12/10/32": DigitalConfig(12, 10, 32, seed=2**32 - 1),
    "6/5/10": DigitalConfig(6, 5, 10, table_bits=20, weight_range=1.0, table_range=2.0),
    "4/3/6": DigitalConfig(4, 3, 6, table_bits=4, table_range=2.0, seed=77),
    "16/12/30": DigitalConfig(16, 12, 30, table_bits=12, weight_range=4.0),
}
SATURATING = ("12/10/16", "6/5/10", "4/3/6")


@pytest.fixture(scope="module", params=WIDTHS)
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Return the name of the widths, and the description compiled for them."""
    config, folder = WIDTHS[request.param], tmp_path_factory.mktemp("rtl")
    f, g, t = config.state_fraction, config.weight_fraction, config.table_fraction
    settings = {
        "INPUTS": NETWORK.inputs, "UNITS": NETWORK.units, "OUTPUTS": NETWORK.outputs,
        "SAMPLES": SAMPLES, "STEPS": RULE.max_steps, "TOLERANCE": int(RULE.tolerance * 2**f),
        "ACC": config.accumulator_bits, "WEIGHT": config.weight_bits, "F": f, "G": g, "T": t,
        "ENTRIES": int(2 * config.table_range * 2**t), "GAIN": int(BETA * 2**GAIN_FRACTION),
        "SEED": config.seed, "ROUNDS": ROUNDS,
    }  # fmt: skip
    options = [f"-Plooped.{name}={value}" for name, value in settings.items()]
    build = ["iverilog", "-g2005-sv", "-o", "chip.vvp", "-s", "looped", *options, str(SOURCE)]
    subprocess.run(build, check=True, cwd=folder, timeout=60)
    return request.param, folder


def _drawn(seed: int) -> tuple[Params, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Strong weights, inputs beyond their range, targets, and updates with some beyond theirs."""
    rng = np.random.default_rng(seed)
    params = Params(NETWORK, rng.normal(0.0, 0.7, NETWORK.size))
    params["W_rec"][...] = (params["W_rec"] + params["W_rec"].T) / 2
    x = rng.normal(0.0, 1.5, (SAMPLES, NETWORK.inputs))
    updates = [rng.normal(0.0, scale, NETWORK.size) for scale in (0.01, 0.5)]
    return params, x, np.eye(NETWORK.outputs)[rng.integers(3, size=SAMPLES)], updates


def _by_chip(
    chip: DigitalBackend, x: np.ndarray, y: np.ndarray, updates: list[np.ndarray]
) -> list[int]:
    """Return all words in the order in which the description prints them."""
    scale, found = 2**chip.config.state_fraction, []
    for update in updates:
        clamped = chip.clamp(x, y)
        free = chip.settle(clamped, relaxation=RULE)
        outputs = chip.predict(free)
        nudged = [chip.settle(clamped, beta, RULE, free.state) for beta in (BETA, -BETA)]
        for n in range(len(x)):
            for part, settled in enumerate((free, *nudged)):
                words = [*settled.state[n], settled.steps[n] / scale, settled.residual[n]]
                found += words if part else [*words, *outputs[n]]
        chip.apply(update)
        sums = [chip.saturations.accumulator, chip.saturations.weight]
        found += [word / scale for word in (*chip.words, *sums)]
    return [round(float(word) * scale) for word in found]


def _by_description(
    folder: Path, chip: DigitalBackend, x: np.ndarray, y: np.ndarray, updates: list[np.ndarray]
) -> list[int]:
    config, f = chip.config, chip.config.state_fraction
    limit = config.input_range * 2**f - 1
    inputs = np.clip(np.floor(x * 2.0**f + 0.5), -limit, limit)
    changes = [np.floor(u * 2.0 ** (config.weight_fraction + RANDOM_BITS)) for u in updates]
    lines = (chip.words, inputs.ravel(), y.ravel() * 2**f, *changes)
    numbers = [str(int(word)) for line in lines for word in line]
    (folder / "words.txt").write_text("\n".join(numbers) + "\n")
    done = subprocess.run(
        ["vvp", "-n", "chip.vvp"], check=True, cwd=folder, timeout=60, capture_output=True
    )
    return [int(word) for word in done.stdout.split()]


def test_every_word_is_that_of_the_description(compiled: tuple[str, Path]) -> None:
    """States, residuals, outputs, weights and saturations, in two rounds of training."""
    name, folder = compiled
    clipped = 0
    for seed in range(5):
        params, x, y, updates = _drawn(seed)
        chip = DigitalBackend(NETWORK, params, WIDTHS[name])
        expected = _by_description(folder, chip, x, y, updates)
        found = _by_chip(chip, x, y, updates)
        assert len(found) == len(expected)
        assert found == expected
        clipped += chip.saturations.accumulator
    assert (clipped > 0) == (name in SATURATING)
