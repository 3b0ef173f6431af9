"""The judge: a backend of scalar loops that is never optimised.

It shares nothing with the backends it judges but the description of a network and the contract. A
state is rounded to the precision of the parameters after every step; all sums are double.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.couplings.coupling import Coupling
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import DivergenceError
from engine.model.params import Params
from golden import scalar
from golden.scalar import Vector, Weights

State: TypeAlias = dict[str, Vector]
"""The units of one sample, by layer."""


@dataclass(frozen=True)
class _Sample:
    x: Vector
    y: Vector | None
    drive: State
    """Of the clamped couplings; of a displacement, of all of them at its origin."""
    origin: State | None = None

    def at(self, state: State) -> State:
        """Return the state that a displacement leads to; a state is what it is."""
        return state if self.origin is None else _added(self.origin, state)


@dataclass(frozen=True)
class _Settled:
    state: State
    steps: int
    residual: float
    converged: bool


class ReferenceBackend(Backend):
    """Run a network by scalar Python loops, in the precision of `params`."""

    solvers = frozenset({"fixed_point", "alternating", "sweeps"})
    joins_phases: ClassVar[bool] = True

    @property
    def dtype(self) -> npt.DTypeLike:
        """Precision of the parameters."""
        return self._params.theta.dtype

    @property
    def params(self) -> Params:
        """The parameters; read only."""
        return self._params

    @property
    def displaces(self) -> bool:
        """Where the network is linear but for its activations."""
        return self.network.linear

    def _predict(self, equilibrium: Equilibrium) -> FloatArray:
        """Read the outputs `(samples, outputs)` from a state."""
        readout = self.network.readout
        rows = [
            scalar.predict(readout, self._weights(), self._split(row)[readout.layer])
            for row in equilibrium.state
        ]
        return np.array(rows, dtype=self.dtype)

    def _load(self, params: Params) -> None:
        self._params = params.copy()

    def _apply(self, update: FloatArray) -> None:
        theta = self._params.theta
        moved = [float(held) + float(change) for held, change in zip(theta, update, strict=True)]
        if not all(abs(value) <= np.finfo(theta.dtype).max for value in moved):
            raise DivergenceError("the update makes a parameter overflow; nothing was applied.")
        theta[...] = moved

    def _drive(self, x: FloatArray) -> list[State]:
        clamped = [coupling for coupling in self.network.couplings if coupling.clamped]
        weights = self._weights()
        return [self._sum_drives(clamped, weights, row.tolist(), {}) for row in x]

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        settled, ends = [], []
        for k, row in enumerate(clamped.x):
            y = None if clamped.y is None else clamped.y[k].tolist()
            sample = _Sample(row.tolist(), y, clamped.drive[k])
            if start is None:
                begin = self._begin(sample.drive, relaxation)
            else:
                begin = self._split(start[k])
            if relaxation.displaced:
                sample = replace(sample, drive=self._whole_drive(sample, begin), origin=begin)
                begin = {name: [0.0] * len(row) for name, row in begin.items()}
            settled.append(self._settle(sample, beta, relaxation, begin))
            ends.append(self._join(sample.at(settled[-1].state)))
        found = np.array([self._join(one.state) for one in settled], dtype=self.dtype)
        return Equilibrium(
            state=np.array(ends, dtype=self.dtype),
            steps=np.array([one.steps for one in settled], dtype=np.int64),
            residual=np.array([one.residual for one in settled], dtype=self.dtype),
            converged=np.array([one.converged for one in settled], dtype=np.bool_),
            beta=beta,
            displacement=found if relaxation.displaced else None,
        )

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        weights, readout = self._weights(), self.network.readout
        total = [0.0] * self.network.size
        for k, row in enumerate(clamped.x):
            for part_of_it, sign in self._ends(equilibrium, k):
                state = self._split(part_of_it)
                for coupling in self.network.couplings:
                    ends = [state[name] for name in coupling.layers]
                    part = self._correlate(coupling, weights[coupling.name], row.tolist(), ends)
                    self._add(total, coupling.name, part, -sign * energy)
            if clamped.y is not None:
                s, y = self._split(equilibrium.state[k])[readout.layer], clamped.y[k].tolist()
                for name, part in scalar.correlate_readout(readout, weights, s, y).items():
                    self._add(total, name, part, cost)
        for k, value in enumerate(total):
            gradient[k] += value

    def _ends(self, equilibrium: Equilibrium, k: int) -> list[tuple[FloatArray, float]]:
        """Return the states of a sample that are compared, in double precision, with their signs.

        Two that lie a known gap apart are put there, about their middle.
        """
        state = equilibrium.state[k].astype(np.float64)
        if equilibrium.opposite is None:
            return [(state, 1.0)]
        opposite = equilibrium.opposite[k].astype(np.float64)
        if equilibrium.gap is not None:
            middle, half = (state + opposite) / 2, equilibrium.gap[k].astype(np.float64) / 2
            state, opposite = middle + half, middle - half
        return [(state, 1.0), (opposite, -1.0)]

    def _settle(
        self, sample: _Sample, beta: float, relaxation: Relaxation, state: State
    ) -> _Settled:
        """Relax one sample."""
        turns = self.network.turns(relaxation.solver, nudged=beta != 0.0)
        residual = math.nan
        for step in range(1, relaxation.max_steps + 1):
            target = state
            for layers in turns:
                image = self._map(sample, beta, target)
                target = {n: image[n] if n in layers else row for n, row in target.items()}
            residual = _distance(target, state)
            if not residual > relaxation.tolerance:
                return _Settled(state, step, residual, residual <= relaxation.tolerance)
            state = self._move(state, target, relaxation.damping)
        return _Settled(state, relaxation.max_steps, residual, False)

    def _map(self, sample: _Sample, beta: float, state: State) -> State:
        """`T(s) = sigma(dPhi/ds - beta dC/ds)`, or `D(d) = sigma(h0 + ...) - sigma(h0)`."""
        weights, readout = self._weights(), self.network.readout
        drive = self._sum_drives(self.network.recurrent, weights, sample.x, state)
        resisted = self._resisted(weights)
        if beta != 0.0 and sample.y is not None:
            pull = scalar.nudge(readout, weights, sample.at(state)[readout.layer], sample.y)
            for unit, part in enumerate(pull):
                drive[readout.layer][unit] -= beta * part
        if sample.origin is None:
            return self._activate(_added(sample.drive, drive))
        return {
            layer.name: [
                self._round(scalar.activation_difference(layer.activation, h / r, e / r))
                for h, e, r in zip(
                    sample.drive[layer.name],
                    drive[layer.name],
                    resisted[layer.name],
                    strict=True,
                )
            ]
            for layer in self.network.layers
        }

    def _whole_drive(self, sample: _Sample, state: State) -> State:
        """`h0 = dPhi/ds` of all couplings."""
        sent = self._sum_drives(self.network.recurrent, self._weights(), sample.x, state)
        return _added(sample.drive, sent)

    def _sum_drives(
        self, couplings: Iterable[Coupling], weights: dict[str, Weights], x: Vector, state: State
    ) -> State:
        total = {layer.name: [0.0] * layer.size for layer in self.network.layers}
        for coupling in couplings:
            ends = [] if coupling.clamped else [state[name] for name in coupling.layers]
            sent = self._send(coupling, weights[coupling.name], x, ends)
            for name, row in zip(coupling.layers, sent, strict=True):
                for unit, part in enumerate(row):
                    total[name][unit] += part
        return total

    def _send(
        self, coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector]
    ) -> tuple[Vector, ...]:
        return scalar.send(coupling, w, x, ends, self._shape(coupling))

    def _correlate(
        self, coupling: Coupling, w: Weights, x: Vector, ends: Sequence[Vector]
    ) -> Vector:
        return scalar.correlate(coupling, w, x, ends, self._shape(coupling))

    def _shape(self, coupling: Coupling) -> tuple[int, ...]:
        return self.network.shapes[coupling.layers[0]]

    def _begin(self, drive: State, relaxation: Relaxation) -> State:
        """Where a sample starts by itself; in sweeps all layers but the first start at zero."""
        begin = self._activate(drive)
        for layer in self.network.layers[1:]:
            if relaxation.solver == "sweeps":
                begin[layer.name] = [0.0] * layer.size
        return begin

    def _activate(self, drive: State) -> State:
        resisted = self._resisted(self._weights())
        return {
            layer.name: [
                self._round(scalar.activate(layer.activation, h / r))
                for h, r in zip(drive[layer.name], resisted[layer.name], strict=True)
            ]
            for layer in self.network.layers
        }

    def _resisted(self, weights: dict[str, Weights]) -> State:
        """What the drive of each unit is divided by: its leak and all conductance at it."""
        total = {layer.name: [1.0] * layer.size for layer in self.network.layers}
        for coupling in self.network.couplings:
            found = scalar.stiffness(coupling, weights[coupling.name])
            for name, row in zip(coupling.layers, found or (), strict=found is not None):
                total[name] = [r + c for r, c in zip(total[name], row, strict=True)]
        return total

    def _move(self, state: State, target: State, damping: float) -> State:
        """`s + damping (T(s) - s)`, in the form that is exactly `T(s)` undamped."""
        return {
            name: [
                self._round((1 - damping) * s + damping * t)
                for s, t in zip(row, target[name], strict=True)
            ]
            for name, row in state.items()
        }

    def _add(self, total: Vector, name: str, part: Vector, coefficient: float) -> None:
        start = self.network.blocks[name].start
        for k, value in enumerate(part):
            total[start + k] += coefficient * value

    def _weights(self) -> dict[str, Weights]:
        return {name: block.tolist() for name, block in self._params.items()}

    def _round(self, value: float) -> float:
        return float(self._params.theta.dtype.type(value))

    def _split(self, row: FloatArray) -> State:
        return {name: row[span].tolist() for name, span in self.network.columns.items()}

    def _join(self, state: State) -> Vector:
        return [value for name in self.network.columns for value in state[name]]


def _added(one: State, other: State) -> State:
    """Return the sum of two states, or drives, unit by unit."""
    return {
        name: [a + b for a, b in zip(row, other[name], strict=True)] for name, row in one.items()
    }


def _distance(target: State, state: State) -> float:
    """`max_u |T(s)_u - s_u|`; NaN if any is."""
    largest = 0.0
    for name, row in state.items():
        for t, s in zip(target[name], row, strict=True):
            gap = abs(t - s)
            if math.isnan(gap):
                return gap
            largest = max(largest, gap)
    return largest
