"""Processes that train together: the same bits in all, and what one alone would find."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from adapters.torch_parallel import ParallelError, Team, joined, run_together
from engine.errors import EngineError
from tests.adapters import distributed_training as together

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found() -> Found:
    """What each of two processes returned."""
    return run_together(together.everything, 2)


@pytest.mark.parametrize("kind", ["numba", "torch"])
def test_two_processes_train_as_one_does_on_the_whole_batch(found: Found, kind: str) -> None:
    (first, told), (second, heard) = (mine[kind] for mine in found)
    np.testing.assert_array_equal(first, second)
    assert told == heard
    expected, history = together.train_backend(None, kind)
    started = together.backend(kind).params.theta
    assert np.abs(expected - started).max() > 0.01
    np.testing.assert_allclose(first, expected, rtol=0, atol=1e-8)
    for mine, alone in zip(told, history, strict=True):
        assert abs(mine.cost - alone.cost) < 1e-8
        assert abs(mine.free_steps - alone.free_steps) < 0.2


def test_a_torch_model_trains_in_two_processes_as_in_one(found: Found) -> None:
    model = together.build()
    start = nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()
    together.train(model, model[1], 0, 1)
    expected = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    first, second = (mine["module"] for mine in found)
    assert np.abs(start - expected).max() > 0.1
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, expected, rtol=0, atol=1e-8)


def test_a_sum_has_the_same_bits_everywhere(found: Found) -> None:
    first, second = (mine["sum"] for mine in found)
    np.testing.assert_array_equal(first, second)
    one, other = (np.random.default_rng(k).standard_normal(together.LENGTH) for k in range(2))
    np.testing.assert_allclose(first, one + other, rtol=0, atol=1e-12)


def test_results_come_in_the_order_of_the_processes(found: Found) -> None:
    assert [mine["rank"] for mine in found] == [0, 1]


@pytest.mark.parametrize("what", ["parameters", "settings"])
def test_processes_that_differ_are_refused(found: Found, what: str) -> None:
    for mine in found:
        assert mine[what] == f"the 2 processes do not have the same {what}."


@pytest.mark.parametrize("samples", [1, 2, 7, 64])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_shares_are_the_whole_batch(samples: int, count: int) -> None:
    shares = [Team(rank, count).share(samples) for rank in range(count)]
    rows = [row for share in shares for row in range(samples)[share]]
    assert rows == list(range(samples))
    lengths = [share.stop - share.start for share in shares]
    assert max(lengths) - min(lengths) <= 1


def test_a_process_that_dies_ends_the_others() -> None:
    began = time.monotonic()
    with pytest.raises(ParallelError, match=r"process \d of 2 (has ended|failed)") as told:
        run_together(together.die, 2)
    assert time.monotonic() - began < 120.0  # far below the time for which a process waits
    assert len(str(told.value).splitlines()) == 1


def test_a_process_that_fails_is_quoted_or_missed() -> None:
    said = "process 1 of 2 failed: no bread today|process 0 of 2 lost the others"
    with pytest.raises(ParallelError, match=said):
        run_together(together.fail, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda place: run_together(together.sums, 0), "count is 0, expected at least 1"),
        (lambda place: run_together(together.sums, 1, threads=0), "threads is 0"),
        (lambda place: joined(place, 2, 2).__enter__(), "rank is 2, expected from 0 to 1"),
    ],
)
def test_impossible_teams_are_refused(
    tmp_path: Path, call: Callable[[Path], object], words: str
) -> None:
    with pytest.raises(EngineError, match=words):
        call(tmp_path / "meeting")


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    said = "process 0 did not meet all 2 processes within 1 s"
    with pytest.raises(ParallelError, match=said), joined(tmp_path / "meeting", 0, 2, seconds=1.0):
        pass
