"""Transients: ngspice charges the capacitances as the engine's equation of motion says."""

import numpy as np
import pytest

from adapters.spice_netlist import Parts
from adapters.spice_run import SpiceError
from adapters.spice_transient import (
    Charging,
    Waveform,
    run_transient,
    settling_time,
    write_transient,
)
from engine.arrays import FloatArray
from engine.model.continuous import trace
from engine.model.params import Params
from tests.adapters.spice_cases import drawn, needs_ngspice, settled

FRACTION = 1e-3


def _watched(
    params: Params,
    x: FloatArray,
    charging: Charging,
    nudge: tuple[FloatArray, float] | None = None,
    start: FloatArray | None = None,
) -> tuple[Waveform, Waveform]:
    """Return what ngspice and what the engine finds, at the same times."""
    begin = np.zeros(params.network.units) if start is None else start
    text = write_transient(params, x, charging, nudge, start)
    found = run_transient(text, params.network)
    y, beta = (None, 0.0) if nudge is None else (nudge[0][None], nudge[1])
    states = trace(params, x[None], found.times_s / charging.unit_s, y, beta, begin[None])
    return found, Waveform(found.times_s, states[:, 0])


@needs_ngspice
@pytest.mark.parametrize("sizes", [(3, 4, 2), (5, 9, 8, 6, 3)])
@pytest.mark.parametrize("amplification", [1.0, 1.7])
def test_waveforms_and_settling_times_are_those_of_the_engine(
    sizes: tuple[int, ...], amplification: float
) -> None:
    params, x, y = drawn(sum(sizes), *sizes, amplification=amplification)
    charging, zero = Charging(2e-9, 24e-9), np.zeros(params.network.units)
    for sample in range(len(x)):
        free = settled(params, x, y, 0.0)[sample]
        nudged = settled(params, x, y, 0.5)[sample]
        for nudge, start, end in ((None, zero, free), ((y[sample], 0.5), free, nudged)):
            spice, engine = _watched(params, x[sample], charging, nudge, start)
            most = np.abs(end - start).max()
            assert np.abs(spice.voltages - engine.voltages).max() < 1e-3 * most
            assert np.abs(spice.voltages[-1] - end).max() < 1e-4 * most
            times = [settling_time(wave, start, end, FRACTION) for wave in (spice, engine)]
            assert times[0] == pytest.approx(times[1], rel=2e-3)
            assert 1e-10 < times[0] < 24e-9


@needs_ngspice
def test_the_difference_is_that_of_the_steps_of_ngspice() -> None:
    """Its method is of the second order."""
    params, x, _ = drawn(9, 3, 4, 2)
    apart = []
    for points in (1600, 6400):  # fewer, and it takes more by itself
        waves = _watched(params, x[0], Charging(1e-6, 6e-6, points))
        apart.append(np.abs(waves[0].voltages - waves[1].voltages).max())
    assert apart[1] < apart[0] / 8


@needs_ngspice
@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("Cn1_0 n1_0 0 2.", "Cn1_0 n1_0 0 5."),
        ("Rl1_0 n1_0 0 1", "* no leak"),
        ("IC=0", "IC=0.05"),
    ],
)
def test_a_wrong_line_is_seen(line: str, other: str) -> None:
    params, x, _ = drawn(9, 3, 4, 2)
    charging = Charging(2.5e-9, 15e-9)
    text = write_transient(params, x[0], charging)
    assert line in text
    found = run_transient(text.replace(line, other, 1), params.network)
    begin = np.zeros((1, params.network.units))
    states = trace(params, x[:1], found.times_s / charging.unit_s, start=begin)[:, 0]
    assert np.abs(found.voltages - states).max() > 5e-3


def test_the_time_when_a_waveform_has_settled_lies_between_its_points() -> None:
    times = np.arange(5.0)
    wave = Waveform(times, np.array([[0.0], [4.0], [8.5], [9.5], [10.0]]))
    start, end = np.array([0.0]), np.array([10.0])
    assert settling_time(wave, start, end, 0.1) == pytest.approx(2.5)
    assert settling_time(wave, start, end, 0.7) == pytest.approx(0.75)
    assert settling_time(Waveform(times, np.full((5, 1), 10.0)), start, end, 0.1) == 0.0
    with pytest.raises(SpiceError, match="not settled within 4 s"):
        settling_time(wave, start, np.array([20.0]), 0.1)


def test_what_cannot_be_watched_is_refused() -> None:
    for wrong in ({"capacitance_f": 0.0}, {"duration_s": float("nan")}):
        with pytest.raises(SpiceError, match="expected a number above zero"):
            Charging(**({"capacitance_f": 1e-6, "duration_s": 1e-6} | wrong))


@needs_ngspice
def test_a_circuit_that_ngspice_does_not_understand_is_told() -> None:
    params, x, _ = drawn(9, 3, 4, 2)
    text = write_transient(params, x[0], Charging(1e-6, 1e-6), parts=Parts())
    with pytest.raises(SpiceError, match="ngspice found no transient"):
        run_transient(text.replace("Rl0_0 n0_0 0 1", "Dl0_0 n0_0 0 unknown"), params.network)
