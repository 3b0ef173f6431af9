"""A network that settles as a `torch.nn.Module`, whose backward pass is equilibrium propagation.

The output is the free equilibrium of one layer. Whatever torch model follows sends back a slope
`g = dL/ds`; nudging by the linear cost `C = g s` turns it into

    dL/dtheta = sum_k c_k dE/dtheta(s^{beta_k})        dL/dx = sum_k c_k dE/dx(s^{beta_k})

which are measured at the equilibria alone: no graph of the relaxation is ever made, and memory does
not depend on the number of steps. Every sample is nudged by a slope of largest entry one and its
contribution scaled back, so beta means the same for any loss, and no sample sees the others: shards
of a batch in several processes add up to the whole batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from adapters.torch_arrays import CPU, Blocks, to_tensor, torch
from adapters.torch_autograd import symmetrise
from adapters.torch_phase import Phase
from adapters.torch_solvers import settle
from engine.arrays import Array, FloatArray, by_sample
from engine.equilibrium import Relaxation
from engine.errors import DivergenceError, EngineError
from engine.learning.estimator import Estimator, centered, check_estimator
from engine.learning.spectral import SpectralCap
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params

Tensor = torch.Tensor

BETA = 0.05
"""Bias of the centered estimate about 1e-3, noise of single precision about 1e-6."""


@dataclass(frozen=True)
class LinearCost:
    """`C = y' s`: a force `y` on the units of `layer`, which it also reads out as they are."""

    layer: str

    def shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """No parameters."""
        return {}

    def width(self, shape: tuple[int, ...]) -> int:
        """One force for each unit."""
        return prod(shape)

    def check(self, y: FloatArray) -> None:
        """Any force will do."""

    def initial(self, rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, FloatArray]:
        """No parameters."""
        return {}

    def predict(self, blocks: Mapping[str, Array], s: Array) -> Array:
        """The state of the layer."""
        return by_sample(s)

    def cost(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`y' s`."""
        return (by_sample(s) * y).sum(-1)

    def nudge(self, blocks: Mapping[str, Array], s: Array, y: Array) -> Array:
        """`y`, wherever the state is."""
        return y

    def correlate(self, blocks: Mapping[str, Array], s: Array, y: Array) -> dict[str, Array]:
        """No parameters."""
        return {}

    def curvature(self, blocks: Mapping[str, FloatArray]) -> float:
        """None: no beta is too large for stability."""
        return 0.0


@dataclass(frozen=True)
class Phases:
    """How the module settles: the network, the estimator and the relaxations."""

    network: Network
    estimator: Estimator
    free: Relaxation
    nudged: Relaxation

    def relax(
        self, blocks: Blocks, x: Tensor, beta: float, force: Tensor | None, start: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return an equilibrium, its steps and its residual, without a graph."""
        rounding = 8.0 * torch.finfo(x.dtype).eps
        betas = [abs(b) for b, _ in self.estimator]
        way = self.free
        if beta != 0.0:
            way = self.nudged.nudged(beta, rounding)
        elif 0.0 in betas:  # a free state that is a phase of the estimate is as exact as the others
            way = self.free.nudged(min(b for b in betas if b != 0.0), rounding)
        with torch.no_grad():
            drive = dynamics.clamped_drive(self.network, blocks, x)
            start = dynamics.begin(self.network, drive, way.solver) if start is None else start
            phase = Phase(self.network, blocks, x, force, drive).nudged((beta,))
            state, steps, residual, _ = settle(phase, start, way)
        if not bool(state.isfinite().all()):
            raise DivergenceError(
                f"a state stopped being finite (beta {beta}): lower the learning rate or cap the "
                "weights with `enforce`."
            )
        return state, steps, residual


class _Settle(torch.autograd.Function):
    """Free equilibrium forwards, the estimate backwards."""

    @staticmethod
    def forward(
        ctx: Any, phases: Phases, names: tuple[str, ...], x: Tensor, *values: Tensor
    ) -> Tensor:
        """Return the state of the layer that is read."""
        network, blocks = phases.network, dict(zip(names, values, strict=True))
        state, _, _ = phases.relax(symmetrise(network, blocks), x, 0.0, None, None)
        ctx.phases, ctx.names = phases, names
        ctx.save_for_backward(x, state, *values)
        read: Tensor = by_sample(network.of(network.readout.layer, state)).clone()
        return read

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Nudge by the slope; return the estimated gradients of `x` and of the parameters."""
        x, free, *values = ctx.saved_tensors
        phases: Phases = ctx.phases
        wanted = ctx.needs_input_grad[2:]
        leaves = [
            value.detach().requires_grad_(want)
            for value, want in zip((x, *values), wanted, strict=True)
        ]
        asked = [leaf for leaf in leaves if leaf.requires_grad]
        sums = [torch.zeros_like(leaf) for leaf in asked]
        blocks = symmetrise(phases.network, dict(zip(ctx.names, values, strict=True)))
        size = slope.abs().amax(-1)
        force = slope / size.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        for beta, coefficient in phases.estimator:
            state = free
            if beta != 0.0:
                state, _, _ = phases.relax(blocks, x, beta, force, free)
            for total, part in zip(
                sums, _energy_slopes(ctx, leaves, asked, state, size), strict=True
            ):
                total.add_(part, alpha=coefficient)
        found = iter(sums)
        return (None, None, *(next(found) if want else None for want in wanted))


def _energy_slopes(
    ctx: Any, leaves: list[Tensor], asked: list[Tensor], state: Tensor, size: Tensor
) -> tuple[Tensor, ...]:
    """dE/dtheta and dE/dx at a given state, weighted by sample: the local rule of each coupling.

    Autograd sees one evaluation of `Phi` with the state held fixed, not how the state came about.
    """
    x, *values = leaves
    network = ctx.phases.network
    with torch.enable_grad():
        blocks = symmetrise(network, dict(zip(ctx.names, values, strict=True)))
        energy = -(size * dynamics.potential(network, blocks, x, state)).sum()
        return torch.autograd.grad(energy, asked, materialize_grads=True)


class EqPropModule(torch.nn.Module):
    """Settle a batch `(samples, inputs)` and return the state of the layer that is read out.

    A network that sees its input through a convolution takes images as well, `(samples, height,
    width, channels)`. The module has the couplings of `params` and the layer of their read-out; the
    weights of that read-out are left behind, since the torch model that follows has its own. The
    estimator is centered by default. Precision is that of `params`.
    """

    def __init__(
        self,
        params: Params,
        estimator: Estimator | None = None,
        free: Relaxation | None = None,
        nudged: Relaxation | None = None,
    ) -> None:
        super().__init__()
        estimator = estimator or centered(BETA)
        check_estimator(estimator)
        params.check()
        if not params.network.couplings:
            raise EngineError("the network has no coupling that could learn.")
        free = free or Relaxation()
        network = replace(params.network, readout=LinearCost(params.network.readout.layer))
        self.phases = Phases(network, estimator, free, nudged or free)
        self.blocks = torch.nn.ParameterDict(
            {name: to_tensor(params[name], params.theta.dtype, CPU) for name in network.blocks}
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the equilibrium, `(samples, size of the layer)`; pixels follow one another."""
        x = self._rows(x)
        names, values = tuple(self.blocks), self.blocks.values()
        output: Tensor = _Settle.apply(self.phases, names, x, *values)  # type: ignore[no-untyped-call]
        return output

    def relax(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the whole free state `(samples, units)`, its steps and its residual."""
        x = self._rows(x)
        blocks = symmetrise(self.phases.network, dict(self.blocks))
        state, steps, residual = self.phases.relax(blocks, x, 0.0, None, None)
        return state, steps, residual

    @property
    def params(self) -> Params:
        """A copy of the parameters for the engine; its read-out is `LinearCost`."""
        network = self.phases.network
        with torch.no_grad():
            blocks = symmetrise(network, dict(self.blocks))
            flat = [blocks[name].detach().cpu().numpy().ravel() for name in network.blocks]
        return Params(network, np.concatenate(flat))

    def enforce(self, cap: SpectralCap) -> None:
        """Bring the recurrent couplings under the cap; call it after each step of an optimizer."""
        if cap.method != "exact":
            raise EngineError(f"the module caps by method 'exact', not '{cap.method}'.")
        capped = self.params
        cap.enforce(capped.network, capped, 0, {})
        with torch.no_grad():
            for coupling in self.phases.network.recurrent:
                block = self.blocks[coupling.name]
                block.copy_(to_tensor(capped[coupling.name], capped.theta.dtype, block.device))

    def _rows(self, x: Tensor) -> Tensor:
        """Return `x` as `(samples, inputs)`, or refuse what is neither rows nor images."""
        network, held = self.phases.network, next(iter(self.blocks.values()))
        known = [(network.inputs,), *_images(network)]
        if tuple(x.shape[1:]) not in known:
            shapes = " or ".join(f"(samples, {', '.join(map(str, shape))})" for shape in known)
            raise EngineError(f"x has shape {tuple(x.shape)}, expected {shapes}.")
        if x.dtype != held.dtype or x.device != held.device:
            raise EngineError(
                f"x is {x.dtype} on {x.device}, the module {held.dtype} on {held.device}."
            )
        return x.reshape(len(x), network.inputs)


def _images(network: Network) -> list[tuple[int, ...]]:
    """Shapes in which the couplings of a network see its input as an image."""
    found = (getattr(coupling, "image", None) for coupling in network.couplings)
    return list(dict.fromkeys(shape for shape in found if shape))
