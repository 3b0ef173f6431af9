"""How many threads BLAS uses: more than one only where products are large enough to gain."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from engine.network import Network

LARGE = 2**28
"""Multiply-adds of a product from which on a second thread gains; below it only waits."""


@contextmanager
def fitting_threads(network: Network, samples: int) -> Iterator[None]:
    """Hold BLAS to one thread while batches of `samples` are too small for more."""
    largest = max(block.size for block in network.blocks.values())
    if samples * largest >= LARGE:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield
