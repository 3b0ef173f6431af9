"""Kernels that are called by their address: compiled apart from those that call them.

numba compiles what a kernel calls into the kernel, anew for each that calls it. What lies behind
an address is compiled once, and only where it is needed.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.compiled.compiler import PLAIN

Kinds: TypeAlias = tuple[Any, ...]
"""numba's types of the arguments of a function."""


def array_of(dtype: npt.DTypeLike, dimensions: int) -> Any:
    """Return the type of a contiguous array."""
    return types.Array(from_dtype(np.dtype(dtype)), dimensions, "C")


_plain_functions: list[Callable[..., None]] = []


@cache  # which keeps the kernel: its code would be freed with it
def address_of(kernel: Any, kinds: Kinds) -> int:
    """Return where a compiled function that returns nothing lies, for arguments of these types."""
    if PLAIN:
        _plain_functions.append(kernel)
        return len(_plain_functions) - 1
    kernel.compile(kinds)
    result = kernel.overloads[kinds]
    address: int = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return address


@intrinsic
def _call(_, address, *arguments):
    """Call the kernel at an address, which was compiled for arguments of these types."""

    def generate(context, builder, signature, arguments):
        place, packed = arguments
        kinds = tuple(types.unliteral(kind) for kind in signature.args[1])
        values = [
            context.cast(builder, builder.extract_value(packed, k), given, kind)
            for k, (given, kind) in enumerate(zip(signature.args[1], kinds, strict=True))
        ]
        kind = context.call_conv.get_function_type(types.void, kinds)
        kernel = builder.inttoptr(place, kind.as_pointer())
        convention = context.call_conv
        status, _ = convention.call_function(builder, kernel, types.void, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.intp, types.StarArgTuple.from_types(arguments)), generate


def _call_plainly(address, *arguments):
    """Do the same without the compiler."""
    _plain_functions[address](*arguments)


call = _call_plainly if PLAIN else _call
