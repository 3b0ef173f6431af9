"""The phases of a batch: every block of rows goes through all stages of a plan on one core."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray
from engine.compiled.anderson import relax_anderson
from engine.compiled.buffers import new_buffers, new_history, new_program, new_results
from engine.compiled.crew import run_job
from engine.compiled.functions import activate, find_anchor
from engine.compiled.jobs import lay_down, new_places, put
from engine.compiled.linking import share_at, solver_at, step_at, ways_of
from engine.compiled.lowering import Tables, turns_of
from engine.compiled.passage import Course
from engine.compiled.program import Buffers, Program, Results, Stage
from engine.compiled.relaxation import find_drive, relax_fixed_point
from engine.compiled.shares import Rows, relax
from engine.compiled.threads import run_blocks
from engine.equilibrium import Equilibrium, Plan, Relaxation
from engine.model.network import Network
from engine.model.params import Params


class Held(NamedTuple):
    """What the phases of a batch are held to: drive `(samples, units)`, targets, first states."""

    drive: FloatArray
    targets: FloatArray | None
    start: FloatArray | None


class Phases:
    """The stages of a plan on a batch, with the parameters as they are when it is made.

    Opposite nudges are one batch: half the products, of twice the rows. The first stage hands its
    last drive on, so that the others begin with one product less. `ended` is room for where the
    samples of each stage end (`rooms`).
    """

    def __init__(
        self, params: Params, tables: Tables, plan: Plan, held: Held, ended: list[Results]
    ) -> None:
        self._network, self._tables, self._plan = params.network, tables, plan
        self._clamped, self._is_told, self._ended = held.drive, held.start is not None, ended
        self._begin = np.empty_like(held.drive) if held.start is None else held.start
        self.net: Program = new_program(params, tables)
        moved = len(held.drive) * any(how.displaced for _, how in plan)
        self._anchor = np.empty_like(held.drive[:moved])
        targets = held.targets
        if targets is None:
            targets = np.empty((len(held.drive), 0), held.drive.dtype)
        self._stages = [self._stage(k, targets) for k in range(len(plan))]

    def solve(self, rows: slice) -> None:
        """Take a block of samples through all stages, with buffers of its own."""
        if not self._is_told:
            begin = self._begin[rows]
            activate(self._tables.layers, self._clamped[rows], begin)
            for late in self._network.late(self._plan[0][1].solver):
                begin[:, self._network.columns[late]] = 0
        for k, (_, relaxation) in enumerate(self._plan):
            if relaxation.displaced:
                self._find_anchor(k, rows)
            self._run(k, rows, relaxation)

    def solve_blocks(self, blocks: list[slice]) -> None:
        """Take blocks of samples through all stages, each on a core of its own."""
        plain = all(how.solver != "anderson" for _, how in self._plan)
        known = all(len(stage.known) or not len(stage.origin) for stage in self._stages)
        if len(blocks) == 1 or not (plain and known):
            run_blocks(self.solve, blocks)
            return
        for k in range(len(self._plan)):
            self._share_out(k, blocks)

    def _share_out(self, k: int, blocks: list[slice]) -> None:
        """Run the solver of a stage on blocks of samples: one job, without the interpreter."""
        net, stage, (_, how) = self.net, self._stages[k], self._plan[k]
        late = self._network.late(how.solver)
        waits = np.array([layer.name in late for layer in self._network.layers])
        seats, places = [], new_places(len(blocks))
        for core, rows in enumerate(blocks):
            work = self._buffers((rows.stop - rows.start) * len(stage.betas))
            seats.append(Rows(rows.start, rows.stop, work))
            put(places, core, seats[core])
        dtype, ended = self._clamped.dtype, self._ended[k]
        course = Course(stage, dtype.type(how.damping), how.tolerance, how.max_steps, ended)
        ways = ways_of(net, stage, seats[0].work, ended)
        start, is_told = self._origin(k), self._is_told or k > 0
        told = (ways, net, course, start, self._clamped, waits, is_told, places, seats[0])
        job = new_places(1)
        lay_down(job, share_at(relax, dtype, told), told)
        run_job(job, 1, len(blocks))

    def found(self) -> list[Equilibrium]:
        """Return an equilibrium for each beta of the plan."""
        samples = len(self._clamped)
        return [
            equilibrium_of(end, slice(k * samples, (k + 1) * samples), relaxation, beta)
            for end, (betas, relaxation) in zip(self._ended, self._plan, strict=True)
            for k, beta in enumerate(betas)
        ]

    def _stage(self, k: int, targets: FloatArray) -> Stage:
        """Return a stage, with the drive of the states that it starts from where that is known."""
        betas, relaxation = self._plan[k]
        nothing = self._clamped[:0]
        turns, last = turns_found(self._network, relaxation.solver, nudged=betas[0] != 0.0)
        return Stage(
            self._anchor if relaxation.displaced else self._clamped,
            targets,
            np.array(betas, self._clamped.dtype),
            self._ended[0].drive if k else nothing,
            self._origin(k) if relaxation.displaced else nothing,
            turns,
            last,
            refresh=k == 0 and not relaxation.displaced and _is_refreshed(self._plan),
        )

    def _origin(self, k: int) -> FloatArray:
        """Return the states that a stage starts from."""
        origin: FloatArray = self._ended[0].state if k else self._begin
        return origin

    def _find_anchor(self, k: int, rows: slice) -> None:
        """Write what displacements from their origin need of its drive."""
        drive, stage, net = self._stages[k].known, self._stages[k], self.net
        if not len(drive):
            drive = np.empty_like(self._clamped)
            work = self._buffers(rows.stop - rows.start)
            at_once = stage._replace(
                clamped=self._clamped,
                origin=drive[:0],
                betas=stage.betas[:1],
                turns=np.zeros_like(stage.turns),
                last_turn=0,
            )
            find_drive(net, at_once, self._origin(k), rows.start, work, drive)
        span = rows.start, rows.stop
        find_anchor(net.layers, self._clamped, drive, net.compliance, *span, self._anchor)

    def _run(self, k: int, rows: slice, relaxation: Relaxation) -> None:
        """Run the solver of a stage on a block of samples, all their betas."""
        net, stage, start = self.net, self._stages[k], self._origin(k)
        count = (rows.stop - rows.start) * len(stage.betas)
        work = self._buffers(count)
        begin = (net, stage, start, rows.start, work)
        limits = (relaxation.tolerance, relaxation.max_steps, self._ended[k])
        if relaxation.solver == "anderson":
            past = new_history(self._network, count, relaxation.memory, start.dtype)
            relax_anderson(step_at(net, stage, work), *begin, past, *limits)
        else:
            ways = solver_at(net, stage, work, self._ended[k])
            relax_fixed_point(*ways, *begin, start.dtype.type(relaxation.damping), *limits)

    def _buffers(self, rows: int) -> Buffers:
        return new_buffers(self._network, self._tables, rows, self._clamped.dtype)


def rooms(
    network: Network, tables: Tables, plan: Plan, samples: int, dtype: npt.DTypeLike
) -> list[Results]:
    """Return room for where each stage ends; of the first one also for its drive."""
    # A kernel of its own adds to all its ends, also to those that had their turn.
    whole = not tables.own or plan[0][1].solver == "fixed_point"
    handed_on = _is_refreshed(plan) or (whole and _is_displaced_after(plan))
    return [
        new_results(
            network,
            samples * len(betas),
            dtype,
            for_drive=stage == 0 and handed_on,
            displaced=bool(relaxation.displaced),
        )
        for stage, (betas, relaxation) in enumerate(plan)
    ]


@lru_cache(maxsize=64)  # the same in every step of a training
def turns_found(network: Network, solver: str, nudged: bool) -> tuple[IntArray, int]:
    """Return the turn of each layer, `(layers,)`, and the last of them."""
    turns = turns_of(network, solver, nudged)
    return turns, int(turns.max())


def _is_refreshed(plan: Plan) -> bool:
    """Whether the drive of where the first stage ends spares the stages of states a product."""
    plain = [how.solver == "fixed_point" and not how.displaced for _, how in plan]
    return plain[0] and any(plain[1:])


def _is_displaced_after(plan: Plan) -> bool:
    """Whether later stages are displaced by what the first one, not a mixture, last computed."""
    return plan[0][1].solver != "anderson" and any(how.displaced for _, how in plan[1:])


def equilibrium_of(ended: Results, rows: slice, relaxation: Relaxation, beta: float) -> Equilibrium:
    """Return what some rows ended at."""
    residual = ended.residual[rows]
    # In double, as the kernel compares: numpy would round the tolerance to float32.
    converged = residual <= np.float64(relaxation.tolerance)
    moved = ended.moved[rows] if relaxation.displaced else None
    return Equilibrium(ended.state[rows], ended.steps[rows], residual, converged, beta, moved)
