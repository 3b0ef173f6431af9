"""How kernels are compiled and cached.

numba's cache looks at the file of a function, not at those of the functions that it calls, nor at
the classes of its arguments. The kernels lie in several files, so their caches lie in a folder that
is named after the contents of all of them: an edit anywhere compiles anew what is used.
"""

import gc
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event
from numba.core.caching import IndexDataCacheFile

try:
    import fcntl
except ModuleNotFoundError:  # where files are not locked in this way
    fcntl = None  # type: ignore[assignment]

PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]
"""Whether everything runs as plain Python, without the compiler."""


def contents(*paths: Path) -> str:
    """Return a hash of files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class _Notice(event.Listener):
    """Says once in a process that kernels are compiled, if one of them is not in the cache."""

    def __init__(self) -> None:
        self.kernels: set[Callable[..., Any]] = set()
        self._said = False

    def on_start(self, event: Any) -> None:
        """Hear that numba begins to compile a function."""
        if self._said or event.data["dispatcher"].py_func not in self.kernels:
            return
        self._said = True
        # A warning, which Python shows on stderr also where no logging is set up.
        logging.getLogger("engine").warning(
            "Settle compiles its kernels, which takes some seconds; the next run finds them in the "
            "cache."
        )

    def on_end(self, event: Any) -> None:
        """Hear that it is done."""


class _Pause(event.Listener):
    """Lets nobody collect garbage while numba compiles: there is little, and a tenth of the time.

    Numba compiles one function at a time, with those that it calls inside.
    """

    def __init__(self) -> None:
        self._depth, self._collects = 0, False

    def on_start(self, event: Any) -> None:
        """Hear that numba begins to compile a function."""
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Hear that it is done, or has failed."""
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()


_notice = _Notice()
for _listener in (_notice, _Pause()):
    event.register("numba:compile", _listener)


class SharedCodeFile(IndexDataCacheFile):
    """The code of a function on disk, which processes that compile it at once write in turn."""

    def save(self, key: Any, data: Any) -> None:
        """Add the code for some types: two that read the index at once would share a file."""
        with _alone(f"{self._index_path}.lock"):
            super().save(key, data)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Hold other processes off; a file system without locks goes on without."""
    with open(path, "wb") as file:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        yield


FOLDER = "kernels-"
_CONTENTS = contents(*Path(__file__).parent.glob("*.py"))


def compiled(function: Callable[..., Any], *, allocates: bool = False, **options: Any) -> Any:
    """Compile a function when it is first called with new types, or take it from the cache.

    Division by zero gives what IEEE 754 says: a branch that could raise would keep every loop with
    a division from being vectorised. Of fastmath only fused multiply-add: it keeps NaN, infinity
    and the order of sums. References are counted only where a function `allocates`: without counts
    it takes half the time to compile, and returns no array.
    """
    if hasattr(function, "overloads"):  # it is compiled already
        return function
    rounding = {"error_model": "numpy", "fastmath": {"contract"}}
    return cached(function, _CONTENTS, _nrt=allocates, **rounding, **options)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled ones call: it gets no way in from Python."""
    return compiled(function, no_cpython_wrapper=True)


def cached(function: Callable[..., Any], of: str, **options: Any) -> Any:
    """Compile with numba's `options`; the cache is that of files with the contents `of`.

    Without the GIL, so that blocks of rows run on several cores at once, and without a way in from
    C, which nobody takes: kernels that are called by their address have none in front of them.
    """
    kept = Path(function.__code__.co_filename).is_file()  # a function without a file has no cache
    options = {"nogil": True, "no_cfunc_wrapper": True} | options
    kernel: Any = njit(cache=kept, **options)(function)
    if kept and not PLAIN:
        _move_cache(kernel._cache, of)
        _notice.kernels.add(function)
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
    cache._cache_file = SharedCodeFile(str(folder), cache._impl.filename_base, stamp)
