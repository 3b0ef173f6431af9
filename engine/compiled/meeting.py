"""A place where cores meet: each says how far it has come, and sees how far the others have."""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.compiled.compiler import PLAIN, compiled


@intrinsic
def _look(_, numbers, row):
    """Read the first of a row of whole numbers, which another core may have just written."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(numbers)(context, builder, arguments[0])
        step = cgutils.unpack_tuple(builder, array.strides)[0]
        place = cgutils.pointer_add(builder, array.data, builder.mul(step, arguments[1]))
        return builder.load_atomic(place, ordering="acquire", align=8)

    return types.int64(numbers, types.intp), generate


def _look_plainly(numbers, row):
    """Do the same without the compiler."""
    return numbers[row, 0]


look = _look_plainly if PLAIN else _look


@compiled
def all_came(came, number, looks):
    """Say whether all rows of `came` are at `number`, or come there while it looks so often."""
    here = 0
    for _ in range(looks):
        while here < len(came) and look(came, here) >= number:
            here += 1
        if here == len(came):
            return True
    return False
