import numpy as np
import pytest

from engine.equilibrium import Relaxation
from experiments.addition.data import Pairs
from experiments.addition.eqprop_cell import (
    CellSettings,
    add,
    all_cases,
    count_right_cases,
    one_hot,
    read,
    train_cell,
)
from experiments.addition.sums import LIMIT
from tests.experiments.addition.addition_cases import random_pairs


class Oracle:
    """A backend whose equilibrium is the right answer; it counts its relaxations."""

    def __init__(self, wrong_carry=False):
        self.relaxed, self._wrong_carry = [], wrong_carry

    def clamp(self, x):
        return x

    def settle(self, x, relaxation):
        self.relaxed.append(len(x))
        self.steps, self.converged = np.full(len(x), 3), np.arange(len(x)) % 4 != 0
        self.x = x
        return self

    def predict(self, settled):
        total = sum(self.x[:, part].argmax(1) for part in (slice(10), slice(10, 20), slice(20, 22)))
        return np.eye(20)[total % 10 if self._wrong_carry else total]


def test_the_cases_are_all_there_and_right():
    x, targets = all_cases()
    assert len(np.unique(x, axis=0)) == len(x) == 200
    assert (x.sum(1) == 3).all()
    digit, carry = read(targets)
    total = sum(x[:, part].argmax(1) for part in (slice(10), slice(10, 20), slice(20, 22)))
    assert np.array_equal(digit + 10 * carry, total)


def test_chaining_relaxes_every_digit_of_every_sum():
    pairs = random_pairs(2500)
    oracle = Oracle()
    sums, steps, unsettled = add(oracle, pairs, Relaxation())
    assert np.array_equal(sums, pairs.a + pairs.b)
    assert sum(oracle.relaxed) == 10 * len(pairs)
    assert steps == 3.0
    assert unsettled == pytest.approx(0.25, abs=0.01)


def test_the_carry_is_the_one_the_cell_said():
    most = np.array([LIMIT - 1, 5, 123], np.int64)
    pairs = Pairs(most, np.array([1, 5, 456], np.int64))
    sums, *_ = add(Oracle(wrong_carry=True), pairs, Relaxation())
    assert sums.tolist() == [LIMIT - 10, 0, 579]  # every carry is lost
    assert add(Oracle(), pairs, Relaxation())[0].tolist() == [LIMIT, 10, 579]


def test_one_hot_has_a_place_for_each_digit_and_carry():
    x = one_hot(np.array([3]), np.array([0]), np.array([1]))
    assert np.flatnonzero(x[0]).tolist() == [3, 10, 21]


def test_a_cell_learns_from_its_phases():
    settings = CellSettings(hidden=(24,), updates=120)
    backend, epochs = train_cell(settings, seed=0)
    assert epochs[-1].cost < 0.5 * epochs[0].cost
    untrained, _ = train_cell(CellSettings(hidden=(24,), updates=1), seed=0)
    right = [count_right_cases(b, settings.free) for b in (untrained, backend)]
    assert right[1] > right[0] + 20
