"""The contract on torch: the same network on a CPU, a CUDA GPU or an Apple GPU.

It computes by the formulas of `engine.model.dynamics` and keeps no autograd graph. Parameters,
states and gradients stay on the device.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from adapters.torch_arrays import Device, check_precision, pick_device, to_tensor, torch, unpack
from adapters.torch_drives import clamped_drive, first_state
from adapters.torch_faults import Faults
from adapters.torch_phase import CompiledImage, Image, Phase, image_of
from adapters.torch_rule import add_delta_rule, add_slope
from adapters.torch_solvers import Pace, settle
from adapters.torch_threads import fitting_torch_threads
from engine.arrays import Array, FloatArray, by_sample, check_tensor
from engine.backend import Backend, Learnt
from engine.border import checked
from engine.compiled.moments import add_finite
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.model.network import Network
from engine.model.params import Params

Tensor = torch.Tensor


class TorchBackend(Backend):
    """`network` on a torch device; `auto` takes the fastest one there is.

    Every `check_every` steps of a relaxation it asks the device whether all samples have settled,
    by default as often as suits it. With `compiled` the steps run through `torch.compile`, which
    takes its time for the first batch of each size.
    """

    solvers = Backend.solvers - {"ode"}
    joins_phases: ClassVar[bool] = True
    remote: ClassVar[bool] = True

    @checked
    def __init__(
        self,
        network: Network,
        params: Params,
        device: Device = "auto",
        compiled: bool = False,
        check_every: int | None = None,
    ) -> None:
        self.device = pick_device(device, params.theta.dtype)
        self.pace = Pace.of(self.device)
        if check_every is not None:
            self.pace = replace(self.pace, check_every=check_every)
        self._compute: Image = image_of
        if compiled:  # which wants shapes that stay
            self.pace = replace(self.pace, gathers=False)
            self._compute = CompiledImage(self.device)
        super().__init__(network, params)

    @property
    def dtype(self) -> npt.DTypeLike:
        """Precision of the parameters, in which everything is computed."""
        return self._dtype

    @property
    def params(self) -> Params:
        """A copy of the parameters on the device; read only, so that no write is lost silently."""
        theta = self.host(self._theta).copy()
        theta.flags.writeable = False
        return Params(self.network, theta)

    @property
    def blocks(self) -> Mapping[str, Tensor]:
        """The parameter blocks on the device."""
        return self._blocks

    def blocks_as(self, like: Array) -> Mapping[str, Array]:
        """The blocks in numpy's arrays or its own; on a CPU they are the same memory."""
        if self.device.type != "cpu" or not isinstance(like, np.ndarray):
            return super().blocks_as(like)
        theta = self.host(self._theta)
        theta.flags.writeable = False
        return Params(self.network, theta)

    def own(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy a numpy array to the device."""
        if isinstance(array, torch.Tensor):
            return array
        dtype = self._dtype if array.dtype.kind == "f" else array.dtype
        return to_tensor(array, dtype, self.device)

    def host(self, array: Array) -> npt.NDArray[Any]:
        """Read a tensor."""
        if isinstance(array, np.ndarray):
            return array
        read: npt.NDArray[Any] = array.cpu().numpy()
        return read

    def fitting_threads(self, samples: int) -> AbstractContextManager[None]:
        """Hold torch to one thread on the CPU, unless products are so large that others gain."""
        if self.device.type != "cpu":
            return nullcontext()
        return fitting_torch_threads(self.network, samples)

    def check_finite(self) -> None:
        """Ask the device for the first fault, and raise it."""
        self._faults.tell()

    @property
    def displaces(self) -> bool:
        """Where the network is linear but for its activations."""
        return self.network.linear

    @torch.inference_mode()
    def _load(self, params: Params) -> None:
        check_precision(self.device, params.theta.dtype)
        self._dtype = params.theta.dtype
        self._theta = self.own(params.theta)
        self._room = torch.empty_like(self._theta)
        self._blocks = unpack(self.network, self._theta)
        self._faults = Faults(self.device)

    @torch.inference_mode()
    def _drive(self, x: Tensor) -> Tensor:
        return clamped_drive(self.network, self._blocks, x)

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: Tensor | None
    ) -> Equilibrium:
        (found,) = self._relax(clamped, (((beta,), relaxation),), start)
        return found

    @torch.inference_mode()
    def _relax(self, clamped: Clamped, plan: Plan, start: Tensor | None) -> Sequence[Equilibrium]:
        """Relax the betas of a stage as one batch: half the calls, of twice the rows."""
        held = (self.network, self._blocks, clamped.x, clamped.y, clamped.drive)
        heard: dict[str, Tensor] | None = {} if _hands_on(plan) else None
        batch = Phase(*held, compute=self._compute, heard=heard)
        with self.fitting_threads(len(clamped.drive)):
            return self._relax_batch(batch, plan, clamped.drive, start)

    def _learns(self, plan: Plan) -> bool:
        """Whether a displacement follows a free phase, by solvers that the network has."""
        if len(plan) != 2 or not self.displaces:
            return False
        (free, first), (nudged, second) = plan
        turned = "alternating" not in (first.solver, second.solver)  # of which it may have none
        return turned and free == (0.0,) and len(nudged) == 1 and bool(second.displaced)

    @torch.inference_mode()
    def _learn(
        self,
        x: Array,
        y: Array,
        plan: Plan,
        start: Tensor | None,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Learnt | None:
        """Do what `clamp`, `relax` and `accumulate` do, without what they check on the way."""
        inside = isinstance(x, torch.Tensor)
        inputs, targets = self._seen(x), self._seen(y)
        batch = Clamped(inputs, targets, self._drive(inputs), self.version)
        found: Sequence[Equilibrium] = self._relax(batch, plan, start)
        free, nudged = found[0], replace(found[1], origin=found[0].state)
        if inside:
            self._watch(found)
        else:
            # A sum that overflows is looked at again, step by step.
            parts: Any = (part for one in (free, nudged) for part in (one.state, one.residual))
            if not all(isfinite(part.sum()) for part in parts):
                return None
            found = [self._hosted(one) for one in (free, nudged)]
        into = self._seen(gradient).zero_()
        costs = self._accumulate(batch, free, into, 0.0, cost)
        if costs is None:
            costs = Backend._cost(self, batch, free.state)
        self._accumulate(batch, nudged.against(free), into, energy, 0.0)
        if not inside and self.device.type != "cpu":
            gradient[...] = self.host(into)
        return costs if inside else self.host(costs), found

    def _seen(self, array: Array) -> Tensor:
        """Return an array as a tensor on the device: without a copy where it lies there already."""
        if isinstance(array, torch.Tensor):
            return array
        shared = self.device.type == "cpu" and array.flags.carray
        return torch.from_numpy(array) if shared else self.own(array)

    def _relax_batch(
        self, batch: Phase, plan: Plan, drive: Tensor, start: Tensor | None
    ) -> Sequence[Equilibrium]:
        """Go through the stages of a plan."""
        begin: Any = start
        if start is None:
            begin = first_state(self.network, drive, plan[0][1].solver)
        found: list[Equilibrium] = []
        known: Tensor | None = None
        for betas, relaxation in plan:
            begin = found[0].state if found else begin
            phase = (batch.displaced(begin, known) if relaxation.displaced else batch).nudged(betas)
            first = begin if len(betas) == 1 else begin.repeat(len(betas), 1)
            if phase.origin is not None:
                first = torch.zeros_like(first)
            state, steps, residual, heard = settle(phase, first, relaxation, self.pace)
            known = known if found else heard
            moved = None
            if phase.origin is not None:
                moved, state = state, phase.origin + state
            found += _equilibria(betas, relaxation, state, steps, residual, moved)
        return found

    @torch.inference_mode()
    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: Tensor,
        energy: float,
        cost: float,
    ) -> Array | None:
        network, blocks, total = self.network, self._blocks, unpack(self.network, gradient)
        if energy != 0.0:
            states: Any = equilibrium.state, equilibrium.opposite, equilibrium.gap
            for coupling in network.couplings:
                add_slope(
                    network, blocks, coupling, clamped.x, states, total[coupling.name], -energy
                )
        if cost == 0.0:
            return None
        state: Any = equilibrium.state
        read, reading = network.of(network.readout.layer, state), network.reading
        if reading is not None and reading.link is not None and reading.link.whole:
            into = total[reading.link.block], total[reading.bias]
            return add_delta_rule(blocks, reading, by_sample(read), clamped.y, into, cost)
        for name, slope in network.readout.correlate(blocks, read, clamped.y).items():
            total[name].add_(slope, alpha=cost)
        return self._cost(clamped, state)

    @torch.inference_mode()
    def _cost(self, clamped: Clamped, state: Tensor) -> Array:
        return super()._cost(clamped, state)

    @torch.inference_mode()
    def _predict(self, equilibrium: Equilibrium) -> Array:
        return super()._predict(equilibrium)

    @torch.inference_mode()
    def _watch(self, found: Sequence[Equilibrium]) -> None:
        self._faults.watch_states(found)

    def _apply_finite(self, update: FloatArray) -> bool:
        """Add an array in the memory of the CPU in one pass, as the compiled backend does."""
        theta = self.host(self._theta)
        plain = update.shape == theta.shape and update.dtype == theta.dtype
        if self.device.type != "cpu" or not (
            plain and update.flags.carray and self._faults.none_yet
        ):
            return False
        with np.errstate(over="ignore", invalid="ignore"):  # it looks for that itself
            return bool(add_finite(theta, update, np.finfo(theta.dtype).max))

    @torch.inference_mode()
    def _apply(self, update: Tensor) -> None:
        """Add the update, unless it or a state before it was not finite."""
        if not len(update):
            return  # nothing has no extremes
        total = torch.add(self._theta, update, out=self._room)
        low, high = total.aminmax()
        self._faults.watch_update(~(low.isfinite() & high.isfinite()))
        if self.pace.check_every > 1:  # to ask the device is to wait for it
            torch.where(self._faults.none_yet, total, self._theta, out=self._theta)
        elif self._faults.none_yet:
            self._theta.copy_(total)

    def _check_own(self, name: str, array: Tensor, shape: tuple[int, ...]) -> None:
        check_tensor(name, array, shape, self._theta)

    def _read(self) -> dict[str, Tensor]:
        return {"the parameters": self._theta}


def _hands_on(plan: Plan) -> bool:
    """Whether the last drive of the free phase is that of displacements.

    Its image is the free state, unless that is a mixture, or only a part of the way there.
    """
    (betas, first), *others = plan
    plain = first.solver != "anderson" and first.damping == 1.0 and not first.displaced
    return plain and betas == (0.0,) and any(how.displaced for _, how in others)


def _equilibria(
    betas: tuple[float, ...], relaxation: Relaxation, *ended: Tensor | None
) -> Iterator[Equilibrium]:
    """Cut what was relaxed side by side into one for each beta.

    That is state, steps and residual, and displacements if there are any.
    """
    count = len(betas)
    parts = ([None] * count if part is None else part.chunk(count) for part in ended)
    each: Any
    for beta, *each in zip(betas, *parts, strict=True):
        state, steps, residual, moved = each
        converged = residual <= relaxation.tolerance
        yield Equilibrium(state, steps, residual, converged, beta, moved)
