"""The contract on torch: the same network on a CPU, a CUDA GPU or an Apple GPU.

It computes by the formulas of `engine.model.dynamics` and keeps no autograd graph.
"""

import numpy as np
import numpy.typing as npt

from adapters.torch_arrays import Device, check_precision, pick_device, to_tensor, torch, unpack
from adapters.torch_solvers import Phase, settle
from engine.arrays import FloatArray, checked_sum
from engine.backend import Backend, Clamped, Equilibrium, Relaxation
from engine.border import checked
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params


class TorchBackend(Backend):
    """`network` on a torch device; `auto` takes the fastest one there is."""

    @checked
    def __init__(self, network: Network, params: Params, device: Device = "auto") -> None:
        self.device = pick_device(device, params.theta.dtype)
        super().__init__(network, params)

    @property
    def dtype(self) -> npt.DTypeLike:
        """Precision of the parameters, in which everything is computed."""
        return self._dtype

    @property
    def params(self) -> Params:
        """A copy of the parameters on the device; read only, so that no write is lost silently."""
        theta = self._theta.cpu().numpy().copy()
        theta.flags.writeable = False
        return Params(self.network, theta)

    @torch.inference_mode()
    def _load(self, params: Params) -> None:
        check_precision(self.device, params.theta.dtype)
        self._dtype = params.theta.dtype
        self._theta = self._tensor(params.theta)
        self._blocks = unpack(self.network, self._theta)

    @torch.inference_mode()
    def _drive(self, x: FloatArray) -> torch.Tensor:
        drive: torch.Tensor = dynamics.clamped_drive(self.network, self._blocks, self._tensor(x))
        return drive

    @torch.inference_mode()
    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        x = self._tensor(clamped.x)
        y = None if clamped.y is None else self._tensor(clamped.y)
        phase = Phase(self.network, self._blocks, x, y, clamped.drive, beta)
        if start is None:
            state = dynamics.activate(self.network, clamped.drive)
        else:
            state = self._tensor(start)
        state, steps, residual = settle(phase, state, relaxation)
        converged = residual <= relaxation.tolerance
        return Equilibrium(
            state.cpu().numpy(),
            steps.cpu().numpy(),
            residual.cpu().numpy(),
            converged.cpu().numpy(),
            beta,
        )

    @torch.inference_mode()
    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        network, total = self.network, torch.zeros_like(self._theta)
        parts = unpack(network, total)
        state = self._tensor(equilibrium.state)
        if energy != 0.0:
            x = self._tensor(clamped.x)
            for coupling in network.couplings:
                ends = network.ends(coupling, state)
                correlation = coupling.correlate(self._blocks[coupling.name], x, *ends)
                parts[coupling.name] -= energy * correlation  # E = ... - Phi
        if cost != 0.0 and clamped.y is not None:
            read = network.of(network.readout.layer, state)
            slopes = network.readout.correlate(self._blocks, read, self._tensor(clamped.y))
            for name, slope in slopes.items():
                parts[name] += cost * slope
        gradient += total.cpu().numpy()

    @torch.inference_mode()
    def _apply(self, update: FloatArray) -> None:
        self._theta.copy_(checked_sum(self._theta, self._tensor(update)))

    def _tensor(self, array: npt.NDArray[np.generic]) -> torch.Tensor:
        return to_tensor(array, self._dtype, self.device)
