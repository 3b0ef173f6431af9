"""A gradient in one piece: from the input of a batch to what each parameter learns.

Cores share the rows of the batch until all are relaxed, then the rows of every matrix of the
gradient. So they meet once, no sum depends on how many there are, and nothing is summed twice.
"""

from typing import Any, NamedTuple

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.clamping import add_input, bias_drive, packed_inputs
from engine.compiled.lowering import Tables
from engine.compiled.phases import Held, Phases, rooms
from engine.compiled.products import (
    TURNED,
    add_columns,
    add_product,
    new_edge,
    pack,
    packed_size,
    symmetrise,
)
from engine.compiled.program import BIAS, PACKED_OUT
from engine.compiled.reading import softmax_errors
from engine.compiled.threads import row_blocks, run_stages
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Equilibrium, Plan
from engine.model.network import Network
from engine.model.params import Params


class Batch(NamedTuple):
    """Inputs, targets and first states; what the energy and the cost count in the gradient."""

    x: FloatArray
    y: FloatArray
    start: FloatArray | None
    energy: float
    cost: float


def can_learn(network: Network, plan: Plan) -> bool:
    """Whether matrices and biases are all there is, and one displacement follows a free phase."""
    links, reading = network.links, network.reading
    return (
        len(plan) == 2
        and plan[0][0] == (0.0,)
        and len(plan[1][0]) == 1
        and bool(plan[1][1].displaced)
        and len(links) == len(network.couplings)
        and all(link.whole or link.source == ONE for link in links.values())
        and reading is not None
        and reading.link is not None
        and reading.positions == 1
    )


class Lesson:
    """The way of a batch through a plan to its gradient, for networks that `can_learn`."""

    def __init__(
        self, params: Params, tables: Tables, plan: Plan, batch: Batch, gradient: Params
    ) -> None:
        self._network = network = params.network
        self._batch, self._gradient, self._tables = batch, gradient, tables
        samples, dtype = len(batch.x), params.theta.dtype
        self._drive = np.empty((samples, network.units), dtype)
        self._ended = rooms(network, tables, plan, samples, dtype)
        held = Held(self._drive, batch.y, batch.start)
        self._phases = Phases(params, tables, plan, held, self._ended)
        self._bias, self._inputs = bias_drive(params), packed_inputs(params)
        self._bias_out = params.theta[tables.readout[BIAS] :][: network.outputs]
        self.costs = np.empty(samples, dtype)
        self._errors = np.empty((samples, network.outputs), dtype)
        sizes = {layer.name: layer.size for layer in network.layers}
        self._gaps, self._middles = (
            {name: np.empty((samples, size), dtype) for name, size in sizes.items()}
            for _ in range(2)
        )
        macs = sum(link.macs for link in network.links.values())
        self._blocks = row_blocks(samples, 3 * macs)
        self._finite = [False] * len(self._blocks)

    def learn(self) -> list[Equilibrium] | None:
        """Fill the gradient; return how the phases went, or `None` if one is not finite."""
        run_stages((self._relax, self._correlate), len(self._blocks))
        if not all(self._finite):
            return None
        for link in self._network.links.values():
            if link.tied:
                symmetrise(self._gradient[link.block])
        return self._phases.found()

    def _relax(self, core: int) -> None:
        """Take a block of rows to where its phases end, its errors and its displacements."""
        rows = self._blocks[core]
        self._send_input(rows)
        self._phases.solve(rows)
        self._read(rows)
        free, nudged = self._ended
        went = (part[rows] for end in self._ended for part in (end.residual, end.state))
        self._finite[core] = all(np.isfinite(part).all() for part in went)
        scale = self._drive.dtype.type(-self._batch.energy)  # E = G - Phi
        for name, columns in self._network.columns.items():
            np.multiply(nudged.moved[rows, columns], scale, out=self._gaps[name][rows])
            middle = self._middles[name][rows]
            np.add(nudged.state[rows, columns], free.state[rows, columns], out=middle)
            middle /= 2

    def _send_input(self, rows: slice) -> None:
        """Write the drive that no step changes."""
        self._drive[rows] = self._bias
        for link, packed in self._inputs:
            first = self._network.columns[link.target].start
            add_input(link, packed, self._batch.x, self._drive, first, rows)

    def _read(self, rows: slice) -> None:
        """Write the errors and costs of the free states, by the packed matrix of the read-out."""
        net, error = self._phases.net, self._errors[rows]
        read = self._read_states(rows)
        error[...] = self._bias_out
        packed = net.packed[self._tables.readout[PACKED_OUT] :]
        out, columns = error.reshape(-1), self._network.outputs
        flat, edge = read.reshape(-1), new_edge(read.dtype)
        add_product(flat, *read.shape, packed, out, columns, columns, edge)
        softmax_errors(error, self._batch.y[rows], self.costs[rows])
        error *= self._batch.cost

    def _read_states(self, rows: slice) -> FloatArray:
        layer = self._network.readout.layer
        free: FloatArray = self._ended[0].state
        return np.ascontiguousarray(free[rows, self._network.columns[layer]])

    def _correlate(self, core: int) -> None:
        """Write a core's rows of every matrix of the gradient; the first core writes the rest."""
        if not all(self._finite):
            return
        for link in self._network.links.values():
            if link.source != ONE:
                self._write_matrix(link, core)
        if core == 0:
            self._write_rest()

    def _write_matrix(self, link: Link, core: int) -> None:
        """Write a core's rows of what a matrix learns; a tied one is made symmetric later."""
        into, cores = self._gradient[link.block], len(self._blocks)
        first, stop = (link.fan_in * (core + k) // cores for k in (0, 1))
        into[first:stop] = 0
        room = np.empty((TURNED, len(self.costs)), into.dtype), new_edge(into.dtype)
        for a, b in self._sides(link):
            packed = np.empty(packed_size(b.shape, b.itemsize), b.dtype)
            pack(b, packed)
            add_columns(a, first, stop, packed, b.shape[1], into.reshape(-1), *room)

    def _sides(self, link: Link) -> list[tuple[FloatArray, FloatArray]]:
        """Return the batches whose correlations a matrix learns (see `add_energy_difference`)."""
        gaps, middles = self._gaps, self._middles
        if link.source == INPUT:
            return [(self._batch.x, gaps[link.target])]
        one = gaps[link.source], middles[link.target]
        return [one] if link.tied else [one, (middles[link.source], gaps[link.target])]

    def _write_rest(self) -> None:
        """Write what biases and the read-out learn."""
        for link in self._network.links.values():
            if link.source == ONE:
                sums = self._gaps[link.target].sum(0)
                self._gradient[link.block][...] = sums.reshape(-1, link.fan_out).sum(0)
        reading: Any = self._network.reading
        read = self._read_states(slice(0, len(self.costs)))
        np.dot(read.T, self._errors, out=self._gradient[reading.link.block])
        self._errors.sum(0, out=self._gradient[reading.bias])
