"""Settling times of analog states: the moment of the formulas, and counts that are scaled by it."""

import numpy as np
import pytest

from engine import Relaxation, centered, estimate, initial_params, looped_mlp
from engine.couplings.dense import Bias, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout
from engine.model.network import Layer, Network
from engine.model.params import Params
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.settling import (
    Settling,
    in_time_constants,
    measure_settling,
    steps_of_relaxation,
)
from hw_sim.counts import OpCounts

ANALOG = CrossbarConfig(on_off_ratio=np.inf, convert_each_step=False)


def _ran(network: Network, max_steps: int) -> tuple[CrossbarBackend, OpCounts, list[float]]:
    """Return a chip after one gradient, what it counted, and its mean steps of both phases."""
    rng = np.random.default_rng(2)
    chip = CrossbarBackend(network, initial_params(network, rng), ANALOG)
    x, y = (
        rng.standard_normal((7, network.inputs)),
        np.eye(network.outputs)[rng.integers(3, size=7)],
    )
    gradient = np.zeros(network.size)
    way = Relaxation(max_steps, 1e-3)
    report = estimate(chip, chip.clamp(x, y), centered(0.1), gradient, way)
    return chip, chip.counts, [float(report.free_steps), float(report.nudged_steps)]


@pytest.mark.parametrize("max_steps", [4, 40])
def test_steps_are_exchanged_for_time_constants_and_nothing_else_is(max_steps: int) -> None:
    chip, counts, steps = _ran(looped_mlp(5, 8, 3), max_steps)
    network, events = chip.network, dict(counts)
    found = [steps_of_relaxation(network, events, phase) for phase in ("free", "nudged")]
    np.testing.assert_allclose(found, steps)
    settling = Settling(6.5, 2.5, 7, 1e-3)
    scaled = in_time_constants(network, counts, settling)
    (layer,) = network.columns
    cells = 2 * (8 * 8 + 5 * 8)
    assert scaled.total("cell_read", "free", layer) == pytest.approx(7 * 6.5 * cells)
    assert scaled.total("cell_read", "nudged", layer) == pytest.approx(14 * 2.5 * cells)
    for phase, place, kind in events:
        kept = phase not in ("free", "nudged") or (place == layer and kind == "conversion")
        if kept or (place == layer and kind == "state_write"):
            assert scaled.events[phase, place, kind] == events[phase, place, kind]
        else:
            ratio = {"free": 6.5 / steps[0], "nudged": 2.5 / steps[1]}[phase]
            assert scaled.events[phase, place, kind] == pytest.approx(
                ratio * events[phase, place, kind]
            )


def test_the_settling_time_is_that_of_the_slowest_sample() -> None:
    """A linear unit by its size: `s' = -(1 - w) s + h` for small h, from `sigma(h)` on."""
    network = Network(
        1,
        (Layer("a", (1,)),),
        (InputDrive("W", "a"), Lateral("L", "a"), Bias("b", "a")),
        SoftmaxReadout("a", 2),
    )
    params, w, h = Params(network, np.zeros(network.size)), 0.5, 1e-3
    params["W"][...], params["L"][...] = 1.0, w
    x, y = np.array([[h], [h / 8]]), np.eye(2)
    tolerance = 1e-6
    found = measure_settling(params, x, y, 0.1, tolerance)
    assert found.samples == 2
    residual = h - (1 - w) * h  # |T(s) - s| at the start
    assert found.free == pytest.approx(np.log(residual / tolerance) / (1 - w), rel=1e-3)
    closer = measure_settling(params, x, y, 0.1, tolerance / 10)
    assert closer.free - found.free == pytest.approx(np.log(10) / (1 - w), rel=1e-3)
    # The read-out has no weights, so nothing pulls: the rest of the way to a finer tolerance.
    assert found.nudged == pytest.approx(np.log(1 / 0.1) / (1 - w), rel=1e-3)
