"""A gradient in one piece: from the input of a batch to what each parameter learns.

Cores share the matrices that are packed, then the rows of the batch until all are relaxed, then the
rows of every matrix of the gradient. No sum depends on how many there are, and nothing is summed
twice. The work is in kernels (`engine.compiled.passage`); what they need is kept between steps.
"""

from typing import Any, NamedTuple

import numpy as np

from engine.arrays import FloatArray, IntArray
from engine.compiled.buffers import new_buffers, new_program, new_results
from engine.compiled.clamping import bias_drive
from engine.compiled.crew import run_job
from engine.compiled.jobs import lay_down, new_places, put
from engine.compiled.linking import share_at, ways_of
from engine.compiled.lowering import Tables
from engine.compiled.packing import TABLE_COLUMNS, new_room
from engine.compiled.passage import (
    COLUMNS,
    ERROR,
    FREE,
    GAP,
    INPUT_COLUMNS,
    MIDDLE,
    PRODUCT_COLUMNS,
    SAMPLE,
    SUM_COLUMNS,
    Course,
    Desk,
    Learns,
    Matter,
)
from engine.compiled.phases import equilibrium_of, turns_found
from engine.compiled.products import TURNED, new_edge, packed_size
from engine.compiled.program import Stage
from engine.compiled.shares import MIRRORING, Packs, Seat, Seats, teach
from engine.compiled.threads import row_blocks
from engine.couplings.link import INPUT, ONE
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
        and all(relaxation.solver != "anderson" for _, relaxation in plan)
        and len(links) == len(network.couplings)
        and all(link.whole or link.source == ONE for link in links.values())
        and reading is not None
        and reading.link is not None
        and reading.positions == 1
    )


class Lesson:
    """The way of batches of a size through a plan to their gradients, for what `can_learn`.

    It holds for the parameters that it is given, whatever is written into them. Only one step at a
    time may use it.
    """

    def __init__(self, params: Params, tables: Tables, plan: Plan, samples: int) -> None:
        self._params, self._tables, self._plan, self._samples = params, tables, plan, samples
        network, theta = params.network, params.theta
        self._network, self._dtype = network, theta.dtype
        self._net = new_program(params, tables)
        inputs, sources, self._inputs_size = _input_tables(network, theta.itemsize)
        self._inputs = new_room(theta, self._inputs_size)
        numbers = np.array(tables.scales, self._dtype), np.ones(len(sources), self._dtype)
        self._packs = Packs(tables.matrices, numbers[0], sources, numbers[1])
        self._learns = _gradient_tables(network)
        self._desk = _new_desk(network, plan, samples, inputs, self._dtype)
        self._turns = [
            turns_found(network, how.solver, nudged=betas[0] != 0.0) for betas, how in plan
        ]
        self._betas = [np.array(betas, self._dtype) for betas, _ in plan]
        self._work = 3 * sum(link.macs for link in network.links.values())
        self._job, self._seats, self._places = new_places(1), list[Seat](), new_places(0)
        self._finite = np.empty(0, np.bool_)

    def learn(
        self, batch: Batch, gradient: FloatArray
    ) -> tuple[FloatArray, list[Equilibrium]] | None:
        """Fill the gradient; return costs and equilibria, or `None` if one is not finite."""
        blocks = row_blocks(self._samples, self._work)
        if len(blocks) != len(self._seats):
            self._take_seats(blocks)
        matter, courses = self._matter(batch), self._courses(_writable(batch.y))
        free, nudged = courses
        desk = self._desk
        if batch.start is not None:
            desk = desk._replace(begin=_writable(batch.start))
        seats = Seats(self._places, self._seats[0], self._finite)
        ways = ways_of(self._net, free.stage, seats.like.work, free.ended)
        passage = (ways, self._net, self._packs, matter, desk, courses, batch.start is not None)
        told = (*passage, self._learns, gradient, seats)
        lay_down(self._job, share_at(teach, self._dtype, told), told)
        stages = MIRRORING + 1 if len(self._learns.tied) else MIRRORING
        run_job(self._job, stages, len(blocks))
        if not self._finite.all():
            return None
        ends = zip((free, nudged), self._plan, strict=True)
        whole = slice(0, self._samples)
        found = [equilibrium_of(c.ended, whole, how, betas[0]) for c, (betas, how) in ends]
        return matter.costs, found

    def _matter(self, batch: Batch) -> Matter:
        number = self._dtype.type
        costs, bias = np.empty(self._samples, self._dtype), bias_drive(self._params)
        counts = number(-batch.energy), number(batch.cost)  # E = G - Phi
        x, y = _writable(batch.x), _writable(batch.y)
        return Matter(x, y, costs, bias, self._inputs, *counts)

    def _courses(self, y: FloatArray) -> tuple[Course, Course]:
        """Return both phases, with room of their own for where they end."""
        network, desk, shape = self._network, self._desk, (self._samples, self._dtype)
        free = new_results(network, *shape, for_drive=True, displaced=False)
        nudged = new_results(network, *shape, for_drive=False, displaced=True)
        nothing = desk.drive[:0]
        stages = (
            (desk.drive, y, self._betas[0], nothing, nothing),
            (desk.anchor, y, self._betas[1], free.drive, free.state),
        )
        first, second = (
            Course(
                Stage(*held, *turns, refresh=False),
                self._dtype.type(how.damping),
                how.tolerance,
                how.max_steps,
                ended,
            )
            for held, turns, (_, how), ended in zip(
                stages, self._turns, self._plan, (free, nudged), strict=True
            )
        )
        return first, second

    def _take_seats(self, blocks: list[slice]) -> None:
        """Give each core what it needs for its rows."""
        self._seats = [self._new_seat(rows) for rows in blocks]
        self._places, self._finite = new_places(len(blocks)), np.empty(len(blocks), np.bool_)
        for core, seat in enumerate(self._seats):
            put(self._places, core, seat)

    def _new_seat(self, rows: slice) -> Seat:
        """Return what a core needs for so many rows."""
        work = new_buffers(self._network, self._tables, rows.stop - rows.start, self._dtype)
        columns = max(int(self._learns.products[:, COLUMNS].max()), 1)
        packed = np.empty(packed_size((self._samples, columns), self._dtype.itemsize), self._dtype)
        turned = np.empty((TURNED, self._samples), self._dtype)
        room = packed, turned, new_edge(self._dtype)
        return Seat(rows.start, rows.stop, work, *room)


def _new_desk(
    network: Network, plan: Plan, samples: int, inputs: IntArray, dtype: np.dtype[Any]
) -> Desk:
    """Return the tables of a lesson, and room for batches of this size."""
    late = network.late(plan[0][1].solver)
    widths = (*[network.units] * 5, network.outputs)
    return Desk(
        inputs,
        np.array([layer.name in late for layer in network.layers]),
        *(np.empty((samples, width), dtype) for width in widths),
    )


def _input_tables(network: Network, itemsize: int) -> tuple[IntArray, IntArray, int]:
    """Return where each matrix of the input drives, how it is packed, and the room they need."""
    driven: list[tuple[int, ...]] = []
    packed: list[tuple[int, ...]] = []
    size = 0
    for link in network.links.values():
        if link.source == INPUT:
            shape = (link.fan_in, link.fan_out)
            driven.append((network.columns[link.target].start, *shape, size))
            packed.append((network.blocks[link.block].start, *shape, False, size))
            size += packed_size(shape, itemsize)
    return _table(driven, INPUT_COLUMNS), _table(packed, TABLE_COLUMNS), size


def _gradient_tables(network: Network) -> Learns:
    """Return the products that matrices learn (see `add_energy_difference`), and what biases do."""
    products: list[tuple[int, ...]] = []
    sums: list[tuple[int, ...]] = []
    for link in network.links.values():
        place, to = network.blocks[link.block].start, network.columns[link.target].start
        block = (link.fan_in, link.fan_out, place)
        if link.source == ONE:
            width = network.sizes[link.target]
            sums.append((GAP, to, width, link.fan_out, place))
        elif link.source == INPUT:
            products.append((SAMPLE, 0, GAP, to, *block, True))
        else:
            from_ = network.columns[link.source].start
            products.append((GAP, from_, MIDDLE, to, *block, True))
            if not link.tied:
                products.append((MIDDLE, from_, GAP, to, *block, False))
    reading, read = network.reading, network.columns[network.readout.layer].start
    assert reading is not None
    assert reading.link is not None
    shape, place = (reading.link.fan_in, network.outputs), network.blocks[reading.link.block].start
    products.append((FREE, read, ERROR, 0, *shape, place, True))
    sums.append((ERROR, 0, network.outputs, network.outputs, network.blocks[reading.bias].start))
    blocks = [network.blocks[name] for name, link in network.links.items() if link.tied]
    tied: list[tuple[int, ...]] = [(block.start, block.shape[0]) for block in blocks]
    return Learns(_table(products, PRODUCT_COLUMNS), _table(sums, SUM_COLUMNS), _table(tied, 2))


def _writable(array: FloatArray) -> FloatArray:
    """Return an array of the kind that the kernels are compiled for, which may be written into."""
    return array if array.flags.writeable else array.copy()


def _table(rows: list[tuple[int, ...]], columns: int) -> IntArray:
    return np.array(rows, np.int64).reshape(-1, columns)
