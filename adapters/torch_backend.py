"""The contract on torch: the same network on a CPU, a CUDA GPU or an Apple GPU.

It computes by the formulas of `engine.model.dynamics` and keeps no autograd graph. Parameters,
states and gradients stay on the device.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from adapters.torch_arrays import Device, check_precision, pick_device, to_tensor, torch, unpack
from adapters.torch_faults import Faults
from adapters.torch_phase import CompiledImage, Phase, image_of
from adapters.torch_solvers import Pace, settle
from adapters.torch_threads import fitting_torch_threads
from engine.arrays import Array, by_sample, check_tensor
from engine.backend import Backend
from engine.border import checked
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT
from engine.couplings.readout import Reading
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.model import dynamics
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
        self._compute: Callable[..., Tensor] = image_of
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
        drive: Tensor = dynamics.clamped_drive(self.network, self._blocks, x)
        return drive

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: Tensor | None
    ) -> Equilibrium:
        (found,) = self._relax(clamped, (((beta,), relaxation),), start)
        return found

    @torch.inference_mode()
    def _relax(self, clamped: Clamped, plan: Plan, start: Tensor | None) -> Sequence[Equilibrium]:
        """Relax the betas of a stage as one batch: half the calls, of twice the rows."""
        held = (self.network, self._blocks, clamped.x, clamped.y, clamped.drive)
        batch = Phase(*held, compute=self._compute)
        with self.fitting_threads(len(clamped.drive)):
            return self._relax_batch(batch, plan, clamped.drive, start)

    def _relax_batch(
        self, batch: Phase, plan: Plan, drive: Tensor, start: Tensor | None
    ) -> Sequence[Equilibrium]:
        """Go through the stages of a plan."""
        begin: Any = start
        if start is None:
            begin = dynamics.begin(self.network, drive, plan[0][1].solver)
        found: list[Equilibrium] = []
        for betas, relaxation in plan:
            begin = found[0].state if found else begin
            phase = (batch.displaced(begin) if relaxation.displaced else batch).nudged(betas)
            first = begin if len(betas) == 1 else begin.repeat(len(betas), 1)
            if phase.origin is not None:
                first = torch.zeros_like(first)
            state, steps, residual = settle(phase, first, relaxation, self.pace)
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
        network, total = self.network, unpack(self.network, gradient)
        if energy != 0.0:
            states: Any = equilibrium.state, equilibrium.opposite, equilibrium.gap
            for coupling in network.couplings:
                self._add_slope(coupling, clamped.x, states, total[coupling.name], -energy)
        if cost == 0.0:
            return None
        state: Any = equilibrium.state
        read, reading = network.of(network.readout.layer, state), network.reading
        if reading is not None and reading.link is not None and reading.link.whole:
            into = total[reading.link.block], total[reading.bias]
            return self._add_delta_rule(reading, by_sample(read), clamped.y, into, cost)
        for name, slope in network.readout.correlate(self._blocks, read, clamped.y).items():
            total[name].add_(slope, alpha=cost)
        return self._cost(clamped, state)

    def _add_delta_rule(
        self, reading: Reading, read: Tensor, y: Array, into: tuple[Tensor, Tensor], cost: float
    ) -> Tensor:
        """Add what one softmax of all units learns; return the costs, of the same logits."""
        assert reading.link is not None
        logits = torch.addmm(self._blocks[reading.bias], read, self._blocks[reading.link.block])
        error = logits.softmax(-1).sub_(y)
        into[0].addmm_(read.T, error, alpha=cost)
        into[1].add_(error.sum(0), alpha=cost)
        costs: Tensor = logits.logsumexp(-1) - (y * logits).sum(-1)
        return costs

    def _add_slope(
        self, coupling: Coupling, x: Tensor, states: Any, total: Tensor, factor: float
    ) -> None:
        """Add `factor dPhi/dw` of a state, minus that of its opposite, to a block.

        The product of the input is the largest of a step: it is added in place.
        """
        state, opposite, gap = states
        link = self.network.links.get(coupling.name)
        if opposite is None or link is None or link.source != INPUT or not link.whole:
            total.add_(self._slope(coupling, x, *states), alpha=factor)
            return
        gap = state - opposite if gap is None else gap
        total.addmm_(x.T, by_sample(self.network.of(link.target, gap)), alpha=factor)

    def _slope(
        self,
        coupling: Coupling,
        x: Tensor,
        state: Tensor,
        opposite: Tensor | None,
        gap: Tensor | None,
    ) -> Array:
        """dPhi/dw of a state, minus that of its opposite.

        With `d` the difference of the states and `m` their mean, what is linear in the state
        differs by that of `d`, and a product `a'b` by `d_a'm_b + m_a'd_b`: fewer products than two
        phases have, and no difference of large numbers.
        """
        network = self.network
        at = partial(coupling.correlate, self._blocks[coupling.name], x)
        ends = network.ends(coupling, state)
        if opposite is None:
            return at(*ends)
        others, link = network.ends(coupling, opposite), network.links.get(coupling.name)
        bound, squares = network.bounds.get(coupling.name), network.squares.get(coupling.name)
        bilinear = bound is not None and bound.bilinear
        if not coupling.clamped and not bilinear and squares is None:
            return at(*ends) - at(*others)
        gaps = network.ends(coupling, state - opposite if gap is None else gap)
        if coupling.clamped and squares is None:
            return at(*gaps)
        middles = [(end + other) / 2 for end, other in zip(ends, others, strict=True)]
        if squares is not None:
            return squares.compare(x, tuple(gaps), tuple(middles))
        if link is not None and link.tied:
            product = by_sample(gaps[0]).T @ by_sample(middles[0])
            return (product + product.T) / 2  # symmetric to the last bit
        return at(gaps[0], middles[1]) + at(middles[0], gaps[1])

    @torch.inference_mode()
    def _cost(self, clamped: Clamped, state: Tensor) -> Array:
        return super()._cost(clamped, state)

    @torch.inference_mode()
    def _predict(self, equilibrium: Equilibrium) -> Array:
        return super()._predict(equilibrium)

    @torch.inference_mode()
    def _watch(self, found: Sequence[Equilibrium]) -> None:
        self._faults.watch_states(found)

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
