"""Settling times of analog states: the moment of the formulas, and counts that are scaled by it."""

import numpy as np
import pytest

from adapters.spice_transient import TOLERANCES, run_transient
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
from tests.adapters.spice_cases import needs_ngspice

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


@needs_ngspice
def test_the_settling_time_is_that_of_a_circuit_of_its_units() -> None:
    """Each unit a capacitance, a leak, and a source whose current is tanh of what it hears."""
    network, rng, tolerance = looped_mlp(3, 4, 2), np.random.default_rng(1), 1e-3
    params = Params(network, rng.normal(0.0, 0.5, network.size))
    params["W_rec"][...] += params["W_rec"].T
    x = rng.normal(size=(1, 3))
    drive = (x @ params["W_in"] + params["b"])[0]
    unit_s, duration_s, lines = 1e-9, 2e-8, ["* A crossbar in time"]
    for u, w in enumerate(params["W_rec"].T):
        heard = "".join(f"+({w[j]:.17g})*v(n0_{j})" for j in range(4))
        lines.append(f"B{u} 0 n0_{u} I = tanh({drive[u]:.17g}{heard})")
        lines.append(f"R{u} n0_{u} 0 1")
        lines.append(f"C{u} n0_{u} 0 {unit_s} IC={np.tanh(drive[u]):.17g}")
    lines += [f".options {TOLERANCES}", ".control", "set numdgt=16", "set wr_singlescale"]
    lines += [f"tran {duration_s / 2000} {duration_s} 0 {duration_s / 2000} uic"]
    lines += ["wrdata voltages0.txt v(n0_0) v(n0_1) v(n0_2) v(n0_3)", "quit", ".endc", ".end", ""]
    wave = run_transient("\n".join(lines), network)
    away = np.abs(np.tanh(drive + wave.voltages @ params["W_rec"]) - wave.voltages).max(1)
    last = int(np.flatnonzero(away > tolerance)[-1])
    settled_s = np.interp(tolerance, away[[last + 1, last]], wave.times_s[[last + 1, last]])
    found = measure_settling(params, x, np.eye(2)[:1], 0.1, tolerance)
    assert found.free == pytest.approx(settled_s / unit_s, rel=2e-3)
    assert found.free > 3.0
