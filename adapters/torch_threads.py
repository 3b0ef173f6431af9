"""How many threads torch takes on a CPU: as the engine holds BLAS, or the whole machine waits."""

from collections.abc import Iterator
from contextlib import contextmanager

from adapters.torch_arrays import torch
from engine.compiled.threads import LARGE
from engine.model.network import Network


@contextmanager
def fitting_torch_threads(network: Network, samples: int) -> Iterator[None]:
    """Hold torch's operations to one thread, unless products are so large that others gain.

    Between the small products of a relaxation its other threads would wait for work, on cores that
    others need. They gain by them where products with `samples` rows are large.
    """
    largest = max((block.size for block in network.blocks.values()), default=0)
    if samples * largest >= LARGE:
        yield
        return
    with one_torch_thread():
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Hold torch's operations to one thread, and give back afterwards what they had."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
