import numpy as np
import pytest
from scipy import stats

from experiments.planning import plan_seeds, power_of_difference, power_of_equivalence
from experiments.statistics import PairedComparison, Verdict, compare, judge


def draw(seeds, gap, spread, experiments=40_000):
    """Return mean and deviation of the differences of many experiments."""
    found = np.random.default_rng(0).normal(gap, spread, (experiments, seeds))
    return found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(seeds)


def test_the_power_of_the_paired_test_is_that_of_the_textbook():
    # Cohen's d of 0.5, two-sided, 5 %: 34 pairs have a power of 0.81, 33 one of 0.80.
    assert power_of_difference(34, 0.5, 1.0, 0.05) == pytest.approx(0.808, abs=5e-4)
    assert power_of_difference(10, 0.0, 1.0, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("seeds", [3, 8, 20])
@pytest.mark.parametrize("gap", [0.0, 0.002, 0.006])
def test_the_powers_are_those_of_simulated_experiments(seeds, gap):
    spread, margin, level = 0.004, 0.005, 0.05
    mean, error = draw(seeds, gap, spread)
    free = stats.t(seeds - 1)
    differ = (2 * free.sf(np.abs(mean) / error) < level).mean()
    agree = (free.sf((margin - np.abs(mean)) / error) < level).mean()
    assert power_of_difference(seeds, gap, spread, level) == pytest.approx(differ, abs=0.01)
    assert power_of_equivalence(seeds, gap, spread, margin, level) == pytest.approx(agree, abs=0.01)


def measured(gap, spread, seeds=5, margin=0.005) -> PairedComparison:
    """A comparison with exactly that gap and spread."""
    shape = np.linspace(-1, 1, seeds)
    differences = gap + spread * shape / shape.std(ddof=1)
    return compare(0.9 + differences, [0.9] * seeds, n_test=1000, majority_rate=0.1, margin=margin)


def test_so_many_seeds_decide_in_four_of_five_experiments():
    plan = plan_seeds(measured(0.001, 0.004))
    mean, error = draw(plan.equivalence, 0.001, 0.004)
    shown = stats.t(plan.equivalence - 1).sf((0.005 - np.abs(mean)) / error) < 0.05
    assert 0.79 < shown.mean() < 0.86
    assert power_of_equivalence(plan.equivalence - 1, 0.001, 0.004, 0.005, 0.05) < 0.8
    assert plan.difference > plan.equivalence == plan.fewest


def test_a_gap_beyond_the_margin_is_never_equivalent_and_soon_a_difference():
    plan = plan_seeds(measured(0.006, 0.004))
    assert plan.equivalence is None
    assert 5 <= plan.difference < 10


def test_a_stricter_test_needs_more_seeds():
    case = measured(0.001, 0.004)
    assert plan_seeds(case, 0.01).equivalence > plan_seeds(case).equivalence


def test_one_seed_plans_nothing():
    case = compare([0.9], [0.9], n_test=1000, majority_rate=0.1, margin=0.005)
    assert judge({"t": case})["t"].verdict is Verdict.UNDECIDED
    assert plan_seeds(case) is None
