"""The compiled backend: numba kernels on the flat array of parameters."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, checked_sum
from engine.backend import Backend, Learnt, Reader
from engine.border import checked
from engine.compiled.clamping import ClampedDrive
from engine.compiled.lesson import Batch, Lesson, can_learn
from engine.compiled.local_rule import add_energy, add_energy_difference
from engine.compiled.lowering import Tables, tables_of
from engine.compiled.moments import add_finite
from engine.compiled.phases import Held, Phases, rooms
from engine.compiled.program import Results
from engine.compiled.reader import NetworkReader
from engine.compiled.reading import softmax_errors
from engine.compiled.threads import row_blocks, run_blocks
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.model.continuous import settle_in_time
from engine.model.network import Network
from engine.model.params import Params

LESSONS = 2
"""How many are kept for further steps: that of a whole batch, and of the last one of an epoch."""


class NumbaBackend(Backend):
    """Run a network in the precision of its parameters, float32 or float64."""

    joins_phases: ClassVar[bool] = True
    _tables: Tables

    @checked
    def __init__(self, network: Network, params: Params) -> None:
        super().__init__(network, params)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The precision of the parameters."""
        return self._params.theta.dtype

    @property
    def params(self) -> Params:
        """The parameters in use, not a copy."""
        return self._params

    @property
    def displaces(self) -> bool:
        """Where the network is linear but for its activations."""
        return self.network.linear

    def _load(self, params: Params) -> None:
        self._params = params.copy()
        self._tables = tables_of(self.network, params.theta.itemsize)  # refuses what it cannot run
        self._lessons: dict[tuple[Plan, int], Lesson] = {}

    def reader(self, relaxation: Relaxation) -> Reader | None:
        """Return what reads with weights that are packed once, if no subclass changes a step."""
        plain = relaxation.solver not in ("anderson", "ode") and not relaxation.displaced
        if type(self) is not NumbaBackend or not plain:
            return None
        self.network.turns(relaxation.solver, nudged=False)  # refuses halves that there are not
        return NetworkReader(self._params, self._tables, relaxation)

    def _drive(self, x: FloatArray) -> FloatArray:
        clamped = ClampedDrive(self._params)
        drive = clamped.new_room(len(x))
        blocks = row_blocks(len(x), clamped.macs)
        run_blocks(lambda rows: clamped.write(x[rows], drive[rows]), blocks)
        clamped.finish(x, drive)
        return drive

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        if relaxation.solver == "ode":
            return settle_in_time(self._params, clamped, beta, relaxation, start)
        # Its own, whatever a subclass makes of a plan.
        (found,) = NumbaBackend._relax(self, clamped, (((beta,), relaxation),), start)
        return found

    def _relax(
        self, clamped: Clamped, plan: Plan, start: FloatArray | None
    ) -> Sequence[Equilibrium]:
        """Relax all stages of a block of samples on one core, the betas of a stage side by side."""
        if any(relaxation.solver == "ode" for _, relaxation in plan):
            return super()._relax(clamped, plan, start)
        samples, held = len(clamped.drive), Held(clamped.drive, clamped.y, start)
        phases = Phases(self._params, self._tables, plan, held, self._rooms(plan, samples))
        work = self._tables.work * sum(len(betas) for betas, _ in plan)
        phases.solve_blocks(row_blocks(samples, work))
        return phases.found()

    def _rooms(self, plan: Plan, samples: int) -> list[Results]:
        """Return room for where each stage ends."""
        return rooms(self.network, self._tables, plan, samples, self.dtype)

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> FloatArray | None:
        total, batch = Params(self.network, gradient), (self._params, clamped, equilibrium.state)
        if energy != 0.0 and equilibrium.opposite is not None:
            add_energy_difference(*batch, equilibrium.opposite, equilibrium.gap, total, energy)
        elif energy != 0.0:
            add_energy(*batch, total, energy)
        reading = self.network.reading
        if cost == 0.0 or reading is None or reading.link is None:
            return None
        error, costs = self._errors(clamped, equilibrium.state)
        error *= cost
        read = self.network.of(self.network.readout.layer, equilibrium.state)
        total[reading.link.block][...] += read.reshape(len(error), -1).T @ error
        total[reading.bias][...] += error.sum(0)
        return costs

    def _learns(self, plan: Plan) -> bool:
        changed = any(getattr(type(self), name) is not one for name, one in _PRIMITIVES.items())
        return not changed and can_learn(self.network, plan)

    def _learn(
        self,
        x: FloatArray,
        y: FloatArray,
        plan: Plan,
        start: FloatArray | None,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> Learnt | None:
        # Whoever takes the lesson has it alone: two threads may learn from one backend.
        key = (plan, len(x))
        lesson = self._lessons.pop(key, None)
        if lesson is None:
            lesson = Lesson(self._params, self._tables, plan, len(x))
        found = lesson.learn(Batch(x, y, start, energy, cost), gradient)
        while len(self._lessons) >= LESSONS:
            self._lessons.pop(next(iter(self._lessons)), None)
        self._lessons[key] = lesson
        return found

    def _cost(self, clamped: Clamped, state: FloatArray) -> FloatArray:
        reading = self.network.reading
        if reading is None or reading.link is None:
            return super()._cost(clamped, state)
        return self._errors(clamped, state)[1]

    def _errors(self, clamped: Clamped, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the errors `p - y` of each softmax, a row for each, and the costs `(samples,)`."""
        reading = self.network.reading
        assert clamped.y is not None
        assert reading is not None
        assert reading.link is not None
        rows = len(state) * reading.positions
        read = self.network.of(self.network.readout.layer, state).reshape(rows, -1)
        error = read @ self._params[reading.link.block] + self._params[reading.bias]
        costs = np.empty(rows, self.dtype)
        softmax_errors(error, clamped.y.reshape(rows, -1), costs, 0, rows)
        if len(costs) > len(state):
            costs = costs.reshape(len(state), -1).sum(-1)
        return error, costs

    def _apply_finite(self, update: FloatArray) -> bool:
        theta = self._params.theta
        plain = update.shape == theta.shape and update.dtype == theta.dtype
        if not plain or not update.flags.carray or type(self)._apply is not NumbaBackend._apply:
            return False
        with np.errstate(over="ignore", invalid="ignore"):  # it looks for that itself
            return bool(add_finite(theta, update, np.finfo(theta.dtype).max))

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)

    def _read(self) -> dict[str, FloatArray]:
        return {"the parameters": self._params.theta}


_PRIMITIVES = {
    name: getattr(NumbaBackend, name)
    for name in ("clamp", "_drive", "relax", "_relax", "_rooms", "accumulate", "_accumulate")
}
"""What a gradient in one piece stands for: a subclass that changes any of these does each."""
