import json

import numpy as np
import pytest

from experiments.addition.__main__ import main
from experiments.addition.energy_adder import (
    BLANK,
    EnergySettings,
    answers_to,
    count_exact,
    draw_sums,
    train_adder,
)
from experiments.transformer.sequences import TEST, TRAINING
from experiments.transformer.training import BACKPROP, EQPROP

SMALL = EnergySettings(1, updates=40, width=16, heads=1, tested=200)


def test_the_tokens_of_the_second_operand_say_the_sum():
    rows, answers = draw_sums(np.random.default_rng(0), TRAINING, 50, 3)
    for row, said in zip(rows.tolist(), answers.tolist(), strict=True):
        a, b = (sum(d * 10**k for k, d in enumerate(row[part])) for part in (slice(3), slice(3, 6)))
        assert row[6] == BLANK
        assert said[:3] == row[:3]
        assert sum(digit * 10**k for k, digit in enumerate(said[3:])) == a + b


def test_no_sum_of_the_test_is_ever_trained_on():
    rng = np.random.default_rng(0)
    parts = [{tuple(row) for row in draw_sums(rng, part, 3000, 2)[0]} for part in (TEST, TRAINING)]
    assert len(parts[0]) > 500
    assert not parts[0] & parts[1]


def test_counting_looks_at_the_digits_of_the_sum_alone():
    class Oracle:
        network = SMALL.network
        wrong = 1

        def clamp(self, rows):
            self.rows, self.converged = rows, np.arange(len(rows)) > 0
            return rows

        def settle(self, rows, relaxation):
            return self

        def predict(self, settled):
            said = answers_to(self.rows)
            said[:, 0] = (said[:, 0] + 1) % 10  # of the first operand: nobody asked
            said[: self.wrong, 1] = (said[: self.wrong, 1] + 1) % 10
            return np.eye(10)[said].reshape(len(said), -1)

    rows, answers = draw_sums(np.random.default_rng(0), TEST, 20, 1)
    exact, right, unsettled = count_exact(Oracle(), SMALL, rows, answers)
    assert (exact, right, unsettled) == (19, 1 - 1 / 40, 1 / 20)


@pytest.mark.parametrize("method", [EQPROP, BACKPROP])
def test_both_methods_learn_digits_of_sums_they_never_saw(method):
    before = train_adder(EnergySettings(1, updates=1, width=16, heads=1, tested=200), method, 0)
    after = train_adder(SMALL, method, 0)
    assert after.right_digits > before.right_digits + 0.15
    assert [update for update, _ in after.curve] == [5, 10, 15, 20, 25, 30, 35, 40]


def test_the_command_compares_both_methods(tmp_path, capsys):
    given = ["energy", "--digits", "1", "--seeds", "1", "--updates", "2", "--workers", "1"]
    assert main([*given, "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "energy.json").read_text())["results"]
    assert [result["method"] for result in results] == [EQPROP, BACKPROP]
    assert "Backprop" in capsys.readouterr().out
