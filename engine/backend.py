"""The contract of every execution: `relax` to equilibrium, `accumulate` the local rule, `apply`.

Compiled, scalar reference, torch or simulated hardware: all are a `Backend`. It holds the
parameters as its substrate would.

**Arrays.** A backend computes in arrays of its own; for most these are numpy's. Where they are not
(`Backend.remote`), `own` moves a numpy array there and `host` brings one back, and one rule holds:
a backend answers in the arrays that it is asked with. A batch clamped from numpy arrays is answered
in numpy; values are then checked, and a divergence is raised, at once. A batch clamped from its own
arrays is answered in those, and nothing is read on the way: values are taken as they are, and
`check_finite` raises what went wrong meanwhile. A gradient is written where it lies.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from engine.arrays import (
    Array,
    FloatArray,
    IntArray,
    OwnArray,
    Tensor,
    check_apart,
    check_writable,
    checked_array,
    checked_matrix,
    checked_vector,
)
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation, Solver, finite
from engine.errors import DivergenceError, EngineError
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params

Learnt: TypeAlias = tuple[Array, Sequence[Equilibrium]]
"""The cost of every sample, and how the free and the nudged phase went."""


class Reader(Protocol):
    """What a backend says of inputs `(samples, inputs)` that were checked, as its parameters are.

    It answers what `clamp`, `settle` and `predict` do.
    """

    def outputs(self, x: FloatArray) -> FloatArray:
        """Return the outputs, `(samples, outputs)`."""

    def classes(self, x: FloatArray) -> IntArray:
        """Return the class with the largest output, `(samples,)`."""


class Backend(ABC):
    """An execution of `network`. Subclasses implement the underscored primitives."""

    solvers: frozenset[str] = frozenset(get_args(Solver))
    """The solvers it can run; a backend may have fewer for some networks."""
    joins_phases: ClassVar[bool] = False
    """Whether `_accumulate` takes an equilibrium with its opposite in one go."""
    remote: ClassVar[bool] = False
    """Whether its arrays are not numpy's, so that to read a number is to wait for it."""

    @checked
    def __init__(self, network: Network, params: Params) -> None:
        self.network = network
        self.version = 0
        self.load(params)

    @property
    @abstractmethod
    def dtype(self) -> npt.DTypeLike:
        """Precision of the states and gradients that cross the border."""

    @property
    @abstractmethod
    def params(self) -> Params:
        """The parameters as the substrate holds them now; read only."""

    @property
    def blocks(self) -> Mapping[str, Array]:
        """The parameter blocks in its own arrays; read only."""
        return self.params

    def blocks_as(self, like: Array) -> Mapping[str, Array]:
        """The blocks in numpy's arrays or its own, as `like` is; read only, until they change."""
        return self.params if isinstance(like, np.ndarray) else self.blocks

    def own(self, array: npt.NDArray[Any]) -> Array:
        """Return a numpy array as one of its own; floats take its precision, integers stay."""
        return array

    def host(self, array: Array) -> npt.NDArray[Any]:
        """Return one of its own arrays as numpy's: read what lies elsewhere."""
        return np.asarray(array)

    def check_finite(self) -> None:  # noqa: B027  most backends have nothing left to say
        """Raise the `DivergenceError` of what was computed in its own arrays since the last call.

        Only remote backends keep one to themselves; from the fault on they apply no update.
        """

    @property
    def displaces(self) -> bool:
        """Whether it can iterate displacements of this network (`Relaxation.displaced`)."""
        return False

    def fitting_threads(self, samples: int) -> AbstractContextManager[None]:
        """Hold its own library to the threads that gain by batches of so many samples."""
        return nullcontext()

    def reader(self, relaxation: Relaxation) -> Reader | None:
        """Return what reads free equilibria without preparing for each batch, if it has such."""
        return None

    @checked
    def load(self, params: Params) -> None:
        """Replace all parameters."""
        if params.network != self.network:
            raise EngineError("the parameters belong to another network.")
        params.check()
        self._load(params)
        self.version += 1

    @checked
    def clamp(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Clamped:
        """Hold a batch `x (samples, inputs)` and its targets `y (samples, outputs)`.

        The drive of the input is computed here, once for all phases of the batch. With `weights
        (samples,)` a sample counts in a gradient as often as its weight says.
        """
        inside = self._is_own(x)
        inputs, targets = self._checked_batch(x, y)
        counts = None if weights is None else self._checked_weights(weights, len(inputs))
        inner = None
        if self.remote and not inside:
            moved = self.own(inputs), None if targets is None else self.own(targets)
            inner = Clamped(*moved, self._drive(moved[0]), self.version)
        drive = self._drive(inputs) if inner is None else inner.drive
        clamped = Clamped(inputs, targets, drive, self.version, counts, inner)
        object.__setattr__(clamped, "owner", self)
        return clamped

    @checked
    def relax(
        self, clamped: Clamped, plan: Plan, start: npt.ArrayLike | None = None
    ) -> tuple[Equilibrium, ...]:
        """Relax through the stages of a plan; return an equilibrium for each of their betas.

        The first stage begins at `start (samples, units)`, which is not changed, or at
        `sigma(input drive)`; every later one where the first beta of the first stage ended. Raises
        `DivergenceError` on the first NaN, or leaves it to `check_finite` (see above).
        """
        if not plan:
            raise EngineError("the plan has no stage.")
        for betas, relaxation in plan:
            self._check_stage(clamped, betas, relaxation)
        if start is None and plan[0][1].displaced:
            raise EngineError("a displacement needs the state that it starts from: give a start.")
        begin = None if start is None else self._checked_start(len(clamped.x), start)
        whole = tuple((tuple(map(float, betas)), relaxation) for betas, relaxation in plan)
        if not self.remote:
            found = tuple(map(finite, self._relax(clamped, whole, begin)))
        elif clamped.inner is not None:
            inside = self._relax(clamped.inner, whole, begin)
            found = tuple(finite(self._hosted(equilibrium)) for equilibrium in inside)
        else:
            found = tuple(self._relax(clamped, whole, begin))
            self._watch(found)
        return _from_their_origins(found, plan, start)

    @checked
    def settle(
        self,
        clamped: Clamped,
        beta: float = 0.0,
        relaxation: Relaxation | None = None,
        start: npt.ArrayLike | None = None,
    ) -> Equilibrium:
        """Relax to one equilibrium, of `E + beta C`: a plan of one stage with one beta."""
        (found,) = self.relax(clamped, (((beta,), relaxation or Relaxation()),), start)
        return found

    @checked
    def accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: OwnArray,
        *,
        energy: float = 0.0,
        cost: float = 0.0,
    ) -> Array | None:
        """Add `energy dE/dtheta + cost dC/dtheta`, summed over samples, to `gradient` in place.

        For an equilibrium with an opposite the first is `energy (dE/dtheta - dE/dtheta(opposite))`.
        A sample of weight `w` is added `w` times. If `cost` is not zero, returns `C` of every
        sample, `(samples,)`: its gradient comes from the same errors.
        """
        self._check_fresh(clamped)
        equilibrium = self._checked_equilibrium(clamped, equilibrium)
        self.check_gradient(gradient)
        read = {"x": clamped.x, "y": clamped.y, "weights": clamped.weights}
        read |= {"a state": equilibrium.state, "an opposite state": equilibrium.opposite}
        read |= {"a gap": equilibrium.gap}
        check_apart("gradient", gradient, read | self._read())
        for name, factor in (("energy", energy), ("cost", cost)):
            if not math.isfinite(factor):
                raise EngineError(f"{name} is {factor}, expected a finite number.")
        if cost != 0.0 and clamped.y is None:
            raise EngineError("the gradient of the cost needs targets y, but none were clamped.")
        into = gradient if self._is_own(gradient) else self.own(gradient)
        costs = self._accumulate_weighted(clamped, equilibrium, into, energy, cost)
        if into is not gradient:
            gradient[...] = self.host(into)
        return costs if costs is None or clamped.inner is None else self.host(costs)

    @checked
    def learn(
        self,
        x: OwnArray,
        y: OwnArray,
        plan: Plan,
        gradient: OwnArray,
        *,
        energy: float,
        cost: float,
        start: OwnArray | None = None,
    ) -> Learnt | None:
        """Go from a batch to its gradient in one piece, or return `None` where it cannot.

        It is `clamp`, `relax` through a plan of a free phase and a displacement, and `accumulate`
        of both, `energy` for the difference and `cost` for the free state, in a gradient that is
        zero before. If `None` is returned the gradient holds anything.
        """
        if not self._learns(plan):
            return None
        self.check_gradient(gradient)
        inputs, targets = self._checked_batch(x, y)
        begin = None if start is None else self._checked_start(len(inputs), start)
        read = {"x": inputs, "y": targets, "start": begin}
        check_apart("gradient", gradient, read | self._read())
        return self._learn(inputs, targets, plan, begin, gradient, energy, cost)

    @checked
    def apply(self, update: OwnArray) -> None:
        """Add `update (network.size,)` to the parameters, as the substrate can."""
        size = self.network.size
        if self._is_own(update):
            self._check_own("update", update, (size,))
            self._apply(update)
        elif not self._apply_finite(update):
            checked = checked_vector("update", update, size, self.dtype, DivergenceError)
            self._apply(self.own(checked))
            self.check_finite()
        self.version += 1

    @checked
    def cost(self, clamped: Clamped, equilibrium: Equilibrium) -> Array:
        """Return `C` of every sample, `(samples,)`."""
        self._check_fresh(clamped)
        if clamped.y is None:
            raise EngineError("a cost needs targets y, but none were clamped.")
        state = self._checked_equilibrium(clamped, equilibrium).state
        if clamped.inner is None:
            return self._cost(clamped, state)
        return self.host(self._cost(clamped.inner, state))

    @checked
    def predict(self, equilibrium: Equilibrium) -> Array:
        """Read the outputs `(samples, outputs)` from a state."""
        outputs = self._predict(self._checked_states(equilibrium))
        return outputs if self._is_own(equilibrium.state) else self.host(outputs)

    def check_gradient(self, gradient: Array) -> None:
        """Refuse an array that cannot take a gradient in place, `(network.size,)`."""
        if self._is_own(gradient):
            self._check_own("gradient", gradient, (self.network.size,))
        else:
            check_writable("gradient", gradient, (self.network.size,), self.dtype)

    def _accumulate_weighted(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Array | None:
        """Accumulate the samples, those of equal weight together; return the costs."""
        batch, weights = clamped.inner or clamped, clamped.weights
        if weights is None:
            return self._accumulate_phases(batch, equilibrium, gradient, energy, cost)
        for weight in np.unique(weights[weights > 0.0]):
            alike = weights == weight
            part, phase = batch.rows(alike), equilibrium.rows(alike)
            self._accumulate_phases(part, phase, gradient, energy * weight, cost * weight)
        return self._cost(batch, equilibrium.state) if cost != 0.0 else None

    def _accumulate_phases(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Array | None:
        """Accumulate a phase, and take its opposite away if it has one; return the costs."""
        phase, other = equilibrium, None
        if equilibrium.opposite is not None and not self.joins_phases:
            phase = replace(equilibrium, opposite=None, gap=None)
            other = replace(phase, state=equilibrium.opposite)
        costs = self._accumulate(clamped, phase, gradient, energy, cost)
        if other is not None:
            self._accumulate(clamped, other, gradient, -energy, 0.0)
        if cost == 0.0 or costs is not None:
            return costs
        return self._cost(clamped, phase.state)

    def _check_stage(
        self, clamped: Clamped, betas: tuple[float, ...], relaxation: Relaxation
    ) -> None:
        """Refuse a stage that cannot be run."""
        self._check_fresh(clamped)
        if relaxation.solver not in self.solvers:
            raise EngineError(f"{type(self).__name__} has no solver '{relaxation.solver}'.")
        self.network.turns(relaxation.solver, nudged=False)  # refuses halves that there are not
        if relaxation.displaced and not self.displaces:
            raise EngineError(
                f"{type(self).__name__} cannot displace this network: it iterates states alone, or "
                "a coupling of the network is not linear."
            )
        if not betas or (0.0 in betas and len(betas) > 1):
            raise EngineError(f"a stage has betas {betas}, expected 0 alone, or only others.")
        for beta in betas:
            if not math.isfinite(beta):
                raise EngineError(f"beta is {beta}, expected a finite number.")
            if beta != 0.0 and clamped.y is None:
                raise EngineError(f"a nudge of beta {beta} needs targets y, but none were clamped.")

    def _is_own(self, value: object) -> bool:
        """Tell whether a value is an array of its own, where those are not numpy's."""
        return self.remote and isinstance(value, Tensor)

    def _check_own(self, name: str, array: Array, shape: tuple[int, ...]) -> None:
        """Refuse an array that is not like its own, or of another shape, without reading it."""
        raise NotImplementedError(f"{type(self).__name__} is remote, but has no check of arrays.")

    def _matrix(self, name: str, value: Any, columns: int, inside: bool) -> Array:
        """Return a checked matrix, of its own arrays (`inside`) or numpy's."""
        if not inside:
            return checked_matrix(name, value, columns, self.dtype)
        rows = len(value) if getattr(value, "ndim", 0) else 0
        self._check_own(name, value, (rows, columns))
        return value

    def _checked_batch(self, x: Any, y: Any) -> tuple[Array, Array | None]:
        """Return checked inputs and targets, in its own arrays if the inputs are."""
        inside = self._is_own(x)
        inputs = self._matrix("x", x, self.network.inputs, inside)
        if len(inputs) == 0:
            raise EngineError("x holds no samples.")
        if not inside:
            self.network.check_inputs(inputs)
        if y is None:
            return inputs, None
        targets = self._matrix("y", y, self.network.outputs, inside)
        if len(targets) != len(inputs):
            raise EngineError(f"y has {len(targets)} samples, x has {len(inputs)}.")
        if not inside:
            self.network.readout.check(targets)
        return inputs, targets

    def _own_matrix(self, name: str, value: Any, columns: int) -> Array:
        """Return a checked matrix of its own arrays, whatever it is given in."""
        if not self.remote:  # as most are, in every step of a training
            return checked_matrix(name, value, columns, self.dtype)
        inside = self._is_own(value)
        matrix = self._matrix(name, value, columns, inside)
        return matrix if inside else self.own(matrix)

    def _checked_start(self, samples: int, start: Any) -> Array:
        checked = self._own_matrix("start", start, self.network.units)
        if len(checked) != samples:
            raise EngineError(f"start has {len(checked)} samples, x has {samples}.")
        return checked

    def _checked_states(self, equilibrium: Equilibrium) -> Equilibrium:
        """Return an equilibrium whose states a kernel can read as they are."""
        units, state, opposite = self.network.units, equilibrium.state, equilibrium.opposite
        gap = equilibrium.gap
        if opposite is not None:
            opposite = self._own_matrix("the opposite state", opposite, units)
        if gap is not None:
            gap = self._own_matrix("the gap of two states", gap, units)
        state = self._own_matrix("the state", state, units)
        if all(
            (state is equilibrium.state, opposite is equilibrium.opposite, gap is equilibrium.gap)
        ):
            return equilibrium
        return replace(equilibrium, state=state, opposite=opposite, gap=gap)

    def _checked_equilibrium(self, clamped: Clamped, equilibrium: Equilibrium) -> Equilibrium:
        """Return the same for an equilibrium of this very batch."""
        checked = self._checked_states(equilibrium)
        for state in (checked.state, checked.opposite, checked.gap):
            if state is not None and len(state) != len(clamped.x):
                raise EngineError(f"a state has {len(state)} samples, x has {len(clamped.x)}.")
        return checked

    def _checked_weights(self, weights: npt.ArrayLike, samples: int) -> FloatArray:
        counts = checked_array("weights", weights, self.dtype)
        if counts.ndim != 1 or len(counts) != samples:
            raise EngineError(f"weights have shape {counts.shape}, expected ({samples},).")
        if not (counts.min() >= 0.0 and counts.max() > 0.0):
            raise EngineError(
                f"weights go from {counts.min()} to {counts.max()}, expected none below zero and "
                "some above."
            )
        return counts

    def _hosted(self, equilibrium: Equilibrium) -> Equilibrium:
        """Return an equilibrium of its own arrays in numpy's."""
        displacement = equilibrium.displacement
        return replace(
            equilibrium,
            displacement=None if displacement is None else self.host(displacement),
            state=self.host(equilibrium.state),
            steps=self.host(equilibrium.steps),
            residual=self.host(equilibrium.residual),
            converged=self.host(equilibrium.converged),
        )

    def _watch(self, found: Sequence[Equilibrium]) -> None:
        """Refuse states that are not finite; a remote backend may leave it to `check_finite`."""
        for equilibrium in found:
            finite(self._hosted(equilibrium))

    def _check_fresh(self, clamped: Clamped) -> None:
        if clamped.owner is not self:
            raise EngineError("the batch was not clamped by this backend: use its own clamp.")
        if clamped.version != self.version:
            raise EngineError("the parameters changed after the batch was clamped: clamp it again.")

    @abstractmethod
    def _load(self, params: Params) -> None: ...

    @abstractmethod
    def _drive(self, x: Array) -> Any: ...

    def _relax(self, clamped: Clamped, plan: Plan, start: Array | None) -> Sequence[Equilibrium]:
        """Relax one beta after the other; a backend that can do better takes the plan whole."""
        found: list[Equilibrium] = []
        for stage, (betas, relaxation) in enumerate(plan):
            begin = finite(found[0]).state if stage else start
            found += [self._relax_one(clamped, beta, relaxation, begin) for beta in betas]
        return found

    @abstractmethod
    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: Array | None
    ) -> Equilibrium:
        """Relax to one equilibrium."""

    @abstractmethod
    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Array | None:
        """Add the gradients; return the costs where they come for nothing."""

    def _cost(self, clamped: Clamped, state: Array) -> FloatArray:
        costs: FloatArray = dynamics.cost(self.network, self.blocks, state, clamped.y)
        return costs

    def _learns(self, plan: Plan) -> bool:
        """Whether it can go through this plan by `_learn`."""
        return False

    def _learn(
        self,
        x: Array,
        y: Array,
        plan: Plan,
        start: Array | None,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Learnt | None:
        """Write the gradient in one piece; `None` if a state is not finite."""
        raise NotImplementedError

    @abstractmethod
    def _apply(self, update: Array) -> None:
        """Add a finite update, or refuse one that would make a parameter overflow."""

    def _apply_finite(self, update: FloatArray) -> bool:
        """Apply an array of numpy in one go if that is found to be sound on the way; say if so.

        If not, it is checked by itself, so that the error says what is wrong.
        """
        return False

    def _predict(self, equilibrium: Equilibrium) -> Array:
        readout = self.network.readout
        return readout.predict(self.blocks, self.network.of(readout.layer, equilibrium.state))

    def _read(self) -> dict[str, Array]:
        """Return arrays of its own that are read while a gradient is written."""
        return {}


def _from_their_origins(
    found: tuple[Equilibrium, ...], plan: Plan, start: Any
) -> tuple[Equilibrium, ...]:
    """Name the array that each displacement begins at, as the caller holds it."""
    if not any(relaxation.displaced for _, relaxation in plan):
        return found
    stages = [stage for stage, (betas, _) in enumerate(plan) for _ in betas]
    origins = [found[0].state if stage else start for stage in stages]
    return tuple(
        equilibrium if equilibrium.displacement is None else replace(equilibrium, origin=origin)
        for equilibrium, origin in zip(found, origins, strict=True)
    )
