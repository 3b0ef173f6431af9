"""Sequence tasks and their parts: disjoint for certain, and of the sizes that are said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.transformer.sequences import (
    TASKS,
    TEST,
    TRAINING,
    VALIDATION,
    SequenceError,
    draw_sequences,
    parts_of,
)


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(5, 20))
def test_no_sequence_is_drawn_for_two_parts(seed: int, vocabulary: int, length: int) -> None:
    drawn = {
        part: draw_sequences(np.random.default_rng(seed), part, 40, vocabulary, length)
        for part in (TEST, VALIDATION, TRAINING)
    }
    for part, x in drawn.items():
        assert x.shape == (40, length)
        assert ((x >= 0) & (x < vocabulary)).all()
        assert (parts_of(x) == part).all()
    seen = {tuple(row) for row in drawn[TRAINING]}
    assert not seen & {tuple(row) for row in drawn[TEST]}


def test_all_sequences_together_fall_into_the_parts_as_said() -> None:
    grid = np.indices((6,) * 6).reshape(6, -1).T
    parts, counts = np.unique(parts_of(grid), return_counts=True)
    shares = dict(zip(parts, counts / len(grid), strict=True))
    assert shares[TEST] == pytest.approx(0.1, abs=0.01)
    assert shares[VALIDATION] == pytest.approx(0.1, abs=0.01)
    assert shares[TRAINING] == pytest.approx(0.8, abs=0.02)


def test_the_part_of_a_sequence_depends_on_each_token_and_its_place() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(10, size=(4000, 8))
    for place in range(8):
        moved = x.copy()
        moved[:, place] = (moved[:, place] + 1) % 10
        # Parts that had nothing to do with each other would agree in 0.1^2 + 0.1^2 + 0.8^2 = 0.66.
        assert (parts_of(moved) == parts_of(x)).mean() == pytest.approx(0.66, abs=0.04)


def test_a_part_without_sequences_is_named() -> None:
    empty = next(
        length for length in range(1, 5) if TEST not in parts_of(np.zeros((1, length), np.int64))
    )
    with pytest.raises(SequenceError, match=f"of length {empty} over 1 tokens there is no"):
        draw_sequences(np.random.default_rng(0), TEST, 3, 1, empty)


def test_the_answers_of_the_tasks() -> None:
    x = np.array([[3, 1, 2, 1]])
    answers = {name: task.answer(x).tolist() for name, task in TASKS.items()}
    assert answers == {
        "reversal": [[1, 2, 1, 3]],
        "copy": [[3, 1, 2, 1]],
        "shift": [[1, 3, 1, 2]],
        "sort": [[1, 1, 2, 3]],
    }
