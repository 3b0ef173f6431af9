"""Parts of flat arrays: viewed, copied and cleared.

numba's slices look after negative indices, ends beyond the array and arrays that overlap, and
compile to a page of code each time. A kernel knows where its blocks lie.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.compiled.compiler import PLAIN


@intrinsic
def _part(_, array, start, size):
    """View so many numbers of a flat array, with none of the care that a slice takes."""

    def generate(context, builder, signature, arguments):
        whole = context.make_array(array)(context, builder, arguments[0])
        part = context.make_array(array)(context, builder)
        first = builder.gep(whole.data, [arguments[1]])
        fields = {"shape": [arguments[2]], "strides": [whole.itemsize], "itemsize": whole.itemsize}
        context.populate_array(part, data=first, meminfo=None, **fields)
        return part._getvalue()

    return array(array, types.intp, types.intp), generate


def _part_plainly(array, start, size):
    """Do the same without the compiler."""
    return array[start : start + size]


part = _part_plainly if PLAIN else _part


@intrinsic
def _part_of_row(_, array, row, start, size):
    """View so many numbers of a row of a whole matrix."""

    def generate(context, builder, signature, arguments):
        whole = context.make_array(array)(context, builder, arguments[0])
        part = context.make_array(signature.return_type)(context, builder)
        length = cgutils.unpack_tuple(builder, whole.shape)[1]
        place = builder.add(builder.mul(arguments[1], length), arguments[2])
        fields = {"shape": [arguments[3]], "strides": [whole.itemsize], "itemsize": whole.itemsize}
        first = builder.gep(whole.data, [place])
        context.populate_array(part, data=first, meminfo=None, **fields)
        return part._getvalue()

    return array.copy(ndim=1)(array, types.intp, types.intp, types.intp), generate


def _part_of_row_plainly(array, row, start, size):
    """Do the same without the compiler."""
    return array[row, start : start + size]


part_of_row = _part_of_row_plainly if PLAIN else _part_of_row


@intrinsic
def _flat(_, array):
    """View a whole array as a flat one."""

    def generate(context, builder, signature, arguments):
        whole = context.make_array(array)(context, builder, arguments[0])
        view = context.make_array(signature.return_type)(context, builder)
        fields = {"shape": [whole.nitems], "strides": [whole.itemsize], "itemsize": whole.itemsize}
        context.populate_array(view, data=whole.data, meminfo=None, **fields)
        return view._getvalue()

    return array.copy(ndim=1)(array), generate


def _flat_plainly(array):
    """Do the same without the compiler."""
    return array.reshape(-1)


flat = _flat_plainly if PLAIN else _flat


@intrinsic
def _copy(_, source, into):
    """Write a flat array over another of its size, which lies elsewhere."""

    def generate(context, builder, signature, arguments):
        from_, to = (context.make_array(source)(context, builder, value) for value in arguments)
        cgutils.raw_memcpy(builder, to.data, from_.data, to.nitems, to.itemsize)
        return context.get_dummy_value()

    return types.void(source, into), generate


def _copy_plainly(source, into):
    """Do the same without the compiler."""
    into[:] = source


copy = _copy_plainly if PLAIN else _copy


@intrinsic
def _clear(_, array):
    """Fill a flat array with zeros."""

    def generate(context, builder, signature, arguments):
        whole = context.make_array(array)(context, builder, arguments[0])
        size = builder.mul(whole.nitems, whole.itemsize)
        cgutils.memset(builder, whole.data, size, 0)
        return context.get_dummy_value()

    return types.void(array), generate


def _clear_plainly(array):
    """Do the same without the compiler."""
    array[:] = 0


clear = _clear_plainly if PLAIN else _clear
