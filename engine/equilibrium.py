"""What a relaxation is told (`Relaxation`, `Plan`, `Clamped`) and what it finds: `Equilibrium`."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from engine.arrays import Array, BoolArray, FloatArray, IntArray
from engine.border import checked
from engine.errors import DivergenceError, EngineError, check_count

Solver = Literal["fixed_point", "alternating", "sweeps", "anderson", "ode"]


@checked
@dataclass(frozen=True)
class Relaxation:
    """How to look for an equilibrium, and when to stop.

    A sample has converged when `max_u |T(s)_u - s_u| <= tolerance`; it is then left as it is.
    `fixed_point` steps `s + damping (T(s) - s)`. `sweeps` lets the layers take turns, each seeing
    what those before it have become: upwards, in the order in which the network lists them, when
    free, and downwards when nudged. `alternating` has two turns, one for each half of the layers.
    All turns together count as one step, and `T` is what they do. `anderson` mixes the last
    `memory` plain steps of every sample, and takes one where the mixture raised the residual.
    `ode` integrates how the network settles in time (`engine.model.continuous`); its steps are
    evaluations of `T`, of which it takes hundreds.
    """

    max_steps: int = 30
    """Steps after which a sample that still moves is left unsettled."""
    tolerance: float = 1e-4
    """The largest change of a unit in one step at which a sample counts as settled."""
    solver: Solver = "fixed_point"
    """How to step, as above."""
    damping: float = 1.0
    """Share of a step that is taken, of `fixed_point` alone."""
    memory: int = 5
    """Steps that `anderson` mixes."""
    displaced: bool | None = None
    """Whether to iterate the displacement `d = s - s0` from the state `s0` that it starts from:

        d <- sigma(h0 + W d - beta dC/ds) - sigma(h0),    h0 the drive at s0

    It has the same fixed point if `s0` is a free equilibrium, and `d` is not rounded as a state is:
    the smallest nudge arrives. Where it is not said, `estimate` does so wherever it can.
    """

    def __post_init__(self) -> None:
        check_count("max_steps", self.max_steps)
        if not self.tolerance >= 0.0:
            raise EngineError(f"tolerance is {self.tolerance}, expected zero or more.")
        if self.solver not in get_args(Solver):
            known = ", ".join(get_args(Solver))
            raise EngineError(f"unknown solver '{self.solver}'; known: {known}.")
        if not 0.0 < self.damping <= 1.0:
            raise EngineError(f"damping is {self.damping}, expected more than 0 and at most 1.")
        if self.damping != 1.0 and self.solver != "fixed_point":
            raise EngineError(f"damping belongs to solver 'fixed_point', not to '{self.solver}'.")
        check_count("memory", self.memory)
        if self.displaced and self.solver == "ode":
            raise EngineError("solver 'ode' integrates states: it iterates no displacement.")
        # Kernels that are called by their address take these kinds of numbers and no others.
        for name, kind in (("max_steps", int), ("tolerance", float), ("damping", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))

    def displaces(self, possible: bool) -> bool:
        """Return whether it iterates displacements where a backend can (`possible`)."""
        if self.displaced is None:
            return possible and self.solver != "ode"
        return self.displaced

    def nudged(self, beta: float, rounding: float = 0.0) -> "Relaxation":
        """Return the same with a tolerance in proportion to `|beta|`.

        A nudge moves the state by O(beta): an absolute tolerance would stop before it has. Below
        `rounding` no tolerance can be met, so it is not scaled further than that.
        """
        return _scaled(self, min(1.0, abs(beta)), rounding)


@lru_cache(maxsize=64)  # the same in every step of a training
def _scaled(relaxation: Relaxation, share: float, rounding: float) -> Relaxation:
    """Return `relaxation` with a share of its tolerance, but no less than `rounding`."""
    tolerance = relaxation.tolerance
    return replace(relaxation, tolerance=min(tolerance, max(tolerance * share, rounding)))


Plan: TypeAlias = tuple[tuple[tuple[float, ...], Relaxation], ...]
"""Stages of a relaxation: the betas that are relaxed side by side, and how."""


@dataclass(frozen=True)
class Clamped:
    """A batch held at the inputs and targets, with the drive that no step changes.

    Only `Backend.clamp` makes one that a backend takes: its arrays have been checked, so kernels
    read them as they are.
    """

    x: Array
    """Inputs `(samples, inputs)`."""
    y: Array | None
    """Targets `(samples, outputs)`, where there are any."""
    drive: Any
    """dPhi/ds of the clamped couplings, in the array type of the backend."""
    version: int
    """Count of the parameter changes the backend had seen when it was made."""
    weights: FloatArray | None = None
    """What the gradient and the cost of every sample count, `(samples,)`; all alike if absent.

    Always numpy's: they steer which samples are added together.
    """
    inner: "Clamped | None" = None
    """The same in the backend's own arrays, where it was clamped from numpy's and they differ."""
    owner: object = field(default=None, init=False, repr=False)
    """The backend that made it; a copy with other fields has none."""

    def rows(self, chosen: BoolArray) -> "Clamped":
        """Return some of the samples without weights or drive: enough to accumulate them."""
        y = None if self.y is None else self.y[chosen]
        return Clamped(self.x[chosen], y, None, self.version)


@dataclass(frozen=True)
class Equilibrium:
    """Where a relaxation ended, sample by sample.

    `residual` is `max_u |T(s)_u - s_u|`, of the returned state where it converged, else of the
    state before the last step. `steps` counts evaluations of `T`. The arrays are numpy's where the
    batch was clamped from such.
    """

    state: FloatArray
    """`(samples, units)`, layer after layer."""
    steps: IntArray
    residual: FloatArray
    converged: BoolArray
    """Whether the residual came down to the tolerance, `(samples,)`."""
    beta: float
    """The nudge that it was looked for with; zero is the free phase."""
    displacement: FloatArray | None = None
    """How far it lies from its `origin`, where it was iterated as that: `state` is rounded."""
    origin: FloatArray | None = None
    """The state that it is displaced from: the very array in which the relaxation began."""
    opposite: FloatArray | None = None
    """State of another phase, whose contribution `accumulate` takes away."""
    gap: FloatArray | None = None
    """How far it lies from its opposite, where that is known better than from the two states."""
    times: FloatArray | None = None
    """When each sample settled, where it was integrated in time: in time constants."""

    def against(self, other: "Equilibrium") -> "Equilibrium":
        """Return the same, to be accumulated minus `other`."""
        return replace(self, opposite=other.state, gap=self._gap(other))

    def _gap(self, other: "Equilibrium") -> FloatArray | None:
        """Return the difference of two displacements from one origin, which may be one of both."""
        here, there = self.displacement, other.displacement
        mine = self.state if here is None else self.origin
        if mine is not (other.state if there is None else other.origin):
            return None
        if here is None:
            return None if there is None else -there
        return here if there is None else here - there

    def rows(self, chosen: BoolArray | slice) -> "Equilibrium":
        """Return some of the samples."""
        return replace(
            self,
            state=self.state[chosen],
            steps=self.steps[chosen],
            residual=self.residual[chosen],
            converged=self.converged[chosen],
            **{name: part[chosen] for name, part in self._optional().items()},
        )

    def _optional(self) -> dict[str, Any]:
        """Return the arrays that not every equilibrium has, by name."""
        names = ("displacement", "origin", "opposite", "gap", "times")
        return {name: part for name in names if (part := getattr(self, name)) is not None}

    def summary(self) -> str:
        """Say in one line how the batch settled."""
        median, most = np.median(self.steps), self.steps.max()
        late = np.percentile(self.steps, 95)
        return (
            f"{self.converged.sum()} of {self.converged.size} samples settled; steps "
            f"{median:.0f} (median), {late:.0f} (95 %), {most} (max); "
            f"largest residual {self.residual.max():.1e}"
        )


def finite(equilibrium: Equilibrium) -> Equilibrium:
    """Refuse an equilibrium that holds a value which is not finite."""
    if not (np.isfinite(equilibrium.residual).all() and np.isfinite(equilibrium.state).all()):
        finite = np.isfinite(equilibrium.residual) & np.isfinite(equilibrium.state).all(axis=1)
        sample = int(np.flatnonzero(~finite)[0])
        raise divergence_of(sample, int(equilibrium.steps[sample]), equilibrium.beta)
    return equilibrium


def divergence_of(sample: int, step: int, beta: float) -> DivergenceError:
    """Return the error that says where a state stopped being finite."""
    return DivergenceError(
        f"the state of sample {sample} stopped being finite at step {step} (beta {beta}): lower "
        "the learning rate or the cap."
    )
