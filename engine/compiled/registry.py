"""The registry of couplings that are no link: each has compiled kernels, under its exact type.

A kernel is a function of arrays. It is compiled once for each precision and called by its address,
so that no network compiles anything anew:

    kernel(state, starts, rows, sizes, constants, scratch, into)

`state` is flat: layer `k` of the coupling is the block `(rows, size)` from `starts[k]` on. `sizes`
and `constants` are what the entry makes of the coupling and of its parameters; `scratch` is room
for the kernel, with anything in it. `drive` **adds** dPhi/ds to `into`, which is laid out like
`state`; `correlate` adds dPhi/dw, summed over the rows, to the flat block `into`. What a row
gets must not depend on the rows beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from engine.arrays import FloatArray, IntArray
from engine.border import checked
from engine.compiled import attention, memory, pooling
from engine.compiled.addresses import Kinds, array_of
from engine.compiled.compiler import compiled
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.convolution import Convolution
from engine.couplings.coupling import Coupling
from engine.couplings.link import Shapes


@dataclass(frozen=True)
class Kernels:
    """How a coupling that is no link is executed."""

    drive: Callable[..., None]
    correlate: Callable[..., None]
    sizes: Callable[[Any, Shapes], tuple[int, ...]]
    """Whole numbers for the kernels, from the coupling and the shapes of the layers."""
    constants: Callable[[Any, Shapes, FloatArray], FloatArray]
    """Numbers for them, flat, from the coupling, the shapes and its parameters `w`."""
    scratch: Callable[[tuple[int, ...], int, int], int]
    """How many numbers of room they need, from the sizes, the rows and the bytes of a number."""
    macs: Callable[[tuple[int, ...]], int]
    """Multiply-adds of one row in `drive`, about: by this a batch is shared out among cores."""

    def told(self, coupling: Any, shapes: Shapes, w: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return `sizes` and `constants` as a kernel takes them, in the precision of `w`."""
        numbers = self.constants(coupling, shapes, w)
        sizes = np.array(self.sizes(coupling, shapes), np.int64)
        return sizes, np.ascontiguousarray(numbers, w.dtype).reshape(-1)


def _kernels_in(module: Any) -> Kernels:
    """Return the kernels of a module that names its functions as the fields are named."""
    return Kernels(*(getattr(module, field) for field in Kernels.__dataclass_fields__))


_REGISTRY: dict[type, Kernels] = {
    Attention: _kernels_in(attention),
    Hopfield: _kernels_in(memory),
    Convolution: _kernels_in(pooling),
}


@checked
def register(kind: type, kernels: Kernels) -> None:
    """Let the compiled backend run couplings of exactly this class; a subclass needs its own."""
    drive, correlate = (
        compiled(kernel, allocates=True) for kernel in (kernels.drive, kernels.correlate)
    )
    _REGISTRY[kind] = replace(kernels, drive=drive, correlate=correlate)


def kinds_of(dtype: npt.DTypeLike) -> Kinds:
    """Return the types of what a kernel is handed, for numbers of a precision."""
    numbers, whole = array_of(dtype, 1), array_of(np.intp, 1)
    return (numbers, whole, types.intp, whole, numbers, numbers, numbers)


def kernels_of(coupling: Coupling) -> Kernels | None:
    """Return the kernels that are registered for the class of a coupling, if any are."""
    return _REGISTRY.get(type(coupling))
