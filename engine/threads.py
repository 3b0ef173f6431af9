"""How many cores a batch uses: many rows go to all of them in blocks, few rows to one.

A block needs no other, so cores never wait for each other; inside a block BLAS has one thread. More
threads of BLAS itself gain only where a product is large. Beside it they harm: numpy and scipy
bring a BLAS each, and a thread of one that waits for work keeps a core busy that the other needs.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import pairwise

import scipy.linalg.cython_blas  # noqa: F401  numba's BLAS: loaded now, the controller must see it
from threadpoolctl import ThreadpoolController

from engine.network import Network

LARGE = 2**28
"""Multiply-adds of a product from which on a second thread of BLAS gains; below it only waits."""
BLOCK = 256
"""Rows of a block from which on a core of its own gains: BLAS packs `W` again for each block."""

_blas = ThreadpoolController().select(user_api="blas")
_cores: ContextVar[int] = ContextVar("cores")
"""What BLAS was allowed before it was held to one thread."""


def usable_cores() -> int:
    """Return how many threads BLAS may use: the limit that users and worker processes set."""
    return _cores.get(max((pool.num_threads for pool in _blas.lib_controllers), default=1))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; blocks of rows may still use what it was allowed before."""
    before = _cores.set(usable_cores())
    try:
        with _blas.limit(limits=1):
            yield
    finally:
        _cores.reset(before)


@contextmanager
def fitting_threads(network: Network, samples: int) -> Iterator[None]:
    """Hold BLAS to one thread, unless batches of `samples` are few rows of a large network."""
    largest = max(block.size for block in network.blocks.values())
    if samples * largest >= LARGE and samples < 2 * BLOCK:
        yield
        return
    with one_blas_thread():
        yield


def row_blocks(samples: int) -> list[slice]:
    """Cut a batch in as many blocks of rows as there are cores that gain by one."""
    count = max(1, min(usable_cores(), samples // BLOCK))
    edges = [samples * k // count for k in range(count + 1)]
    return [slice(*ends) for ends in pairwise(edges)]


def run_blocks(work: Callable[[slice], None], blocks: list[slice]) -> None:
    """Call `work` for every block, each on a core of its own; it must release the GIL to gain."""
    if len(blocks) == 1:
        work(blocks[0])
        return
    with one_blas_thread():
        others = [_pool(len(blocks) - 1).submit(work, block) for block in blocks[1:]]
        work(blocks[0])
        for other in others:
            other.result()


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no thread of it
