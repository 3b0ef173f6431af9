"""What a relaxation needs is allocated here, before it begins: nothing is in its steps."""

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray
from engine.compiled.addresses import address_of
from engine.compiled.linking import calls_of
from engine.compiled.lowering import Own, Tables
from engine.compiled.packing import new_room, pack_matrices
from engine.compiled.products import new_edge
from engine.compiled.program import Buffers, History, Program, Results
from engine.compiled.registry import kinds_of
from engine.model import dynamics
from engine.model.network import Network
from engine.model.params import Params

LEARNT = 2**25 - 2**16
"""Bytes of the largest block that glibc learns from."""


def keep_freed_memory() -> None:
    """Let the allocator keep what one training step frees for the next.

    glibc gives memory back to the kernel once more lies free than twice the largest block that it
    ever saw freed, and each page of it costs a fault when it is asked for again: a tenth of a
    step on images of 32 x 32. This block is never touched, so it takes no memory.
    """
    np.empty(LEARNT, np.uint8)


keep_freed_memory()
_NO_ROWS, _NO_SIZES = np.empty((0, 7), np.int64), np.empty(0, np.int64)


def new_program(params: Params, tables: Tables) -> Program:
    """Return the network with its matrices packed, as the parameters are now."""
    theta, room = params.theta, new_room(params.theta, tables.packed)
    own, sizes, constants = _own_tables(tables.own, params)
    calls = calls_of(theta.dtype, len(tables.places) > 0)
    links = (tables.layers, tables.messages, tables.runs, tables.places)
    compliance = dynamics.compliance(params.network, params)
    if compliance is None:
        compliance = np.empty(0, theta.dtype)
    told = (own, tables.ends, sizes, constants, compliance, tables.readout, calls)
    net = Program(theta, room, *links, *told)
    pack_matrices(theta, tables.matrices, np.array(tables.scales, theta.dtype), room, 0, 1)
    return net


def _own_tables(own: tuple[Own, ...], params: Params) -> tuple[IntArray, IntArray, FloatArray]:
    """Return a row for each coupling with kernels of its own, their sizes and their constants."""
    dtype, shapes = params.theta.dtype, params.network.shapes
    if not own:
        return _NO_ROWS, _NO_SIZES, np.empty(0, dtype)
    rows, sizes, constants = [], [], []
    ends = told = held = 0
    for one in own:
        whole, known = one.kernels.told(one.coupling, shapes, params[one.coupling.name])
        sizes.append(whole)
        constants.append(known)
        spans = (
            ends,
            ends + len(one.coupling.layers),
            told,
            told + len(one.sizes),
            held,
            held + known.size,
        )
        rows.append((address_of(one.kernels.drive, kinds_of(dtype)), *spans))
        ends, told, held = spans[1::2]
    return np.array(rows, np.int64), np.concatenate(sizes), np.concatenate(constants)


def new_results(
    network: Network, rows: int, dtype: npt.DTypeLike, *, for_drive: bool, displaced: bool
) -> Results:
    """Return room for where so many rows end."""
    state = np.empty((rows, network.units), dtype)
    moved = np.empty((rows * displaced, network.units), dtype)
    drive = np.empty((rows * for_drive, network.units), dtype)
    return Results(state, moved, drive, np.zeros(rows, np.int64), np.zeros(rows, dtype))


def new_buffers(network: Network, tables: Tables, rows: int, dtype: npt.DTypeLike) -> Buffers:
    """Return the buffers of a relaxation of so many rows."""
    itemsize = np.dtype(dtype).itemsize
    bits = np.int32 if itemsize == 4 else np.int64
    state, before, drive = np.empty((3, rows * network.units), dtype)
    if tables.own:
        drive[...] = 0  # they add to all their ends, also to those that have no turn yet
    gap = np.empty(tables.largest, dtype)
    residual = np.empty(rows, dtype)
    scratch = [one.kernels.scratch(one.sizes, rows, itemsize) for one in tables.own]
    return Buffers(
        state,
        before,
        drive,
        stirred=np.empty(len(network.layers), np.bool_),
        read=np.empty(rows * network.sizes[network.readout.layer], dtype),
        error=np.empty(rows * network.outputs, dtype),
        windows=np.empty(tables.window, dtype),
        starts=rows * tables.offsets,
        scratch=np.empty(max(scratch, default=0), dtype),
        edge=new_edge(dtype),
        order=np.empty(rows, np.int64),
        gap=gap,
        gap_bits=gap.view(bits),
        residual=residual,
        residual_bits=residual.view(bits),
    )


def new_history(network: Network, rows: int, memory: int, dtype: npt.DTypeLike) -> History:
    """Return room for the last steps of so many rows."""
    states, gaps = np.empty((2, rows, memory, network.units), dtype)
    return History(
        states,
        gaps,
        plain=np.empty((rows, network.units), dtype),
        gram=np.zeros((rows, memory, memory), dtype),
        system=np.empty((memory, memory)),
        weights=np.empty(memory),
        best=np.empty(rows, dtype),
        kept=np.zeros(rows, np.int64),
        newest=np.full(rows, -1, np.int64),
    )
