"""Products of matrices on torch tensors, by the library that is fast on the processor.

torch hands a product in single precision to MKL, which takes vectors of 32 bytes on a processor
with AVX-512 that is not Intel's. oneDNN, which torch brings along, takes those of 64 on any. It is
reached by an operation that is not documented, so nothing depends on it: it is tried first, and
where it is missing or wrong `@` does the same. `torch.backends.mkldnn.enabled = False` turns it
off.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

from adapters.torch_arrays import torch

Tensor = torch.Tensor
Linear: TypeAlias = Callable[[Tensor, Tensor], Tensor]

LARGE = 2**20
"""Multiply-adds from which on a product is worth the call, 10 microseconds longer than `@`."""
GRAIN = 32
"""Rows from which on it is. For each number of rows oneDNN compiles a kernel, which it keeps: half
a megabyte, and as long as several products. So there should be few numbers, as multiples of it."""
FEW = 16
"""Columns below which MKL takes two to four times as long as for the same product turned over."""


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return `left right` of two matrices, an array of its own."""
    linear = _linear_for(left, right)
    return left @ right if linear is None else linear(left, right)


def add_product(into: Tensor, left: Tensor, right: Tensor, factor: float) -> None:
    """Add `factor left right` to an array in place."""
    linear = _linear_for(left, right)
    if linear is not None:
        into.add_(linear(left, right), alpha=factor)
    elif _is_slim(right):
        into.add_((right.T @ left.T).T, alpha=factor)
    else:
        into.addmm_(left, right, alpha=factor)


def logits_of(read: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return `read weight + bias`, for each row the logits of a softmax."""
    if _is_slim(weight):
        return torch.addmm(bias[:, None], weight.T, read.T).T
    return torch.addmm(bias, read, weight)


def softmax_of(logits: Tensor) -> Tensor:
    """Return the softmax of each row, an array of its own that lies as the logits do."""
    return logits.T.softmax(0).T if logits.T.is_contiguous() else logits.softmax(-1)


def _is_slim(right: Tensor) -> bool:
    """Tell whether the right side of a product is better turned over."""
    return right.device.type == "cpu" and 1 < right.shape[1] < FEW


def is_fast(like: Tensor) -> bool:
    """Tell whether oneDNN multiplies arrays of this precision and device, and faster."""
    known = like.dtype is torch.float32 and like.device.type == "cpu" and _linear() is not None
    return known and bool(torch.backends.mkldnn.enabled)


@contextmanager
def plain_products() -> Iterator[None]:
    """Leave all products to `@`, as a compiler wants them that chooses for itself."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def _linear_for(left: Tensor, right: Tensor) -> Linear | None:
    """Return oneDNN's product where it is worth its call."""
    large = len(left) >= GRAIN and left.numel() * right.shape[1] >= LARGE
    return _linear() if large and is_fast(left) else None


@cache
def _linear() -> Linear | None:
    """Return oneDNN's product, if there is one here that is right; `None` if not."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None  # elsewhere both take the same vectors
    try:
        operation = torch.ops.mkldnn._linear_pointwise.default

        def linear(left: Tensor, right: Tensor) -> Tensor:
            weight = right.T
            if not (weight.is_contiguous() or right.is_contiguous()):
                weight = weight.contiguous()  # or it would be read number by number
            found: Tensor = operation(left, weight, None, "none", [], "")
            return found

        return linear if _is_right(linear) else None
    except (AttributeError, RuntimeError, TypeError):  # another version of torch may lack it
        return None


def _is_right(linear: Linear) -> bool:
    """Tell whether each number is off by its rounding at most, of matrices as they lie or turned.

    `|fl(a'b) - a'b| <= n eps |a|'|b|` for sums of `n` terms in any order.
    """
    rows, inner, columns = 2 * GRAIN, 3 * GRAIN, GRAIN
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(rows, inner, generator=generator)
    right = torch.randn(inner, columns, generator=generator)
    exact = left.double() @ right.double()
    bound = inner * torch.finfo(left.dtype).eps * (left.abs().double() @ right.abs().double())
    turned = (part.T.contiguous().T for part in (left, right))
    return all(
        bool(((linear(a, b).double() - exact).abs() <= bound).all())
        for a, b in ((left, right), tuple(turned))
    )
