"""Jobs: a kernel and its arguments, laid down in memory where a core finds them that has no part in
the interpreter.

A kernel of a job does *shares*: it is called with the number of a stage and of a share of it, and
then with what was laid down. Arrays are laid down as where they lie: whoever lays them down keeps
them. Without the compiler the memory holds objects.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.compiled.addresses import call
from engine.compiled.compiler import PLAIN, compiled

ROOM = 2**13
"""Bytes of a place: 54 arrays of two dimensions are 4 kB."""
BEGIN = 64
"""Where arguments begin; before them lies the address of what calls the kernel with them."""


def new_places(count: int) -> npt.NDArray[Any]:
    """Return memory for so many values, or jobs."""
    if PLAIN:
        return np.empty(count, object)
    return np.zeros((count, ROOM), np.uint8)


def _address(context, builder, kind, places, number):
    """Return the address of a place."""
    array = context.make_array(kind)(context, builder, places)
    return builder.gep(array.data, [builder.mul(number, number.type(ROOM))])


def _check_size(context, kind):
    """Refuse what is too large for a place, when its kernel is compiled."""
    size = context.get_abi_sizeof(kind)
    if size > ROOM - BEGIN:
        raise ValueError(f"what is laid down has {size} bytes, {ROOM - BEGIN} have room.")


@intrinsic
def _put(_, places, number, value):
    """Lay a value down."""

    def generate(context, builder, signature, arguments):
        kind = arguments[2].type
        _check_size(context, kind)
        place = _address(context, builder, places, arguments[0], arguments[1])
        builder.store(arguments[2], builder.bitcast(place, kind.as_pointer()))
        return context.get_dummy_value()

    return types.void(places, types.intp, value), generate


@intrinsic
def _take(_, places, number, like):
    """Return the value of a place, which has the type of another one."""

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, places, arguments[0], arguments[1])
        return builder.load(builder.bitcast(place, context.get_value_type(like).as_pointer()))

    return like(places, types.intp, like), generate


@intrinsic
def _lay_down(_, places, address, arguments):
    """Lay down a job: what calls the kernel at an address, and what with."""
    given = arguments

    def generate(context, builder, signature, arguments):
        kinds = tuple(types.unliteral(kind) for kind in given)
        packed = [
            context.cast(builder, builder.extract_value(arguments[2], k), one, kind)
            for k, (one, kind) in enumerate(zip(given, kinds, strict=True))
        ]
        job = cgutils.pack_struct(builder, [arguments[1], *packed])
        _check_size(context, job.type)
        place = _address(context, builder, places, arguments[0], ir.IntType(64)(0))
        caller = _caller(context, builder.module, kinds, job.type)
        builder.store(caller, builder.bitcast(place, caller.type.as_pointer()))
        into = builder.gep(place, [ir.Constant(ir.IntType(64), BEGIN)])
        builder.store(job, builder.bitcast(into, job.type.as_pointer()))
        return context.get_dummy_value()

    return types.void(places, types.intp, arguments), generate


def _caller(context, module, kinds, job):
    """Return a function that calls the kernel of a job for a share, and says whether it failed."""
    whole = ir.IntType(64)
    kind = ir.FunctionType(whole, (ir.IntType(8).as_pointer(), whole, whole))
    function = ir.Function(module, kind, module.get_unique_name("do_share"))
    function.linkage = "internal"
    place, stage, share = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    begin = builder.gep(place, [whole(BEGIN)])
    told = builder.load(builder.bitcast(begin, job.as_pointer()))
    values = [stage, share, *(builder.extract_value(told, k + 1) for k in range(len(kinds)))]
    kinds = (types.intp, types.intp, *kinds)
    convention = context.call_conv
    kernel = convention.get_function_type(types.void, kinds).as_pointer()
    kernel = builder.inttoptr(builder.extract_value(told, 0), kernel)
    status, _ = convention.call_function(builder, kernel, types.void, kinds, values)
    builder.ret(builder.zext(status.is_error, whole))
    return function


@intrinsic
def _begin_of(_, places):
    """Return the address where memory begins."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(places)(context, builder, arguments[0])
        return builder.ptrtoint(array.data, context.get_value_type(types.intp))

    return types.intp(places), generate


@intrinsic
def _do_share(_, place, stage, share):
    """Do a share of the job that lies at an address; return whether it failed."""

    def generate(context, builder, signature, arguments):
        whole, byte = ir.IntType(64), ir.IntType(8).as_pointer()
        caller = ir.FunctionType(whole, (byte, whole, whole)).as_pointer()
        where = builder.inttoptr(arguments[0], caller.as_pointer())
        return builder.call(
            builder.load(where), (builder.inttoptr(arguments[0], byte), *arguments[1:])
        )

    return types.int64(types.intp, types.intp, types.intp), generate


def _put_plainly(places, number, value):
    """Do the same without the compiler."""
    places[number] = value


def _take_plainly(places, number, like):
    """Do the same without the compiler."""
    return places[number]


def _lay_down_plainly(places, address, arguments):
    """Do the same without the compiler."""
    places[0] = address, arguments


def _begin_of_plainly(places):
    """Do the same without the compiler: return the memory itself."""
    return places


def _do_share_plainly(place, stage, share):
    """Do the same without the compiler."""
    address, arguments = place[0]
    call(address, stage, share, *arguments)
    return 0


take = _take_plainly if PLAIN else _take
begin_of = _begin_of_plainly if PLAIN else _begin_of
do_share = _do_share_plainly if PLAIN else _do_share
_put_value = _put_plainly if PLAIN else _put
_lay_job_down = _lay_down_plainly if PLAIN else _lay_down


@compiled
def put(places, number, value):
    """Lay a value down at a place of this number."""
    _put_value(places, number, value)


@compiled
def lay_down(job, address, arguments):
    """Lay a kernel, which lies at an address, and its arguments down as the job."""
    _lay_job_down(job, address, arguments)
