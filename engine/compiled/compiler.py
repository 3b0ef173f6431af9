"""How kernels are compiled and cached, and how one is called that is known only by its address.

numba's cache looks at the file of a function, not at those of the functions that it calls, nor at
the classes of its arguments. The kernels lie in several files, so their caches lie in a folder that
is named after the contents of all of them: an edit anywhere compiles anew what is used.
"""

import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, from_dtype, njit, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether everything runs as plain Python, without the compiler."""


def contents(*paths: Path) -> str:
    """Return a hash of files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


FOLDER = "kernels-"
_CONTENTS = contents(*Path(__file__).parent.glob("*.py"))


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called with new types, or take it from the cache.

    Division by zero gives what IEEE 754 says: a branch that could raise would keep every loop with
    a division from being vectorised. Of fastmath only fused multiply-add: it keeps NaN, infinity
    and the order of sums.
    """
    if hasattr(function, "overloads"):  # it is compiled already
        return function
    return cached(function, _CONTENTS, error_model="numpy", fastmath={"contract"})


def cached(function: Callable[..., Any], of: str, **options: Any) -> Any:
    """Compile with numba's `options`; the cache is that of files with the contents `of`.

    Without the GIL, so that blocks of rows run on several cores at once.
    """
    kept = Path(function.__code__.co_filename).is_file()  # a function without a file has no cache
    kernel: Any = njit(nogil=True, cache=kept, **options)(function)
    if kept and not PLAIN:
        _move_cache(kernel._cache, of)
    return kernel


def _move_cache(cache: Any, of: str) -> None:
    """Let a cache lie in the folder of these contents; those of others are swept."""
    folder = Path(cache._cache_path) / f"{FOLDER}{of}"
    if not folder.is_dir():
        for other in set(folder.parent.glob(f"{FOLDER}*")) - {folder}:
            shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    cache._cache_path = str(folder)
    stamp = cache._impl.locator.get_source_stamp()
    cache._cache_file = IndexDataCacheFile(str(folder), cache._impl.filename_base, stamp)


def signature(dtype: npt.DTypeLike) -> Any:
    """Return the types that `call` hands over, for numbers of a precision."""
    numbers, whole = (
        types.Array(from_dtype(np.dtype(dtype)), 1, "C"),
        types.Array(types.intp, 1, "C"),
    )
    return types.void(numbers, whole, types.intp, whole, numbers, numbers, numbers)


_plain_functions: list[Callable[..., None]] = []


@cache  # which keeps the kernel: its code would be freed with it
def address_of(kernel: Any, dtype: npt.DTypeLike) -> int:
    """Return where a compiled function lies for numbers of a precision."""
    if PLAIN:
        _plain_functions.append(kernel)
        return len(_plain_functions) - 1
    kinds = signature(dtype)
    kernel.compile(kinds)
    result = kernel.overloads[kinds.args]
    address: int = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return address


@intrinsic
def _call(_, address, state, starts, rows, sizes, constants, scratch, into):
    """Call the kernel at an address; see `engine.compiled.registry` for what it is handed."""

    def generate(context, builder, signature, arguments):
        (place, *values), kinds = arguments, signature.args[1:]
        kind = context.call_conv.get_function_type(types.void, kinds)
        kernel = builder.inttoptr(place, kind.as_pointer())
        convention = context.call_conv
        status, _ = convention.call_function(builder, kernel, types.void, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    kinds = (state, starts, rows, sizes, constants, scratch, into)
    return types.void(types.intp, *kinds), generate


def _call_plainly(address, *arguments):
    """Do the same without the compiler."""
    _plain_functions[address](*arguments)


call = _call_plainly if PLAIN else _call
