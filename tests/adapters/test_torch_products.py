"""Products are right to their rounding, whoever computes them, and never by a slow way."""

from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adapters import torch_products
from adapters.torch_products import GRAIN, LARGE, add_product, is_fast, plain_products, product

SIZE = 2 * GRAIN
"""Rows and columns of products with so many terms that they are `LARGE`."""
DEEP = LARGE // SIZE**2


class Recorder(TorchDispatchMode):
    """Notes which operations run, and what they are given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, tuple[object, ...]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[str(func)] = args
        return func(*args, **(kwargs or {}))

    @property
    def weight(self) -> torch.Tensor | None:
        """What oneDNN's product was given as its right side, if it ran."""
        given = self.seen.get("mkldnn._linear_pointwise.default")
        return None if given is None else given[1]


@pytest.fixture
def anew() -> Iterator[None]:
    """Look at what torch has once more, and afterwards as it is."""
    torch_products._linear.cache_clear()
    yield
    torch_products._linear.cache_clear()


def _pair(dtype: torch.dtype = torch.float32, deep: int = DEEP) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(SIZE, deep, generator=generator, dtype=dtype)
    return left, torch.randn(deep, SIZE, generator=generator, dtype=dtype)


def _is_rounding(found: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> bool:
    bound = left.shape[1] * torch.finfo(found.dtype).eps * (left.abs() @ right.abs())
    return bool(((found.double() - left.double() @ right.double()).abs() <= bound).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("deep", [3, DEEP - 1, DEEP, DEEP + 5])
def test_a_product_is_right_to_its_rounding(dtype: torch.dtype, deep: int) -> None:
    left, right = _pair(dtype, deep)
    found = product(left, right)
    assert found.dtype is dtype
    assert _is_rounding(found, left, right)
    into = torch.ones(SIZE, SIZE, dtype=dtype)
    add_product(into, left, right, 0.5)
    torch.testing.assert_close(into, 1 + 0.5 * found, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("lies", ["turned", "in a wider one", "shifted"])
def test_it_does_not_matter_how_matrices_lie(lies: str) -> None:
    pair = _pair()
    if lies == "turned":
        left, right = (part.T.contiguous().T for part in pair)
    elif lies == "in a wider one":
        left, right = (torch.cat([part, part], 1)[:, : part.shape[1]] for part in pair)
    else:
        flat = (torch.cat([part.new_zeros(1), part.reshape(-1)])[1:] for part in pair)
        left, right = (part.view(like.shape) for part, like in zip(flat, pair, strict=True))
    with Recorder() as recorder:
        found = product(left, right)
    assert _is_rounding(found, *pair)
    if is_fast(left):  # of a part of a matrix its time would be seconds
        assert recorder.weight is not None
        assert recorder.weight.is_contiguous() or recorder.weight.T.is_contiguous()


def test_small_products_and_few_rows_are_left_to_torch() -> None:
    left, right = _pair()
    for few in (left[:, :-1], right[:-1]), (left[: GRAIN - 1], right.repeat(1, 3)):
        with Recorder() as recorder:
            product(*few)
        assert recorder.weight is None


def test_who_turns_onednn_off_does_without() -> None:
    left, right = _pair()
    with plain_products(), Recorder() as recorder:
        assert _is_rounding(product(left, right), left, right)
        assert not is_fast(left)
    assert recorder.weight is None
    assert torch.backends.mkldnn.enabled


@pytest.mark.usefixtures("anew")
def test_a_processor_without_wide_vectors_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not is_fast(_pair()[0])


@pytest.mark.usefixtures("anew")
def test_an_operation_that_is_wrong_or_missing_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = _pair()
    for gone in (AttributeError, RuntimeError, TypeError):

        def fail(linear: object, kind: type[Exception] = gone) -> bool:
            raise kind("not in this version")

        monkeypatch.setattr(torch_products, "_is_right", fail)
        torch_products._linear.cache_clear()
        assert not is_fast(left)
        assert _is_rounding(product(left, right), left, right)


def test_half_the_digits_are_wrong() -> None:
    def coarse(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left.bfloat16() @ right.bfloat16()).float()

    assert torch_products._is_right(torch.matmul)
    assert not torch_products._is_right(coarse)
    assert not torch_products._is_right(lambda left, right: left @ right * float("nan"))
