import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import (
    SIGNIFICANCE,
    PairedComparison,
    Score,
    StatisticsError,
    Verdict,
    compare,
    holm,
    judge,
)

N_TEST = 1000
GOOD = [0.981, 0.975, 0.979, 0.983, 0.977]


def compare_fairly(
    eqprop, baseline, margin=0.005, n_test=N_TEST, majority_rate=0.1
) -> PairedComparison:
    return compare(eqprop, baseline, n_test=n_test, majority_rate=majority_rate, margin=margin)


def verdict(eqprop, baseline, **settings) -> Verdict:
    return judge({"task": compare_fairly(eqprop, baseline, **settings)})["task"].verdict


def shifted(accuracies, *shifts):
    return [a + s for a, s in zip(accuracies, shifts, strict=True)]


def test_identical_samples_are_equivalent():
    comparison = compare_fairly(GOOD, GOOD)
    assert comparison.p_equivalence < 0.001
    assert comparison.p_difference == 1.0
    assert comparison.difference == comparison.difference_std == 0.0
    assert verdict(GOOD, GOOD) is Verdict.EQUIVALENT


def test_agreement_is_known_to_one_sample_of_the_test_part_at_best():
    intervals = {n: compare_fairly(GOOD, GOOD, n_test=n).interval for n in (100, 1000)}
    for n, (low, high) in intervals.items():
        reach = stats.t(4).ppf(0.975) / n / np.sqrt(5)
        assert (low, high) == pytest.approx((-reach, reach))
    assert verdict(GOOD[:2], GOOD[:2], n_test=100) is Verdict.UNDECIDED
    shifted_once = shifted(GOOD[:3], 0.0, 0.0, 0.0005)
    assert compare_fairly(shifted_once, GOOD[:3]).interval[1] > 0.002


def test_a_constant_difference_is_decided_by_the_margin():
    lower = shifted(GOOD, *[-0.02] * 5)
    assert verdict(lower, GOOD, margin=0.03) is Verdict.EQUIVALENT
    assert verdict(lower, GOOD, margin=0.01) is Verdict.WORSE
    assert verdict(GOOD, lower, margin=0.01) is Verdict.BETTER


def test_a_large_consistent_gap_is_better_or_worse():
    lower = shifted(GOOD, -0.02, -0.021, -0.019, -0.022, -0.018)
    assert verdict(lower, GOOD) is Verdict.WORSE
    assert verdict(GOOD, lower) is Verdict.BETTER


def test_noise_is_undecided():
    noisy = shifted(GOOD, 0.015, -0.02, 0.01, -0.012, 0.004)
    assert verdict(noisy, GOOD) is Verdict.UNDECIDED


def test_a_significant_difference_within_the_margin_is_equivalent():
    lower = shifted(GOOD, -0.001, -0.0011, -0.0009, -0.0012, -0.0008)
    comparison = compare_fairly(lower, GOOD, n_test=10_000)
    assert comparison.p_difference < 0.05
    assert verdict(lower, GOOD, n_test=10_000) is Verdict.EQUIVALENT


def test_a_significant_difference_across_the_margin_is_worse():
    lower = shifted(GOOD, -0.004, -0.0052, -0.0047, -0.0055, -0.0036)
    assert verdict(lower, GOOD) is Verdict.WORSE


def test_one_seed_is_undecided():
    comparison = compare_fairly([0.98], [0.98])
    assert np.isnan(comparison.difference_std)
    assert np.isnan(comparison.eqprop.std)
    assert comparison.interval == (-1.0, 1.0)
    assert comparison.p_equivalence == comparison.p_difference == 1.0
    assert verdict([0.98], [0.98]) is Verdict.UNDECIDED
    assert verdict([0.98], [0.30]) is Verdict.UNDECIDED


@pytest.mark.parametrize("other", [[0.1, 0.1, 0.1], GOOD[:3], [0.11, 0.1, 0.09]])
def test_chance_is_never_parity(other):
    chance = [0.1, 0.1, 0.1]
    assert verdict(chance, other) is Verdict.AT_CHANCE
    assert verdict(other, chance) is Verdict.AT_CHANCE


def test_one_failed_seed_is_enough_for_chance():
    accuracies = [0.98, 0.98, 0.105]
    pooled = stats.binomtest(round(N_TEST * sum(accuracies)), 3 * N_TEST, 0.1, "greater").pvalue
    assert pooled < 0.05
    assert verdict(accuracies, accuracies) is Verdict.AT_CHANCE


def test_chance_follows_the_test_part_of_each_seed():
    accuracies = [0.9, 0.6]
    balanced = compare_fairly(accuracies, accuracies, majority_rate=[0.5, 0.5])
    skewed = compare_fairly(accuracies, accuracies, majority_rate=[0.5, 0.6], n_test=[1000, 500])
    assert balanced.p_chance < 0.001
    assert skewed.p_chance == stats.binomtest(300, 500, 0.6, "greater").pvalue > 0.4


def test_estimates_agree_with_scipy():
    eqprop = shifted(GOOD, 0.001, -0.002, 0.003, 0.0, -0.001)
    comparison = compare_fairly(eqprop, GOOD)
    reference = stats.ttest_rel(eqprop, GOOD)
    interval = reference.confidence_interval(0.95)
    assert comparison.interval == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert comparison.p_difference == pytest.approx(reference.pvalue, rel=1e-9)
    assert comparison.eqprop.mean == pytest.approx(np.mean(eqprop))
    assert comparison.eqprop.std == pytest.approx(np.std(eqprop, ddof=1))


def test_two_seeds_are_the_fewest_that_are_tested():
    eqprop, baseline = [0.93, 0.96], [0.9, 0.91]
    comparison, reference = compare_fairly(eqprop, baseline), stats.ttest_rel(eqprop, baseline)
    assert comparison.p_difference == pytest.approx(reference.pvalue, rel=1e-9)
    assert comparison.difference_std == pytest.approx(np.std([0.03, 0.05], ddof=1))


def test_the_smallest_test_part_says_what_can_be_told_apart():
    smallest = compare_fairly(GOOD[:2], GOOD[:2], n_test=100).interval
    assert compare_fairly(GOOD[:2], GOOD[:2], n_test=[10_000, 100]).interval == smallest


def at(p_equivalence=1.0, p_difference=1.0, p_chance=0.0) -> PairedComparison:
    """A comparison that is better, with these p-values."""
    score = Score(0.9, 0.01, p_chance)
    return PairedComparison(5, score, score, 0.1, 0.1, (0, 0.2), 0.01, p_equivalence, p_difference)


def test_a_p_value_at_the_significance_is_not_below_it():
    below, level = np.nextafter(SIGNIFICANCE, 0), SIGNIFICANCE
    expected = {
        (at(p_chance=level), Verdict.AT_CHANCE),
        (at(p_chance=below), Verdict.UNDECIDED),
        (at(p_equivalence=level), Verdict.UNDECIDED),
        (at(p_equivalence=below), Verdict.EQUIVALENT),
        (at(p_difference=level), Verdict.UNDECIDED),
        (at(p_difference=below), Verdict.BETTER),
    }
    for comparison, verdict in expected:
        assert judge({"task": comparison})["task"].verdict is verdict


def test_the_usual_significance_is_five_percent():
    assert judge({"task": at(p_difference=0.0499)})["task"].verdict is Verdict.BETTER
    assert judge({"task": at(p_difference=0.0501)})["task"].verdict is Verdict.UNDECIDED


def test_equivalence_is_the_90_percent_interval_inside_the_margin():
    eqprop = shifted(GOOD, 0.001, -0.002, 0.003, 0.0, -0.001)
    interval = stats.ttest_rel(eqprop, GOOD).confidence_interval(0.90)
    edge = max(-interval.low, interval.high)
    assert compare_fairly(eqprop, GOOD, margin=edge * 1.001).p_equivalence < 0.05
    assert compare_fairly(eqprop, GOOD, margin=edge * 0.999).p_equivalence > 0.05


def test_holm_against_a_worked_example():
    # Sorted: 0.005 x 4 = 0.02, 0.01 x 3 = 0.03, 0.03 x 2 = 0.06, 0.04 x 1 = 0.04 raised to 0.06.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1.0, 1.0])
    assert holm([]).size == 0


def test_holm_can_turn_a_verdict():
    lower = shifted(GOOD, -0.01, -0.025, -0.002, -0.018, -0.012)
    noisy = shifted(GOOD, 0.015, -0.02, 0.01, -0.012, 0.004)
    case, noise = compare_fairly(lower, GOOD), compare_fairly(noisy, GOOD)
    assert 0.01 < case.p_difference < 0.05
    assert judge({"alone": case})["alone"].verdict is Verdict.WORSE
    judged = judge({"first": case, **{f"noise {k}": noise for k in range(4)}})
    assert judged["first"].verdict is Verdict.UNDECIDED
    assert judged["first"].p_difference == pytest.approx(5 * case.p_difference)


counts = st.integers(0, N_TEST)
pairs = st.lists(st.tuples(counts, counts), min_size=1, max_size=6)
margins = st.sampled_from([0.00151, 0.00501, 0.0303, 0.2002])


@given(pairs, margins)
def test_swapping_the_contestants_swaps_better_and_worse(pairs, margin):
    eqprop, baseline = np.array(pairs).T / N_TEST
    swapped = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    forth = verdict(eqprop, baseline, margin=margin)
    back = verdict(baseline, eqprop, margin=margin)
    assert back is swapped.get(forth, forth)


@given(pairs, margins, st.randoms())
def test_the_order_of_the_seeds_does_not_matter(pairs, margin, random):
    mixed = random.sample(pairs, len(pairs))
    before = verdict(*(np.array(pairs).T / N_TEST), margin=margin)
    after = verdict(*(np.array(mixed).T / N_TEST), margin=margin)
    assert after is before


@given(pairs, margins)
def test_parity_needs_every_run_above_chance(pairs, margin):
    assume(min(min(pair) for pair in pairs) <= N_TEST // 10)
    assert verdict(*(np.array(pairs).T / N_TEST), margin=margin) is Verdict.AT_CHANCE


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_p_values_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= p_values).all()
    assert adjusted.max() <= 1
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eqprop": [0.9]}, "EqProp has 1 accuracies and the baseline 2"),
        ({"eqprop": []}, r"EqProp has accuracies of shape \(0,\)"),
        ({"eqprop": [[0.9, 0.9]]}, r"shape \(1, 2\)"),
        ({"baseline": [0.9, float("nan")]}, "Baseline has an accuracy of nan"),
        ({"eqprop": [0.9, 97.5]}, "EqProp has an accuracy of 97.5"),
        ({"eqprop": [0.9, 1.001]}, "EqProp has an accuracy of 1.001"),
        ({"eqprop": [0.9, -0.1]}, "EqProp has an accuracy of -0.1"),
        ({"margin": 0.0}, "margin is 0.0"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"margin": 1.0}, "margin is 1.0"),
        ({"margin": float("nan")}, "margin is nan"),
        ({"n_test": 0}, "n_test is 0"),
        ({"n_test": [10, 0]}, r"n_test is \[10, 0\]"),
        ({"n_test": 99.5}, "n_test is 99.5"),
        ({"n_test": [10, 10, 10]}, r"n_test has shape \(3,\)"),
        ({"majority_rate": 0.0}, "majority_rate is 0.0"),
        ({"majority_rate": 1.001}, "majority_rate is 1.001"),
        ({"majority_rate": [0.5, float("nan")]}, "majority_rate is"),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    case = {
        "eqprop": [0.9, 0.9],
        "baseline": [0.9, 0.9],
        "n_test": 100,
        "majority_rate": 0.5,
        "margin": 0.01,
    }
    with pytest.raises(StatisticsError, match=message):
        compare(**case | change)


@pytest.mark.parametrize("accuracies", [[0.0, 1.0], [1.0, 0.0]])
def test_the_ends_of_a_range_belong_to_it(accuracies):
    settings = {"n_test": 1, "majority_rate": 1.0, "margin": 0.999}
    comparison = compare(accuracies, accuracies, **settings)
    assert comparison.p_chance == 1.0  # nothing is above a class that is always right
    assert comparison.eqprop.mean == 0.5


@pytest.mark.parametrize("significance", [0.0, 1.0, float("nan")])
def test_bad_significance_is_refused(significance):
    with pytest.raises(StatisticsError, match="significance"):
        judge({}, significance)
