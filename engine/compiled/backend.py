"""The compiled backend: numba kernels on the flat array of parameters."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, by_sample, checked_sum
from engine.backend import Backend, Clamped, Equilibrium, Plan, Relaxation, finite
from engine.border import checked
from engine.compiled import kernels
from engine.compiled.tables import Tables, tables_of
from engine.compiled.threads import portions, row_blocks, run_blocks
from engine.compiled.tokens import TokenKernels
from engine.couplings.attention import Attention
from engine.couplings.coupling import Coupling
from engine.couplings.link import INPUT, ONE, Link
from engine.couplings.readout import SoftmaxReadout
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params


class NumbaBackend(Backend):
    """Run a network in the precision of its parameters, float32 or float64."""

    joins_phases: ClassVar[bool] = True
    _tables: Tables

    @checked
    def __init__(self, network: Network, params: Params) -> None:
        self._tokens = TokenKernels(network) if TokenKernels.serve(network) else None
        if self._tokens is not None:
            self.solvers = self._tokens.solvers
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
        if self._tokens is None:
            self._tables = tables_of(self.network, params.theta.itemsize)

    def _drive(self, x: FloatArray) -> FloatArray:
        network = self.network
        if self._tokens is not None:
            return np.ascontiguousarray(dynamics.clamped_drive(network, self._params, x))
        drive = np.zeros((len(x), network.units), self.dtype)
        for coupling in (c for c in network.couplings if c.clamped):
            link = network.links.get(coupling.name)
            if link is not None and link.source == INPUT and link.whole:
                self._add_input(link, x, drive)
            elif link is not None and link.source == ONE:
                drive[:, network.columns[link.target]] += self._params[link.block]
            else:
                parts = coupling.drive(self._params[coupling.name], x)
                for name, part in zip(coupling.layers, parts, strict=True):
                    drive[:, network.columns[name]] += by_sample(part)
        return drive

    def _add_input(self, link: Link, x: FloatArray, drive: FloatArray) -> None:
        """Add `x W` to the columns of the layer."""
        weight, columns = self._params[link.block], self.network.columns[link.target]
        packed = np.empty(kernels.packed_size(weight.shape, weight.itemsize), self.dtype)
        kernels.pack(weight, packed)
        inputs, size = weight.shape
        flat, into, units = x.reshape(-1), drive.reshape(-1), drive.shape[1]

        def add(rows: slice) -> None:
            part, begin = flat[rows.start * inputs :], rows.start * units + columns.start
            count, edge = rows.stop - rows.start, kernels.new_edge(self.dtype)
            kernels.add_product(part, count, inputs, packed, into[begin:], size, units, edge)

        run_blocks(add, row_blocks(len(x), weight.size))

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        # Its own, whatever a subclass makes of a plan.
        (found,) = NumbaBackend._relax(self, clamped, (((beta,), relaxation),), start)
        return found

    def _relax(
        self, clamped: Clamped, plan: Plan, start: FloatArray | None
    ) -> Sequence[Equilibrium]:
        """Relax all stages of a block of samples on the same core, the betas of one side by side.

        Opposite nudges are then one batch: half the products, of twice the rows. Where the first
        stage takes plain steps, the others are handed its last drive as well, and begin with one
        product less.
        """
        if self._tokens is not None:
            return self._relax_tokens(clamped, plan, start)
        if start is None:
            start = np.empty_like(clamped.drive)
            kernels.activate(self._tables.layers, clamped.drive, start)
        samples, net = len(start), self._program()
        targets = clamped.y if clamped.y is not None else np.empty((samples, 0), self.dtype)
        plain = [relaxation.solver == "fixed_point" for _, relaxation in plan]
        carries = plain[0] and any(plain[1:])
        ended = [
            self._room(samples * len(betas), carries and stage == 0)
            for stage, (betas, _) in enumerate(plan)
        ]
        unknown = np.empty((0, self.network.units), self.dtype)

        def solve(rows: slice) -> None:
            for stage, (betas, relaxation) in enumerate(plan):
                begin = ended[0].state if stage else start
                known = ended[0].drive if stage and plain[stage] else unknown
                phase = kernels.Phase(clamped.drive, targets, np.array(betas, self.dtype), known)
                self._solve(net, phase, begin, rows, relaxation, ended[stage])

        work = self._tables.work * sum(len(betas) for betas, _ in plan)
        run_blocks(solve, row_blocks(samples, work))
        return [
            _equilibrium(end, slice(k * samples, (k + 1) * samples), relaxation.tolerance, beta)
            for end, (betas, relaxation) in zip(ended, plan, strict=True)
            for k, beta in enumerate(betas)
        ]

    def _relax_tokens(
        self, clamped: Clamped, plan: Plan, start: FloatArray | None
    ) -> list[Equilibrium]:
        assert self._tokens is not None
        begin = dynamics.activate(self.network, clamped.drive) if start is None else start
        found: list[Equilibrium] = []
        for stage, (betas, relaxation) in enumerate(plan):
            begin = finite(found[0]).state if stage else begin
            found += [
                self._tokens.relax(self._params, clamped, beta, relaxation, begin) for beta in betas
            ]
        return found

    def _solve(
        self,
        net: kernels.Program,
        phase: kernels.Phase,
        start: FloatArray,
        rows: slice,
        relaxation: Relaxation,
        ended: kernels.Ended,
    ) -> None:
        """Run the solver on a block of samples, all their phases, with buffers of its own."""
        count = (rows.stop - rows.start) * len(phase.betas)
        begin = (net, phase, start, rows.start, self._work(count))
        limits = (relaxation.tolerance, relaxation.max_steps, ended)
        if relaxation.solver == "fixed_point":
            damping = start.dtype.type(relaxation.damping)
            kernels.relax_fixed_point(*begin, damping, *limits)
        elif relaxation.solver == "alternating":
            kernels.relax_alternating(*begin, *limits)
        else:
            kernels.relax_anderson(*begin, self._history(count, relaxation.memory), *limits)

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> FloatArray | None:
        network, total = self.network, Params(self.network, gradient)
        state, opposite = equilibrium.state, equilibrium.opposite
        if energy != 0.0 and opposite is not None:
            self._accumulate_difference(clamped, state, opposite, gradient, energy)
        elif energy != 0.0:
            for coupling in network.couplings:
                block = total[coupling.name]
                self._accumulate_coupling(coupling, clamped, state, block, energy)
        if cost == 0.0:
            return None
        read = network.of(network.readout.layer, state)
        if isinstance(network.readout, SoftmaxReadout):
            error, costs = self._errors(clamped, state)
            error *= cost
            total["W_out"][...] += by_sample(read).T @ error
            total["b_out"][...] += error.sum(0)
            return costs
        slopes = network.readout.correlate(self._params, read, clamped.y)
        for name, slope in slopes.items():
            total[name][...] += cost * slope
        return None

    def _cost(self, clamped: Clamped, state: FloatArray) -> FloatArray:
        if isinstance(self.network.readout, SoftmaxReadout):
            return self._errors(clamped, state)[1]
        return super()._cost(clamped, state)

    def _errors(self, clamped: Clamped, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the errors `p - y (samples, outputs)` of the softmax and the costs."""
        assert clamped.y is not None
        read = by_sample(self.network.of(self.network.readout.layer, state))
        error = read @ self._params["W_out"] + self._params["b_out"]
        costs = np.empty(len(error), self.dtype)
        kernels.softmax_errors(error, clamped.y, costs)
        return error, costs

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
        gap, middle = np.empty_like(state), np.empty_like(state)
        kernels.compare(state, opposite, state.dtype.type(-energy), gap, middle)  # E = G - Phi

        def add(share: list[int]) -> None:
            for coupling in (network.couplings[k] for k in share):
                block, link = total[coupling.name], network.links.get(coupling.name)
                if link is None:
                    self._accumulate_coupling(coupling, clamped, state, block, energy)
                    self._accumulate_coupling(coupling, clamped, opposite, block, -energy)
                    continue
                d = by_sample(network.of(link.target, gap))
                if link.source == ONE:
                    block += d.sum(0)
                    continue
                if link.source == INPUT:
                    _add_correlation(link, block, clamped.x, d)
                    continue
                m, above = (by_sample(network.of(link.source, side)) for side in (middle, gap))
                if link.tied:
                    product = np.zeros_like(block)
                    _add_correlation(link, product, d, m)
                    block += (product + product.T) / 2  # symmetric to the last bit
                    continue
                _add_correlation(link, block, above, by_sample(network.of(link.target, middle)))
                _add_correlation(link, block, m, d)

        sizes = [network.blocks[coupling.name].size for coupling in network.couplings]
        run_blocks(add, portions([len(state) * size for size in sizes]))

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
        ends = self.network.ends(coupling, state)
        block -= energy * coupling.correlate(self._params[coupling.name], clamped.x, *ends)

    def _apply(self, update: FloatArray) -> None:
        self._params.theta[...] = checked_sum(self._params.theta, update)

    def _read(self) -> dict[str, FloatArray]:
        return {"the parameters": self._params.theta}

    def _program(self) -> kernels.Program:
        """Return the network with its matrices packed, as the parameters are now."""
        tables, room = self._tables, np.empty(self._tables.packed, self.dtype)
        net = kernels.Program(
            self._params.theta, room, tables.layers, tables.messages, tables.gather, tables.readout
        )
        kernels.pack_weights(net)
        return net

    def _room(self, rows: int, for_drive: bool = False) -> kernels.Ended:
        units, dtype = self.network.units, self.dtype
        state, drive = np.empty((rows, units), dtype), np.empty((rows * for_drive, units), dtype)
        return kernels.Ended(state, drive, np.zeros(rows, np.int64), np.zeros(rows, dtype))

    def _work(self, rows: int) -> kernels.Work:
        bits = np.int32 if self.dtype == np.float32 else np.int64
        state, drive, mapped = np.empty((3, rows * self.network.units), self.dtype)
        gap = np.empty(max(layer.size for layer in self.network.layers), self.dtype)
        residual = np.empty(rows, self.dtype)
        return kernels.Work(
            state,
            drive,
            mapped,
            np.empty(rows * self.network.outputs, self.dtype),
            np.empty(rows * self._tables.window, self.dtype),
            kernels.new_edge(self.dtype),
            np.empty(rows, np.int64),
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


def _equilibrium(ended: kernels.Ended, rows: slice, tolerance: float, beta: float) -> Equilibrium:
    residual = ended.residual[rows]
    # In double, as the kernel compares: numpy would round the tolerance to float32.
    converged = residual <= np.float64(tolerance)
    return Equilibrium(ended.state[rows], ended.steps[rows], residual, converged, beta)


def _add_correlation(link: Link, total: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add `sum_p a[gather[p]]' b[p]`, summed over the samples, to `total` in place."""
    if not link.whole:
        a, b = link.windows(a).reshape(-1, link.fan_in), b.reshape(-1, link.fan_out)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    packed = np.empty(kernels.packed_size(b.shape, b.itemsize), b.dtype)
    turned = np.empty((kernels.TURNED, len(a)), a.dtype)
    kernels.add_correlation(a, b, total.reshape(-1), packed, turned, kernels.new_edge(a.dtype))
