"""The compiled backend: numba kernels on the flat array of parameters."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, checked_sum
from engine.backend import Backend, Reader
from engine.border import checked
from engine.compiled.anderson import relax_anderson
from engine.compiled.buffers import new_buffers, new_history, new_program, new_results
from engine.compiled.clamping import ClampedDrive
from engine.compiled.functions import activate, find_anchor
from engine.compiled.linking import step_at
from engine.compiled.local_rule import add_energy, add_energy_difference
from engine.compiled.lowering import Tables, tables_of, turns_of
from engine.compiled.program import Program, Results, Stage
from engine.compiled.reader import NetworkReader
from engine.compiled.reading import softmax_errors
from engine.compiled.relaxation import find_drive, relax_fixed_point
from engine.compiled.threads import row_blocks, run_blocks
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.model.network import Network
from engine.model.params import Params


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

    def reader(self, relaxation: Relaxation) -> Reader | None:
        """Return what reads with weights that are packed once, if no subclass changes a step."""
        plain = relaxation.solver != "anderson" and not relaxation.displaced
        if type(self) is not NumbaBackend or not plain:
            return None
        self.network.turns(relaxation.solver, nudged=False)  # refuses halves that there are not
        return NetworkReader(self._params, self._tables, relaxation)

    def _drive(self, x: FloatArray) -> FloatArray:
        clamped = ClampedDrive(self._params)
        drive = clamped.new_room(len(x))
        blocks = row_blocks(len(x), clamped.macs)
        run_blocks(lambda rows: clamped.write(x[rows], drive[rows]), blocks)
        clamped.add_formulas(x, drive)
        return drive

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        # Its own, whatever a subclass makes of a plan.
        (found,) = NumbaBackend._relax(self, clamped, (((beta,), relaxation),), start)
        return found

    def _relax(
        self, clamped: Clamped, plan: Plan, start: FloatArray | None
    ) -> Sequence[Equilibrium]:
        """Relax all stages of a block of samples on the same core, the betas of one side by side.

        Opposite nudges are then one batch: half the products, of twice the rows. The first stage
        hands its last drive on, so that the others begin with one product less.
        """
        begin = start if start is not None else np.empty_like(clamped.drive)
        if start is None:
            activate(self._tables.layers, clamped.drive, begin)
            for late in self.network.late(plan[0][1].solver):
                begin[:, self.network.columns[late]] = 0
        net, samples = new_program(self._params, self._tables), len(begin)
        ended = self._rooms(plan, samples)
        anchor = np.empty_like(begin[: samples * any(how.displaced for _, how in plan)])

        def solve(rows: slice) -> None:
            for k, (betas, relaxation) in enumerate(plan):
                known = ended[0].drive if k else ended[0].drive[:0]
                origin = ended[0].state if k else begin
                stage = self._stage(clamped, betas, relaxation, known)
                if relaxation.displaced:
                    self._find_anchor(net, stage, origin, rows, anchor)
                    stage = stage._replace(clamped=anchor, origin=origin)
                elif k == 0:
                    stage = stage._replace(refresh=_is_refreshed(plan))
                self._solve(net, stage, origin, rows, relaxation, ended[k])

        work = self._tables.work * sum(len(betas) for betas, _ in plan)
        run_blocks(solve, row_blocks(samples, work))
        return [
            _equilibrium(end, slice(k * samples, (k + 1) * samples), relaxation, beta)
            for end, (betas, relaxation) in zip(ended, plan, strict=True)
            for k, beta in enumerate(betas)
        ]

    def _rooms(self, plan: Plan, samples: int) -> list[Results]:
        """Return room for where each stage ends; of the first one also for its drive."""
        # A kernel of its own adds to all its ends, also to those that had their turn.
        whole = not self._tables.own or plan[0][1].solver == "fixed_point"
        handed_on = _is_refreshed(plan) or (whole and _is_displaced_after(plan))
        return [
            new_results(
                self.network,
                samples * len(betas),
                self.dtype,
                for_drive=stage == 0 and handed_on,
                displaced=bool(relaxation.displaced),
            )
            for stage, (betas, relaxation) in enumerate(plan)
        ]

    def _stage(
        self,
        clamped: Clamped,
        betas: tuple[float, ...],
        relaxation: Relaxation,
        known: FloatArray,
    ) -> Stage:
        """Return a stage of states, with the drive of those that it starts from, if known."""
        nothing = np.empty((0, self.network.units), self.dtype)
        targets = clamped.y
        if targets is None:
            targets = np.empty((len(clamped.drive), 0), self.dtype)
        turns = turns_of(self.network, relaxation.solver, nudged=betas[0] != 0.0)
        nudges = np.array(betas, self.dtype)
        return Stage(
            clamped.drive, targets, nudges, known, nothing, turns, int(turns.max()), refresh=False
        )

    def _find_anchor(
        self, net: Program, stage: Stage, origin: FloatArray, rows: slice, anchor: FloatArray
    ) -> None:
        """Write what displacements from `origin` need of its drive, for a block of samples."""
        drive = stage.known
        if not len(drive):
            drive = np.empty_like(origin)
            work = new_buffers(self.network, self._tables, rows.stop - rows.start, self.dtype)
            at_once = stage._replace(
                betas=stage.betas[:1], turns=np.zeros_like(stage.turns), last_turn=0
            )
            find_drive(net, at_once, origin, rows.start, work, drive)
        find_anchor(net.layers, stage.clamped, drive, rows.start, rows.stop, anchor)

    def _solve(
        self,
        net: Program,
        stage: Stage,
        start: FloatArray,
        rows: slice,
        relaxation: Relaxation,
        ended: Results,
    ) -> None:
        """Run the solver on a block of samples, all their betas, with buffers of its own."""
        count = (rows.stop - rows.start) * len(stage.betas)
        work = new_buffers(self.network, self._tables, count, self.dtype)
        begin = (step_at(net, stage, work), net, stage, start, rows.start, work)
        limits = (relaxation.tolerance, relaxation.max_steps, ended)
        if relaxation.solver == "anderson":
            past = new_history(self.network, count, relaxation.memory, self.dtype)
            relax_anderson(*begin, past, *limits)
        else:
            relax_fixed_point(*begin, start.dtype.type(relaxation.damping), *limits)

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
        softmax_errors(error, clamped.y.reshape(rows, -1), costs)
        if len(costs) > len(state):
            costs = costs.reshape(len(state), -1).sum(-1)
        return error, costs

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)

    def _read(self) -> dict[str, FloatArray]:
        return {"the parameters": self._params.theta}


def _is_refreshed(plan: Plan) -> bool:
    """Whether the drive of where the first stage ends spares the stages of states a product."""
    plain = [how.solver == "fixed_point" and not how.displaced for _, how in plan]
    return plain[0] and any(plain[1:])


def _is_displaced_after(plan: Plan) -> bool:
    """Whether later stages are displaced by what the first one, not a mixture, last computed."""
    return plan[0][1].solver != "anderson" and any(how.displaced for _, how in plan[1:])


def _equilibrium(ended: Results, rows: slice, relaxation: Relaxation, beta: float) -> Equilibrium:
    residual = ended.residual[rows]
    # In double, as the kernel compares: numpy would round the tolerance to float32.
    converged = residual <= np.float64(relaxation.tolerance)
    moved = ended.moved[rows] if relaxation.displaced else None
    return Equilibrium(ended.state[rows], ended.steps[rows], residual, converged, beta, moved)
