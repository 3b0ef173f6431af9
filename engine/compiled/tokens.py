"""Networks of one layer of tokens on the kernels of `engine.compiled.attention`."""

from typing import ClassVar

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Clamped, Equilibrium, Relaxation
from engine.compiled import attention as kernels
from engine.couplings.attention import FORBIDDEN, Attention, Hopfield
from engine.couplings.tokens import TokenReadout
from engine.errors import EngineError
from engine.model.network import Network
from engine.model.params import Params


class TokenKernels:
    """What `NumbaBackend` hands to the kernels of tokens, for networks that need them.

    They know one tanh layer with one attention, at most one memory, and a read-out by token.
    """

    solvers: ClassVar[frozenset[str]] = frozenset({"fixed_point"})

    def __init__(self, network: Network) -> None:
        attentions = [c for c in network.recurrent if isinstance(c, Attention)]
        memories = [c for c in network.recurrent if isinstance(c, Hopfield)]
        known = len(attentions) + len(memories) == len(network.recurrent)
        fits = known and len(attentions) == 1 and len(memories) <= 1 and len(network.layers) == 1
        readout = network.readout
        if not (fits and isinstance(readout, TokenReadout)):
            raise EngineError(
                "the compiled backend runs attention in a network of one layer of tokens, with one "
                "attention, at most one memory and a read-out by token; use the torch backend."
            )
        if network.layers[0].activation != "tanh":
            raise EngineError(
                f"the compiled attention has no activation '{network.layers[0].activation}'."
            )
        self._network, self._readout = network, readout
        self._attention = attentions[0]
        self._memory = memories[0] if memories else None
        self._count = network.layers[0].shape[0]
        allowed = self._attention.allowed(self._count)
        self._forbidden, self._seeing = FORBIDDEN * (1 - allowed), allowed.max(-1)

    @staticmethod
    def serve(network: Network) -> bool:
        """Say whether a network has a coupling that only these kernels know."""
        return any(isinstance(c, Attention | Hopfield) for c in network.recurrent)

    def relax(
        self,
        params: Params,
        clamped: Clamped,
        beta: float,
        relaxation: Relaxation,
        start: FloatArray,
    ) -> Equilibrium:
        """Relax a batch from `start`, which is not changed."""
        samples, dtype = len(start), params.theta.dtype
        targets = clamped.y if clamped.y is not None else np.empty((samples, 0), dtype)
        phase = kernels.Phase(clamped.drive, targets, dtype.type(beta))
        ended = kernels.Ended(start.copy(), np.zeros(samples, np.int64), np.zeros(samples, dtype))
        kernels.relax_fixed_point(
            self._program(params),
            phase,
            start,
            self._work(samples, dtype),
            dtype.type(relaxation.damping),
            relaxation.tolerance,
            relaxation.max_steps,
            ended,
        )
        # In double, as the kernel compares: numpy would round the tolerance to float32.
        converged = ended.residual <= np.float64(relaxation.tolerance)
        return Equilibrium(ended.state, ended.steps, ended.residual, converged, beta)

    def correlate(self, params: Params, state: FloatArray) -> FloatArray:
        """Return dPhi/dw of the attention, summed over samples."""
        net = self._program(params)
        block = np.empty_like(params[self._attention.name])
        cut = net.weights.size
        weights, bias = block[:cut].reshape(net.weights.shape), block[cut:].reshape(net.bias.shape)
        work = self._work(len(state), params.theta.dtype)
        kernels.correlate(net, np.ascontiguousarray(state), work, weights, bias)
        return block

    def _program(self, params: Params) -> kernels.Program:
        dtype = params.theta.dtype
        block = params[self._attention.name]
        bias = self._attention.split(block, self._count).bias
        features = 2 * self._attention.heads * self._attention.head_size
        weights = block[: block.size - bias.size].reshape(features, -1)
        memories, recall = np.empty((0, weights.shape[1]), dtype), 1.0
        if self._memory is not None:
            memories, recall = params[self._memory.name], self._memory.sharpness
        return kernels.Program(
            weights,
            (bias + self._forbidden).astype(dtype),
            self._seeing.astype(dtype),
            dtype.type(self._attention.sharpness),
            memories,
            dtype.type(recall),
            params["W_out"],
            params["b_out"],
        )

    def _work(self, samples: int, dtype: np.dtype) -> kernels.Work:
        attention, places = self._attention, self._count * samples
        units, outputs = samples * self._network.units, places * self._readout.outputs
        features = 2 * attention.heads * attention.head_size
        state, mapped, back = np.empty((3, units), dtype)
        projected, arrived = np.empty((2, features * places), dtype)
        fits = places * self._memory.memories if self._memory else 0
        odds = places * self._count
        gaps = self._network.units // self._count
        powers = np.empty(max(outputs, fits, odds, gaps), dtype)
        residual = np.empty(samples, dtype)
        bits = np.int32 if dtype == np.float32 else np.int64
        return kernels.Work(
            state,
            mapped,
            projected,
            arrived,
            odds=np.empty(odds, dtype),
            logits=np.empty(max(outputs, fits), dtype),
            back=back,
            powers=powers,
            power_bits=powers.view(bits),
            order=np.empty(samples, np.int64),
            residual=residual,
            residual_bits=residual.view(bits),
        )
