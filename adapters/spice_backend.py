"""The contract on ngspice: to relax is to ask a circuit simulator for an operating point.

So a network learns with the circuit in the loop, whatever that is made of (`Parts`): the engine
adds up what each resistor sees of its own voltage drop, and never asks what the diodes do.
"""

import numpy as np
import numpy.typing as npt

from adapters.spice_netlist import Parts, check_circuit, write_netlist
from adapters.spice_run import find_ngspice, run_netlist
from engine.arrays import FloatArray, checked_sum
from engine.backend import Backend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.model.network import Network
from engine.model.params import Params


class SpiceBackend(Backend):
    """A resistive network as a circuit of `parts`, which one run of ngspice settles per phase.

    Voltages come in double precision. A run finds the point of every sample or fails as a whole, so
    all have converged in one step; where the circuit is not ideal, its point is not that of `T`.
    """

    solvers = frozenset({"fixed_point"})

    def __init__(self, network: Network, params: Params, parts: Parts | None = None) -> None:
        check_circuit(network)
        find_ngspice()
        self.parts = parts or Parts()
        super().__init__(network, params)

    @property
    def dtype(self) -> npt.DTypeLike:
        """Double precision."""
        return np.float64

    @property
    def params(self) -> Params:
        """The conductances and currents; read only."""
        return self._params

    def _load(self, params: Params) -> None:
        self._params = params.astype(np.float64)

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)

    def _drive(self, x: FloatArray) -> None:
        """Nothing: the sources are part of the netlist."""

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        text = write_netlist(self._params, clamped.x, clamped.y, beta, self.parts)
        count = len(clamped.x)
        return Equilibrium(
            state=run_netlist(text, self.network),
            steps=np.ones(count, np.int64),
            residual=np.zeros(count),
            converged=np.ones(count, np.bool_),
            beta=beta,
        )

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        total = Params(self.network, gradient)
        for coupling in self.network.couplings:
            ends = self.network.ends(coupling, equilibrium.state)
            seen = coupling.correlate(self._params[coupling.name], clamped.x, *ends)
            total[coupling.name][...] -= energy * seen  # E = ... - Phi
