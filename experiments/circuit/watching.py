"""A circuit that is watched while it settles: how long it takes, by ngspice and by the engine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adapters.spice_netlist import Parts
from adapters.spice_run import SpiceError
from adapters.spice_transient import (
    Charging,
    Waveform,
    run_transient,
    settling_time,
    write_transient,
)
from engine import NumbaBackend, Params, Relaxation
from engine.arrays import FloatArray
from engine.model.continuous import trace
from experiments.circuit.waveform_plot import Waveforms

SETTLED = Relaxation(100_000, 1e-13, "sweeps")
IN_TIME = 200_000
"""Evaluations of the engine, at most."""
WATCHED = 1.1
"""How long a circuit is watched, over the time in which it settles a hundred times closer."""


@dataclass(frozen=True)
class Conditions:
    """What a circuit is watched under."""

    capacitance_f: float = 1e-6
    fraction: float = 1e-3
    """Of the largest change of a voltage: when every node is as near, the circuit has settled."""
    beta: float = 0.1


@dataclass(frozen=True)
class Settling:
    """How one sample settled in one phase; times in seconds, voltages in volts."""

    sample: int
    phase: str
    spice_s: float
    engine_s: float
    time_constants: float
    """That of the engine, in units of RC."""
    largest_v: float
    apart_v: float
    """Largest difference of the two waveforms, at any time and node."""
    end_v: float
    """Largest distance of ngspice from the fixed point when it was last seen."""


class Watcher:
    """A circuit, and how it is watched; each netlist is handed to `keep` before it is run."""

    def __init__(
        self,
        params: Params,
        conditions: Conditions,
        keep: Callable[[str, str], None],
        parts: Parts | None = None,
    ) -> None:
        self._params, self._parts, self._keep = params, parts or Parts(), keep
        self._backend = NumbaBackend(params.network, params)
        self._capacitance_f, self._fraction = conditions.capacitance_f, conditions.fraction
        self._beta = conditions.beta

    def phases(
        self, sample: int, x: FloatArray, y: FloatArray | None
    ) -> list[tuple[Waveforms, Settling]]:
        """Return the free phase and, with a target, the nudged one, which begins where it ends."""
        begin = np.zeros(self._params.network.units)
        free, final = self._phase(f"free-{sample}", sample, (x, None, 0.0), begin)
        if y is None:
            return [free]
        return [free, self._phase(f"nudged-{sample}", sample, (x, y, self._beta), final)[0]]

    def _phase(
        self,
        name: str,
        sample: int,
        held: tuple[FloatArray, FloatArray | None, float],
        begin: FloatArray,
    ) -> tuple[tuple[Waveforms, Settling], FloatArray]:
        """Return the course of one phase, how it settled, and the fixed point."""
        x, y, beta = held
        final, units = self._settled(held, begin)
        charging = Charging(self._capacitance_f, WATCHED * units * self._capacitance_f)
        nudge = None if y is None else (y, beta)
        text = write_transient(self._params, x, charging, nudge, begin, self._parts)
        self._keep(f"{name}.cir", text)
        spice = run_transient(text, self._params.network)
        at, targets = spice.times_s / charging.unit_s, None if y is None else y[None]
        states = trace(self._params, x[None], at, targets, beta, begin[None])[:, 0]
        engine = Waveform(spice.times_s, states)
        course = Waveforms(f"sample {sample}, {name.split('-')[0]}", spice, engine)
        # Other parts have an equilibrium of their own, which is where they end.
        end = final if self._parts == Parts() else spice.voltages[-1]
        settled_s = settling_time(engine, begin, final, self._fraction)
        settling = Settling(
            sample,
            name.split("-")[0],
            settling_time(spice, begin, end, self._fraction),
            settled_s,
            settled_s / charging.unit_s,
            float(np.abs(states).max()),
            float(np.abs(spice.voltages - states).max()),
            float(np.abs(spice.voltages[-1] - final).max()),
        )
        return (course, settling), final

    def _settled(
        self, held: tuple[FloatArray, FloatArray | None, float], begin: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the fixed point, and when the circuit is a hundred times nearer than asked."""
        x, y, beta = held
        clamped = self._backend.clamp(x[None], None if y is None else y[None])
        fixed = self._backend.settle(clamped, beta, SETTLED)
        final = fixed.state[0]
        near = self._fraction / 100 * max(float(np.abs(final - begin).max()), 1e-9)
        in_time = Relaxation(IN_TIME, near, "ode")
        moved = self._backend.settle(clamped, beta, in_time, begin[None])
        if not (fixed.converged.all() and moved.converged.all()):
            raise SpiceError(f"the engine finds no equilibrium to compare: {moved.summary()}.")
        assert moved.times is not None
        return final, float(moved.times[0])
