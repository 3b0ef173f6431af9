"""Where the kernels lie that others call by their address (`engine.compiled.addresses`)."""

from functools import cache
from typing import Any

import numpy as np
from numba import from_dtype, typeof, types

from engine.arrays import IntArray
from engine.compiled.addresses import address_of, array_of
from engine.compiled.functions import bend, bend_further, find_anchor
from engine.compiled.packing import pack_matrices
from engine.compiled.products import add_product
from engine.compiled.program import Buffers, Program, Results, Stage
from engine.compiled.reading import softmax_errors
from engine.compiled.relaxation import take_damped_steps, take_step
from engine.compiled.windows import Windows, send_back, send_on


@cache
def calls_of(dtype: np.dtype[Any], windows: bool) -> IntArray:
    """Return the addresses that `Program.calls` holds; those of windows only if there are any."""
    numbers, edge, whole = array_of(dtype, 1), array_of(dtype, 2), types.intp
    product = (numbers, whole, whole, numbers, numbers, whole, whole, edge)
    tables = (array_of(np.intp, 2), array_of(np.intp, 1), whole, whole, whole)
    link = types.NamedTuple(tables, Windows)
    ways = (numbers, whole, link, numbers, numbers, numbers, edge)
    bent = (whole, numbers, numbers, numbers)
    found = [address_of(add_product, product)]
    found += [address_of(kernel, bent) for kernel in (bend, bend_further)]
    found += [address_of(way, ways) if windows else 0 for way in (send_on, send_back)]
    return np.array(found, np.int64)


_steps: dict[np.dtype[Any], int] = {}
_solvers: dict[np.dtype[Any], int] = {}
_ways: dict[np.dtype[Any], IntArray] = {}


def step_at(net: Program, stage: Stage, work: Buffers) -> int:
    """Return where the step of a relaxation lies, which all solvers call, for this precision.

    The arguments of every relaxation in a precision have the types of these.
    """
    if net.theta.dtype not in _steps:
        kinds = (typeof(net), typeof(stage), typeof(work), types.intp, types.boolean)
        _steps[net.theta.dtype] = address_of(take_step, kinds)
    return _steps[net.theta.dtype]


def solver_at(net: Program, stage: Stage, work: Buffers, ended: Results) -> tuple[int, int]:
    """Return where the solver that takes damped steps lies, and the step."""
    dtype, step = net.theta.dtype, step_at(net, stage, work)
    if dtype not in _solvers:
        told = (typeof(net), typeof(stage), array_of(dtype, 2), types.intp, typeof(work))
        limits = (from_dtype(dtype), types.float64, types.int64, typeof(ended))
        _solvers[dtype] = address_of(take_damped_steps, (types.intp, *told, *limits))
    return _solvers[dtype], step


def ways_of(net: Program, stage: Stage, work: Buffers, ended: Results) -> IntArray:
    """Return the addresses that a lesson calls (`engine.compiled.passage`), for this precision."""
    dtype = net.theta.dtype
    if dtype not in _ways:
        batch, numbers, whole = array_of(dtype, 2), array_of(dtype, 1), types.intp
        table = array_of(np.int64, 2)
        anchored = (table, batch, batch, numbers, whole, whole, batch)
        found = (
            *solver_at(net, stage, work, ended),
            address_of(find_anchor, anchored),
            address_of(softmax_errors, (batch, batch, numbers, whole, whole)),
            address_of(pack_matrices, (numbers, table, numbers, numbers, whole, whole)),
        )
        _ways[dtype] = np.array(found, np.int64)
    return _ways[dtype]


_shares: dict[tuple[str, np.dtype[Any]], int] = {}


def share_at(kernel: Any, dtype: np.dtype[Any], told: tuple[Any, ...]) -> int:
    """Return where a kernel of `engine.compiled.shares` lies, for arguments like these.

    In a precision all that it is called with have their types.
    """
    key = kernel.__name__, dtype
    if key not in _shares:
        kinds = (types.intp, types.intp, *(typeof(one) for one in told))
        _shares[key] = address_of(kernel, kinds)
    return _shares[key]
