"""How many cores a batch uses: one with enough to do goes to all of them in blocks of rows.

A block needs no other, so cores wait for each other only at the end. BLAS, which is left with
small products, has one thread meanwhile: numpy and scipy bring a BLAS each, and a thread of one
that waits for work keeps a core busy that the other needs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from engine.model.network import Network

LARGE = 2**28
"""Multiply-adds of a product from which on a second thread of BLAS gains; below it only waits."""
ROWS, WORK = 16, 2**21
"""Rows and multiply-adds of a block from which on it gains by a core of its own: to wake that one
takes about a tenth of a millisecond."""

CORES = os.cpu_count() or 1
"""Of the machine; BLAS may be told to use more."""

Part = TypeVar("Part")

_cores: ContextVar[int | None] = ContextVar("cores")
"""What BLAS was allowed before it was held to one thread."""


@cache
def _blas() -> Any:
    """Return the control of all BLAS libraries; one that it does not see it cannot hold.

    That of numba is scipy's, which takes a while to load: here, and not where the engine is
    imported. It may use as many threads as the libraries that are there by then.
    """
    before = {pool.filepath: pool.num_threads for pool in _loaded_blas().lib_controllers}
    import_module("scipy.linalg.cython_blas")
    loaded = _loaded_blas()
    for pool in loaded.lib_controllers:
        if before and pool.filepath not in before:
            pool.set_num_threads(max(before.values()))
    return loaded


def _loaded_blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


def usable_cores() -> int:
    """Return how many threads BLAS may use: the limit that users and worker processes set."""
    cores = _cores.get(None)
    if cores is None:  # asking BLAS takes a while
        cores = max((pool.num_threads for pool in _blas().lib_controllers), default=1)
    return min(cores, CORES)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; blocks of rows may still use what it was allowed before."""
    if _cores.get(None) is not None:
        yield  # it is held already, and asking again takes a while
        return
    pools = [(pool, pool.num_threads) for pool in _blas().lib_controllers]
    before = _cores.set(usable_cores())
    try:
        for pool, _ in pools:
            pool.set_num_threads(1)
        yield
    finally:
        for pool, allowed in pools:
            pool.set_num_threads(allowed)
        _cores.reset(before)


@contextmanager
def fitting_threads(network: Network, samples: int) -> Iterator[None]:
    """Hold BLAS to one thread, unless products with `samples` rows are so large that it gains."""
    largest = max((block.size for block in network.blocks.values()), default=0)
    if samples * largest >= LARGE:
        yield
        return
    with one_blas_thread():
        yield


def row_blocks(samples: int, work: int) -> list[slice]:
    """Cut a batch in as many blocks of rows as there are cores that gain by one.

    `work` is how many multiply-adds a row needs in one step.
    """
    count = max(1, min(samples // ROWS, samples * work // WORK))
    if count > 1:
        count = min(count, usable_cores())
    edges = [samples * k // count for k in range(count + 1)]
    return [slice(*ends) for ends in pairwise(edges)]


def portions(work: Sequence[int]) -> list[list[int]]:
    """Share tasks of so many multiply-adds out among the cores, the largest first, by number."""
    count = max(1, min(len(work), sum(work) // WORK))
    if count > 1:
        count = min(count, usable_cores())
    shares: list[list[int]] = [[] for _ in range(count)]
    for task in sorted(range(len(work)), key=lambda task: -work[task]):
        min(shares, key=lambda share: sum(work[k] for k in share)).append(task)
    return shares


def run_blocks(work: Callable[[Part], None], blocks: Sequence[Part]) -> None:
    """Call `work` for every block, each on a core of its own; it must release the GIL to gain."""
    if len(blocks) == 1:
        work(blocks[0])
        return
    others = [_pool().submit(work, block) for block in blocks[1:]]
    work(blocks[0])
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the one pool of the process; it starts no more threads than are used at once."""
    return ThreadPoolExecutor(CORES, thread_name_prefix="rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no thread of it
