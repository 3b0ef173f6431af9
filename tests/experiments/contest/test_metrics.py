import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, mean_squared_error, r2_score

from experiments.contest.grid import best_points
from experiments.contest.metrics import ACCURACY, R2, mean_cost, metric_of, p_of_chance, score
from experiments.parity.tune import tuned_names
from experiments.statistics import StatisticsError, Verdict, compare_r2, judge
from tests.experiments.parity.parity_cases import make_job
from tests.experiments.parity.parity_records import make_record

RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=(50, 1)).astype(np.float32)
GUESS = (TARGET + RNG.normal(size=(50, 1))).astype(np.float32)
LABELS = RNG.integers(3, size=50)
ODDS = RNG.dirichlet(np.ones(3), size=50).astype(np.float32)


def test_scores_and_costs_are_those_of_scikit_learn():
    assert score(GUESS, TARGET) == pytest.approx(r2_score(TARGET, GUESS), rel=1e-6)
    assert mean_cost(GUESS, TARGET) == pytest.approx(mean_squared_error(TARGET, GUESS) / 2)
    assert score(ODDS, LABELS) == np.mean(ODDS.argmax(axis=1) == LABELS)
    assert mean_cost(ODDS, LABELS) == pytest.approx(log_loss(LABELS, ODDS), rel=1e-5)
    assert (metric_of(TARGET), metric_of(LABELS)) == (R2, ACCURACY)


def test_r2_does_not_change_with_the_unit():
    assert score(7 * GUESS + 3, 7 * TARGET + 3) == pytest.approx(score(GUESS, TARGET), rel=1e-4)


def test_chance_is_the_mean_of_the_test_part():
    assert p_of_chance(np.full_like(TARGET, TARGET.mean()), TARGET) > 0.4
    assert p_of_chance(0.9 * TARGET, TARGET) < 1e-4
    noise = [p_of_chance(RNG.normal(scale=0.3, size=TARGET.shape), TARGET) for _ in range(200)]
    assert np.mean(np.array(noise) < 0.05) < 0.05  # what is worse than the mean is no better
    assert p_of_chance(ODDS, LABELS) is None


def compare(eqprop, baseline, p=0.001, **settings):
    chances = [p] * len(eqprop), [p] * len(baseline)
    return compare_r2(
        eqprop, baseline, n_test=[100] * len(eqprop), p_chance=chances, margin=0.02, **settings
    )


def test_r2_is_compared_by_the_same_tests():
    eqprop, baseline = np.array([0.45, 0.52, 0.40, 0.61, -0.2]), 0.5 + 0.1 * RNG.normal(size=5)
    case = compare(eqprop, baseline)
    found = stats.ttest_rel(eqprop, baseline)
    assert case.p_difference == pytest.approx(found.pvalue)
    assert case.interval == pytest.approx(tuple(found.confidence_interval(0.95)))
    assert judge({"t": case})["t"].verdict is Verdict.UNDECIDED
    same = compare([0.45, 0.45, 0.451, 0.449, 0.45, 0.45], [0.45] * 6)
    assert judge({"t": same})["t"].verdict is Verdict.EQUIVALENT
    assert same.spread == 0.01  # one sample in a hundred
    assert judge({"t": compare([0.45] * 6, [0.6] * 6)})["t"].verdict is Verdict.WORSE
    assert judge({"t": compare([0.0] * 6, [0.0] * 6, p=0.4)})["t"].verdict is Verdict.AT_CHANCE
    with pytest.raises(StatisticsError, match="expected finite numbers"):
        compare([np.nan, 0.1], [0.1, 0.1])


def test_scores_are_written_in_their_units():
    assert R2.text(-0.0123, 0.5) == "\N{MINUS SIGN}0.012 ± 0.500"
    assert R2.difference(-0.0001) == "+0.000"
    assert R2.between(-0.01, (-0.02, 0.005)) == (
        "\N{MINUS SIGN}0.010\n(\N{MINUS SIGN}0.020 to +0.005)"
    )
    assert ACCURACY.text(0.5) == "50.00"
    assert (R2.note(0.5), ACCURACY.note(0.5)) == ("R² 0.500", "50.00%")


@pytest.mark.parametrize(("lower", "chosen"), [(0.38, 0), (0.25, 1)])
def test_a_grid_on_numbers_knows_the_error_of_r2(lower, chosen):
    # The standard error of an R² of 0.4 over 100 samples is 0.076.
    pairs = []
    for lr, r2, cost in ((0.1, lower, 0.1), (0.2, 0.4, 0.2)):
        job = make_job("backprop_looped", lr=lr)
        record = make_record("tiny", "backprop_looped", 7, r2, n_test=100)
        object.__setattr__(record, "metric", "r2")
        object.__setattr__(record, "cost", cost)
        object.__setattr__(job, "label", str(lr))
        pairs.append((job, record))
    (row,) = best_points(pairs, tuned_names)
    assert row["chosen"]["lr"] == (0.1, 0.2)[chosen]
