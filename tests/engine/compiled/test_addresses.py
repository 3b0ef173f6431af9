"""Kernels that are called by their address."""

import numpy as np
import pytest

from engine.compiled.addresses import address_of, call
from engine.compiled.compiler import compiled
from engine.compiled.registry import kinds_of


def _double(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    """Add as many numbers as there are rows, each times a constant."""
    scratch[0] = constants[0] * sizes[0]
    for j in range(rows):
        into[starts[0] + j] += scratch[0] * state[starts[0] + j]


def _refuse(state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    raise ValueError("the kernel is on fire")


@compiled
def _run(address, state, starts, rows, sizes, constants, scratch, into):  # type: ignore[no-untyped-def]
    call(address, state, starts, rows, sizes, constants, scratch, into)


def _arguments(dtype: type) -> tuple[object, ...]:
    starts, sizes = np.array([2], np.int64), np.array([3], np.int64)
    return np.arange(6, dtype=dtype), starts, 3, sizes, np.full(1, 2, dtype), np.empty(1, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_at_an_address_gets_what_it_is_handed(dtype: type) -> None:
    kernel, into = compiled(_double), np.ones(6, dtype)
    address = address_of(kernel, kinds_of(dtype))
    _run(address, *_arguments(dtype), into)
    np.testing.assert_array_equal(into, [1, 1, 13, 19, 25, 1])
    assert address_of(kernel, kinds_of(dtype)) == address


def test_what_a_kernel_raises_is_heard() -> None:
    address = address_of(compiled(_refuse), kinds_of(np.float64))
    with pytest.raises(ValueError, match="the kernel is on fire"):
        _run(address, *_arguments(np.float64), np.ones(6))
