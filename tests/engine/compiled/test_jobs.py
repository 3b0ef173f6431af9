"""What is laid down in memory is what a kernel finds there."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof, types

from engine.arrays import FloatArray
from engine.compiled.addresses import address_of
from engine.compiled.compiler import compiled, inner
from engine.compiled.jobs import begin_of, do_share, lay_down, new_places, put, take


class Pair(NamedTuple):
    numbers: FloatArray
    scale: float


@compiled
def _sum(places, number, like):  # type: ignore[no-untyped-def]
    pair = take(places, number, like)
    total = 0.0
    for j in range(pair.numbers.size):
        total += pair.scale * pair.numbers[j]
    return total


@inner
def _write(stage, share, pair, shift, flag, into):  # type: ignore[no-untyped-def]
    into[stage, share] = pair.scale * pair.numbers[share] + (shift if flag else 0)


@compiled
def _do(job, stage, share):  # type: ignore[no-untyped-def]
    return do_share(begin_of(job), stage, share)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_is_found_at_its_place(dtype: type) -> None:
    places = new_places(3)
    pairs = [Pair(np.arange(k + 2, dtype=dtype), 10.0**k) for k in range(3)]
    for k, pair in enumerate(pairs):
        put(places, k, pair)
    assert [_sum(places, k, pairs[0]) for k in range(3)] == [1.0, 30.0, 600.0]


def test_a_job_is_done_with_what_was_laid_down_last() -> None:
    into, pair = np.zeros((2, 3)), Pair(np.arange(3.0), 2.0)
    told = (pair, 5, True, into)
    kinds = (types.intp, types.intp, *(typeof(one) for one in told))
    job = new_places(1)
    lay_down(job, address_of(_write, kinds), told)
    assert _do(job, 1, 2) == 0
    np.testing.assert_array_equal(into, [[0, 0, 0], [0, 0, 9]])
    lay_down(job, address_of(_write, kinds), (pair._replace(scale=3.0), 5, False, into))
    assert _do(job, 0, 1) == 0
    np.testing.assert_array_equal(into, [[0, 3, 0], [0, 0, 9]])
