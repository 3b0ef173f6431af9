"""How a network settles in time: its equation of motion, integrated by an adaptive method.

    ds/dt = -s + T(s)                                    units, in their own time constant
    C dv/dt = dPhi/dv - v - beta dC/dv + i_diode         nodes of a circuit, in C / (1 S)

A node is a unit that a conductance meets: it has a capacitance `C` and a leak of one siemens. With
the whole conductance `1 + c` at the node and the drive `h` (`engine.model.dynamics`) the currents
are `(1 + c) (h - v)`. An ideal diode takes up what would drive a node beyond its range: the voltage
stays at the edge until the other currents turn. In both equations `F` never rises, whatever the
weights are, and where they stand still `T(s) = s`. `docs/maths.md` has the derivation.
"""

from contextlib import suppress
from typing import Any

import numpy as np

from engine.arrays import BoolArray, FloatArray
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.model import dynamics
from engine.model.params import Params

MOST_ERROR, LEAST_ERROR = 1e-7, 1e-13
"""Of a step of the integration, in any unit; between them it is a tenth of the tolerance."""
RELATIVE = 1e-13
"""Error in proportion to a state: next to none, as the tolerance is absolute, too."""
HALVINGS = 12
"""How often the step in which a sample settles is halved to find the moment."""


class _OutOfStepsError(Exception):
    """All evaluations of `T` that were allowed are done."""


class Motion:
    """The velocity of a batch, and how far it is from standing still."""

    def __init__(self, params: Params, x: FloatArray, y: FloatArray | None, beta: float) -> None:
        self._network, self._x, self._y = params.network, x, y
        self._params, self._beta = params, beta
        self._clamped = dynamics.clamped_drive(params.network, params, x)
        self._rate, self._low, self._high, self._is_node = _nodes(params)
        self.evaluations = 0
        self.most: int | None = None
        """Evaluations of `T` that are allowed."""

    def begin(self) -> FloatArray:
        """Return where a relaxation starts by itself: `sigma(input drive)`."""
        state: FloatArray = dynamics.activate(self._network, self._clamped)
        return state

    def within(self, state: FloatArray) -> FloatArray:
        """Return states whose nodes are within the range of their diodes."""
        kept: FloatArray = np.clip(state, self._low, self._high)
        return kept

    def velocity(self, state: FloatArray) -> FloatArray:
        """Return `ds/dt (samples, units)`."""
        seen = self.within(state)
        drive, image = self._evaluate(seen)
        speed: FloatArray = np.where(self._is_node, self._rate * (drive - seen), image - seen)
        beyond = ((state <= self._low) & (speed < 0)) | ((state >= self._high) & (speed > 0))
        speed[beyond] = 0.0
        return speed

    def residual(self, state: FloatArray) -> FloatArray:
        """Return `max_u |T(s)_u - s_u|` of every sample."""
        found: FloatArray = np.abs(self._evaluate(state)[1] - state).max(1)
        return found

    def _evaluate(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the drive of a state and its image `T(s)`."""
        if self.most is not None and self.evaluations >= self.most:
            raise _OutOfStepsError
        self.evaluations += 1
        network, held = self._network, (self._x, self._y)
        drive = dynamics.whole_drive(network, self._params, *held, state, self._beta, self._clamped)
        return drive, dynamics.activate(network, drive)


def settle_in_time(
    params: Params,
    clamped: Clamped,
    beta: float = 0.0,
    relaxation: Relaxation | None = None,
    start: FloatArray | None = None,
) -> Equilibrium:
    """Integrate until `max_u |T(s)_u - s_u|` is within the tolerance, sample by sample.

    A sample is left where it comes within it, and `times` says when. Of samples that do not within
    `max_steps` evaluations of `T`, it says how far they came. Nothing of the way is stored.
    """
    relaxation, exact = relaxation or Relaxation(solver="ode"), params.astype(np.float64)
    x = np.asarray(clamped.x, np.float64)
    y = None if beta == 0.0 else np.asarray(clamped.y, np.float64)
    rounding = 8.0 * float(np.finfo(params.theta.dtype).eps)  # of the state that is returned
    goal = max(relaxation.tolerance - rounding, relaxation.tolerance / 2)
    runs = []
    for k in range(len(x)):  # one by one: no sample shortens the steps of another
        row = slice(k, k + 1)
        motion = Motion(exact, x[row], None if y is None else y[row], beta)
        begin = motion.begin() if start is None else np.asarray(start[row], np.float64)
        motion.most = relaxation.max_steps
        run = _Run(motion, begin[0], goal)
        with suppress(_OutOfStepsError), np.errstate(over="ignore", invalid="ignore"):
            run.finish()
        runs.append(run)
    return Equilibrium(
        state=np.stack([run.state for run in runs]).astype(params.theta.dtype),
        steps=np.array([run.steps for run in runs]),
        residual=np.array([run.residual for run in runs]),
        converged=np.array([run.settled for run in runs]),
        beta=beta,
        times=np.array([run.time for run in runs]),
    )


def trace(
    params: Params,
    x: FloatArray,
    times: FloatArray,
    y: FloatArray | None = None,
    beta: float = 0.0,
    start: FloatArray | None = None,
    error: float = 1e-9,
) -> FloatArray:
    """Return the states `(times, samples, units)` at increasing times, from `start` at time zero.

    `error` bounds that of each step of the integration.
    """
    from scipy.integrate import solve_ivp  # takes time to import, and few ask for it

    motion = Motion(params.astype(np.float64), np.asarray(x, np.float64), y, beta)
    begin = motion.begin() if start is None else np.asarray(start, np.float64)
    found = solve_ivp(
        _flat(motion, begin.shape),
        (0.0, float(times[-1])),
        motion.within(begin).ravel(),
        "DOP853",
        times,
        rtol=RELATIVE,
        atol=error / np.sqrt(begin.size),
    )
    return motion.within(found.y.T.reshape(len(times), *begin.shape))


class _Run:
    """The integration of one sample: where it is `(units,)`, and whether it has settled."""

    def __init__(self, motion: Motion, begin: FloatArray, tolerance: float) -> None:
        self._motion, self._tolerance = motion, tolerance
        self._begin, self.state = begin, motion.within(begin)
        self.time, self.residual = 0.0, np.inf
        self._settled_after = 0

    @property
    def settled(self) -> bool:
        """Whether it has come within the tolerance."""
        return self._settled_after > 0

    @property
    def steps(self) -> int:
        """Evaluations of `T` until it had settled, or all."""
        return self._settled_after or self._motion.evaluations

    def finish(self) -> None:
        """Integrate until it has settled, or is nowhere."""
        from scipy.integrate import DOP853  # takes time to import, and few ask for it

        self._see(0.0, self._begin)
        if not self._goes_on():
            return
        error = float(np.clip(self._tolerance / 10, LEAST_ERROR, MOST_ERROR))
        velocity, begin = _flat(self._motion, (1, self._begin.size)), self.state  # within diodes
        solver = DOP853(
            velocity, 0.0, begin, np.inf, rtol=RELATIVE, atol=error / np.sqrt(begin.size)
        )
        while solver.status == "running" and self._goes_on():
            solver.step()
            self._see(solver.t, self._motion.within(solver.y))
        if self.settled:
            self._look_between(solver)

    def _goes_on(self) -> bool:
        return not self.settled and bool(np.isfinite(self.residual))

    def _see(self, time: float, state: FloatArray) -> bool:
        """Take note of where it has come, if it has not settled or is settled there, too."""
        residual = float(self._motion.residual(state[None])[0])
        there = residual <= self._tolerance
        if there or not self.settled:
            self.time, self.residual = time, residual
            self.state = self._motion.within(state)
        if there:
            self._settled_after = self._motion.evaluations
        return there

    def _look_between(self, solver: Any) -> None:
        """Find when it settled in the last step, by halving it."""
        way, early, late = solver.dense_output(), solver.t_old, solver.t
        for _ in range(HALVINGS):
            middle = (early + late) / 2
            if self._see(middle, self._motion.within(way(middle))):
                late = middle
            else:
                early = middle


def _flat(motion: Motion, shape: tuple[int, ...]) -> Any:
    """Return the velocity as a function of a time and a flat state."""

    def velocity(_: float, flat: FloatArray) -> FloatArray:
        return motion.velocity(flat.reshape(shape)).ravel()

    return velocity


def _nodes(params: Params) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Return of all units `1 + c`, the range that diodes leave open, and which are nodes."""
    network = params.network
    rate = np.ones(network.units)
    low, high = np.full(network.units, -np.inf), np.full(network.units, np.inf)
    is_node = np.zeros(network.units, np.bool_)
    compliance = dynamics.compliance(network, params)
    if compliance is not None:
        rate = 1.0 / compliance
    met = {layer for squares in network.squares.values() for layer in squares.layers}
    for layer in network.layers:
        if layer.name in met:
            columns, rule = network.columns[layer.name], layer.rule
            low[columns], high[columns], is_node[columns] = rule.low, rule.high, True
    return rate, low, high, is_node
