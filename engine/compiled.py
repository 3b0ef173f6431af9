"""The compiled backend: numba kernels over BLAS, on the packed parameters."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from engine import dynamics, kernels
from engine.arrays import FloatArray, IntArray
from engine.attention import Attention
from engine.backend import Backend, Clamped, Equilibrium, Relaxation
from engine.compiled_tokens import TokenKernels
from engine.coupling import Bias, Coupling, Dense, InputDrive, Lateral
from engine.errors import EngineError
from engine.network import Network
from engine.params import Params
from engine.readout import SoftmaxReadout, SquaredError
from engine.threads import row_blocks, run_blocks


class NumbaBackend(Backend):
    """Run a network in the precision of its parameters, float32 or float64."""

    joins_phases: ClassVar[bool] = True

    def __init__(self, network: Network, params: Params) -> None:
        self._tokens = TokenKernels(network) if TokenKernels.serve(network) else None
        if self._tokens is not None:
            self.solvers = self._tokens.solvers
        else:
            self._messages = _message_table(network)
            self._layers = _layer_table(network, self._messages)
            self._readout = _readout_table(network)
        super().__init__(network, params)

    @property
    def dtype(self) -> npt.DTypeLike:
        """The precision of the parameters."""
        return self._params.theta.dtype

    @property
    def params(self) -> Params:
        """The parameters in use, not a copy."""
        return self._params

    def _load(self, params: Params) -> None:
        self._params = params.copy()

    def _drive(self, x: FloatArray) -> FloatArray:
        drive: FloatArray = dynamics.clamped_drive(self.network, self._params, x)
        return np.ascontiguousarray(drive)

    def _relax(
        self,
        clamped: Clamped,
        beta: float | FloatArray,
        relaxation: Relaxation,
        start: FloatArray | None,
    ) -> Equilibrium:
        """Relax a batch, or two phases in one: then the second half starts as the first does."""
        if self._tokens is not None:
            assert isinstance(beta, float)
            begin = dynamics.activate(self.network, clamped.drive) if start is None else start
            return self._tokens.relax(self._params, clamped, beta, relaxation, begin)
        if start is None:
            start = np.empty_like(clamped.drive)
            kernels.activate(self._layers, clamped.drive, start)
        samples = len(start)
        targets = clamped.y if clamped.y is not None else np.empty((samples, 0), self.dtype)
        net = kernels.Program(self._params.theta, self._layers, self._messages, self._readout)
        phase = kernels.Phase(clamped.drive, targets, np.full(samples, beta, self.dtype))
        ended = kernels.Ended(
            start.copy(), np.zeros(samples, np.int64), np.zeros(samples, self.dtype)
        )
        blocks = row_blocks(samples)
        twins = not isinstance(beta, float) and len(blocks) == 1

        def solve(rows: slice) -> None:
            part = kernels.Phase(*(whole[rows] for whole in phase))
            end = kernels.Ended(*(whole[rows] for whole in ended))
            self._solve(net, part, start[rows], relaxation, twins, end)

        run_blocks(solve, blocks)
        # In double, as the kernel compares: numpy would round the tolerance to float32.
        converged = ended.residual <= np.float64(relaxation.tolerance)
        return Equilibrium(ended.state, ended.steps, ended.residual, converged, float(np.max(beta)))

    def _solve(
        self,
        net: kernels.Program,
        phase: kernels.Phase,
        start: FloatArray,
        relaxation: Relaxation,
        twins: bool,
        ended: kernels.Ended,
    ) -> None:
        """Run the solver on a block of rows, with buffers of its own."""
        samples = len(start)
        work = self._work(samples)
        limits = (relaxation.tolerance, relaxation.max_steps, ended)
        if relaxation.solver == "fixed_point":
            damping = start.dtype.type(relaxation.damping)
            kernels.relax_fixed_point(net, phase, start, work, damping, twins, *limits)
        elif relaxation.solver == "alternating":
            kernels.relax_alternating(net, phase, start, work, *limits)
        else:
            history = self._history(samples, relaxation.memory)
            kernels.relax_anderson(net, phase, start, work, history, *limits)

    def _relax_opposite(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray
    ) -> tuple[Equilibrium, Equilibrium]:
        """Relax both phases as one batch: half the products, of twice the rows."""
        if self._tokens is not None:
            return super()._relax_opposite(clamped, beta, relaxation, start)
        samples = len(start)
        drive, y, both = (
            None if part is None else np.concatenate((part, part))
            for part in (clamped.drive, clamped.y, start)
        )
        betas = np.repeat(np.array((beta, -beta), self.dtype), samples)
        twice = replace(clamped, y=y, drive=drive)  # x is in the drive, and not read again
        found = self._relax(twice, betas, relaxation, both)
        plus, minus = found.rows(slice(samples)), found.rows(slice(samples, None))
        return replace(plus, beta=beta), replace(minus, beta=-beta)

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        network, total = self.network, Params(self.network, gradient)
        state, opposite = equilibrium.state, equilibrium.opposite
        if energy != 0.0 and opposite is not None:
            self._accumulate_difference(clamped, state, opposite, gradient, energy)
        elif energy != 0.0:
            for coupling in network.couplings:
                block = total[coupling.name]
                self._accumulate_coupling(coupling, clamped, state, block, energy)
        if cost != 0.0:
            read = network.of(network.readout.layer, state)
            slopes = network.readout.correlate(self._params, read, clamped.y)
            for name, slope in slopes.items():
                total[name][...] += cost * slope

    def _accumulate_difference(
        self,
        clamped: Clamped,
        state: FloatArray,
        opposite: FloatArray,
        gradient: FloatArray,
        energy: float,
    ) -> None:
        """Add `energy (dE/dtheta(state) - dE/dtheta(opposite))` to `gradient`.

        With `d` the difference of the states and `m` their mean, a correlation that is linear in
        the state differs by that of `d`, and a product `a'b` by `d_a'm_b + m_a'd_b`: fewer products
        than two phases have, and no difference of large numbers.
        """
        network, total = self.network, Params(self.network, gradient)
        gap, middle = state - opposite, state + opposite
        gap *= -energy  # E = G - Phi
        middle *= 0.5
        for coupling in network.couplings:
            block = total[coupling.name]
            d, m = ([network.of(n, side) for n in coupling.layers] for side in (gap, middle))
            if isinstance(coupling, InputDrive):
                _add_product(block, clamped.x, d[0])
            elif isinstance(coupling, Bias):
                block += d[0].sum(0)
            elif isinstance(coupling, Dense):
                _add_product(block, d[0], m[1])
                _add_product(block, m[0], d[1])
            elif isinstance(coupling, Lateral):
                product = d[0].T @ m[0]
                block += (product + product.T) / 2  # symmetric to the last bit
            else:
                self._accumulate_coupling(coupling, clamped, state, block, energy)
                self._accumulate_coupling(coupling, clamped, opposite, block, -energy)

    def _accumulate_coupling(
        self,
        coupling: Coupling,
        clamped: Clamped,
        state: FloatArray,
        block: FloatArray,
        energy: float,
    ) -> None:
        if self._tokens is not None and isinstance(coupling, Attention):
            block -= energy * self._tokens.correlate(self._params, state)
            return
        ends = [self.network.of(name, state) for name in coupling.layers]
        block -= energy * coupling.correlate(self._params[coupling.name], clamped.x, *ends)

    def _apply(self, update: FloatArray) -> None:
        self._params.theta += update

    def _work(self, samples: int) -> kernels.Work:
        bits = np.int32 if self.dtype == np.float32 else np.int64
        widest = max(layer.size for layer in self.network.layers)
        state, mapped = np.empty((2, samples * self.network.units), self.dtype)
        scratch = np.empty(samples * (widest + self.network.outputs), self.dtype)
        gap, residual = np.empty(widest, self.dtype), np.empty(samples, self.dtype)
        return kernels.Work(
            state,
            mapped,
            scratch,
            np.empty(samples, np.int64),
            gap,
            gap.view(bits),
            residual,
            residual.view(bits),
        )

    def _history(self, samples: int, memory: int) -> kernels.History:
        states, gaps = np.empty((2, samples, memory, self.network.units), self.dtype)
        return kernels.History(
            states,
            gaps,
            plain=np.empty((samples, self.network.units), self.dtype),
            gram=np.zeros((samples, memory, memory), self.dtype),
            system=np.empty((memory, memory)),
            weights=np.empty(memory),
            best=np.empty(samples, self.dtype),
            kept=np.zeros(samples, np.int64),
            newest=np.full(samples, -1, np.int64),
        )


def _add_product(total: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """`total += a' b` in place, without a temporary; BLAS sees every matrix transposed."""
    gemm = blas.sgemm if total.dtype == np.float32 else blas.dgemm
    gemm(1.0, b.T, a.T, beta=1.0, c=total.T, trans_b=True, overwrite_c=True)


def _message_table(network: Network) -> IntArray:
    """One row for each direction of each recurrent coupling (columns: see `engine.kernels`)."""
    index = {layer.name: k for k, layer in enumerate(network.layers)}
    rows: list[tuple[int, ...]] = []
    reached: set[int] = set()
    for coupling in network.recurrent:
        block = network.blocks[coupling.name]
        if isinstance(coupling, Lateral):
            directions = [(coupling.layer, coupling.layer, False)]
        elif isinstance(coupling, Dense):
            ends = coupling.source, coupling.target
            directions = [(*ends, False), (*ends[::-1], True)]
        else:
            raise EngineError(
                f"coupling '{coupling.name}' ({type(coupling).__name__}) has no compiled kernel."
            )
        for source, target, transposed in directions:
            first = index[target] not in reached
            reached.add(index[target])
            rows.append(
                (index[source], index[target], block.start, *block.shape, transposed, first)
            )
    return np.array(rows, np.int64).reshape(-1, 7)


def _layer_table(network: Network, messages: IntArray) -> IntArray:
    """One row for each layer (columns: see `engine.kernels`)."""
    try:
        second = network.halves[1]
    except EngineError:
        second = ()  # no halves: the alternating solver is refused before it would read them
    driven = set(messages[:, kernels.TARGET])
    rows = [
        (
            network.columns[layer.name].start,
            layer.size,
            layer.rule.code,
            layer.name in second,
            k in driven,
        )
        for k, layer in enumerate(network.layers)
    ]
    return np.array(rows, np.int64)


def _readout_table(network: Network) -> IntArray:
    """The read-out (columns: see `engine.kernels`)."""
    readout = network.readout
    layer = [layer.name for layer in network.layers].index(readout.layer)
    if isinstance(readout, SoftmaxReadout):
        weight, bias = network.blocks["W_out"].start, network.blocks["b_out"].start
        return np.array((kernels.SOFTMAX, layer, weight, bias, readout.outputs), np.int64)
    if isinstance(readout, SquaredError):
        return np.array((kernels.SQUARED_ERROR, layer, 0, 0, network.outputs), np.int64)
    raise EngineError(f"the read-out {type(readout).__name__} has no compiled kernel.")
