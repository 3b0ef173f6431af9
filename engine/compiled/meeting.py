"""Where cores meet that share a job, without the interpreter: a board of whole numbers.

The first row holds the job that is on: `ticket * 2**16 + stages * 2**8 + cores`, so each job has a
larger number than those before it. A core takes a share by writing that number over a smaller one;
whoever comes late with the number of an older job finds nothing to take. Each stage has a share for
every core, and begins when all of the stage before it are done. What a core does not come to take,
because it sleeps, another takes.
"""

from platform import machine

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.compiled.compiler import compiled, inner
from engine.compiled.jobs import begin_of, do_share

LINE = 8
"""Whole numbers of a line of the cache: cores that write beside each other's would wait."""
JOB, PLACE, DONE, FAILED, SHARES = range(5)
"""Rows: the job, where it lies, how many shares are done, how many failed; then one for each."""
_IS_X86 = machine().lower() in ("x86_64", "amd64")


def _place(context, builder, kind, board, row):
    """Return where the first number of a row lies."""
    array = context.make_array(kind)(context, builder, board)
    step = cgutils.unpack_tuple(builder, array.strides)[0]
    return cgutils.pointer_add(builder, array.data, builder.mul(step, row))


@intrinsic
def look(_, board, row):
    """Read a number that another core may have just written, and all that it wrote before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, board, *arguments)
        return builder.load_atomic(place, ordering="acquire", align=8)

    return types.int64(board, types.intp), generate


@intrinsic
def tell(_, board, row, number):
    """Write a number for the other cores to see, after all that was written before."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, board, *arguments[:2])
        builder.store_atomic(arguments[2], place, ordering="release", align=8)
        return context.get_dummy_value()

    return types.void(board, types.intp, types.int64), generate


@intrinsic
def count(_, board, row):
    """Add one to a number, beside other cores that may do so."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, board, *arguments)
        builder.atomic_rmw("add", place, place.type.pointee(1), "acq_rel")
        return context.get_dummy_value()

    return types.void(board, types.intp), generate


@intrinsic
def claim(_, board, row, number):
    """Write a number over a smaller one; say whether it was this core that did."""

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, board, *arguments[:2])
        held = builder.load_atomic(place, ordering="acquire", align=8)
        is_free = builder.icmp_signed("<", held, arguments[2])
        won = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
        with builder.if_then(is_free):
            found = builder.cmpxchg(place, held, arguments[2], "acq_rel", "monotonic")
            builder.store(builder.extract_value(found, 1), won)
        return builder.load(won)

    return types.boolean(board, types.intp, types.int64), generate


@intrinsic
def pause(_):
    """Leave what a core shares to its twin for a moment, where the processor can."""

    def generate(context, builder, signature, arguments):
        if _IS_X86:
            kind = ir.FunctionType(ir.VoidType(), ())
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), ())
        return context.get_dummy_value()

    return types.void(), generate


@compiled
def call_together(board, job, number):
    """Put a job on the board."""
    tell(board, PLACE, begin_of(job))
    tell(board, DONE, 0)
    tell(board, FAILED, 0)
    tell(board, JOB, number)


@compiled
def take_part(board, number, me, looks):
    """Do shares of a job as long as there are any; say whether it is over.

    If it is not, others are still at it after so many looks, or at a stage before.
    """
    stages, cores = number >> 8 & 255, number & 255
    for stage in range(stages):
        if not _come_to(board, number, stage * cores, looks):
            return False
        for turn in range(cores):
            share = (me + turn) % cores
            if claim(board, SHARES + stage * cores + share, number):
                if do_share(look(board, PLACE), stage, share) != 0:
                    count(board, FAILED)
                count(board, DONE)
    return _come_to(board, number, stages * cores, looks)


@inner
def _come_to(board, number, shares, looks):
    """Look so often whether so many shares are done, or the job is over."""
    for _ in range(looks):
        if look(board, DONE) >= shares or look(board, JOB) != number:
            return True
        pause()
    return False


@compiled
def help_out(board, last, me, looks, idle_looks):
    """Take part in every job after the last one, until none comes for so many `idle_looks`.

    Returns the last job, or less than zero if one is not over after so many `looks`.
    """
    left = idle_looks
    while left > 0:
        number: int = look(board, JOB)
        if number == last:
            left -= 1
            pause()
            continue
        if not take_part(board, number, me, looks):
            return -1
        last, left = number, idle_looks
    return last


@compiled
def do_alone(job, stages, cores):
    """Do all shares of a job; return how many failed."""
    failed = 0
    for stage in range(stages):
        for share in range(cores):
            failed += do_share(begin_of(job), stage, share)
    return failed
