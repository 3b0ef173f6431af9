"""Is EqProp as good as its baseline? Paired statistics over seeds, and one verdict for each task.

Both contestants see the same split for the same seed, so everything rests on the differences
`d = score of EqProp - score of the baseline`, seed by seed, and on Student's t. A score is an
accuracy, or R² where a number is to be predicted.

Who looks at the results more than once, and adds seeds while they are undecided, has as many
chances of a wrong verdict as looks. With `looks`, the number that was planned before the first
one, p-values are multiplied by it and intervals are as wide as that asks for (Bonferroni). This
bounds the error of every verdict whenever one stops, for whatever the looks have in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from engine.arrays import FloatArray
from experiments.paired_scores import (
    StatisticsError,
    check_pairs,
    checked_accuracies,
    checked_scores,
    checked_test_parts,
)

SIGNIFICANCE = 0.05
CONFIDENCE = 0.95

ROUNDING = 1e-12
"""Accuracies closer than this are equal: no test set has that many samples."""


class Verdict(StrEnum):
    """What may be said about EqProp on a task; `judge` says when."""

    EQUIVALENT = "equivalent"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided (more seeds needed)"
    AT_CHANCE = "at chance"


@dataclass(frozen=True)
class Score:
    """Score of one contestant over seeds, in fractions.

    `std` is the sample deviation, NaN for a single seed. `p_chance` is that of the worst seed.
    """

    mean: float
    std: float
    p_chance: float


@dataclass(frozen=True)
class PairedComparison:
    """EqProp minus baseline on one task: estimates, and p-values before any correction.

    `interval` is the two-sided 95 % interval of the mean difference. The equivalence test at 5 %
    belongs to the 90 % interval, so `interval` may reach a little beyond an established margin.
    """

    seeds: int
    eqprop: Score
    baseline: Score
    difference: float
    difference_std: float
    interval: tuple[float, float]
    margin: float
    p_equivalence: float
    p_difference: float
    spread: float = float("nan")
    """The deviation that the tests reckon with: `difference_std`, or the least there can be."""

    @property
    def p_chance(self) -> float:
        """P-value of the claim that every run of both contestants beats the best constant."""
        return max(self.eqprop.p_chance, self.baseline.p_chance)


@dataclass(frozen=True)
class Judgement:
    """A comparison, its p-values after Holm's correction over the tasks, and the verdict."""

    comparison: PairedComparison
    p_equivalence: float
    p_difference: float
    p_chance: float
    verdict: Verdict


def compare(
    eqprop: Sequence[float],
    baseline: Sequence[float],
    *,
    n_test: int | Sequence[int],
    majority_rate: float | Sequence[float],
    margin: float,
    looks: int = 1,
) -> PairedComparison:
    """Compare paired accuracies, one pair for each seed, as fractions of `n_test` samples.

    `n_test` and `majority_rate` are one number, or one for each seed if the test part changes.
    `margin` is a fraction as well: 0.005 is half a percentage point.

    Chance: an exact binomial test of the correct answers against `majority_rate`, for each seed;
    the worst seed counts. To pool the seeds would be lenient twice: it hides a run that failed
    among runs that did not, and it counts a shared test set once for each seed as if it were new.

    Equivalence: two one-sided paired t-tests against `-margin` and `+margin`; the larger p counts.

    A test part of `n` samples tells accuracies apart in steps of `1 / n`: differences that happen
    to vary less, or not at all, count as if they varied by that, for chance agreement of two or
    three seeds is no certainty. A single seed shows nothing about differences: both p-values are
    1 and the interval is all that is possible, (-1, 1).
    """
    first = checked_accuracies("EqProp", eqprop)
    second = checked_accuracies("Baseline", baseline)
    check_pairs(first, second)
    samples, rates = checked_test_parts(n_test, majority_rate, len(first))
    scores = tuple(
        Score(float(values.mean()), _sample_std(values), _p_of_chance(values, samples, rates))
        for values in (first, second)
    )
    resolution = 1 / int(samples.min())
    return _compared(first - second, scores, margin, resolution, (-1.0, 1.0), looks)


def compare_r2(
    eqprop: Sequence[float],
    baseline: Sequence[float],
    *,
    n_test: Sequence[int],
    p_chance: tuple[Sequence[float], Sequence[float]],
    margin: float,
    looks: int = 1,
) -> PairedComparison:
    """Compare paired values of R², with the p-values of chance of every run.

    R² of `n` samples moves by `1 / n` when one of them is missed by a standard deviation: that is
    taken for the least that differences can vary by.
    """
    first, second = checked_scores("EqProp", eqprop), checked_scores("Baseline", baseline)
    check_pairs(first, second)
    samples, _ = checked_test_parts(n_test, 1.0, len(first))
    scores = tuple(
        Score(float(values.mean()), _sample_std(values), float(max(p)))
        for values, p in zip((first, second), p_chance, strict=True)
    )
    resolution = 1 / int(samples.min())
    return _compared(first - second, scores, margin, resolution, (-np.inf, np.inf), looks)


def judge(
    comparisons: Mapping[str, PairedComparison],
    significance: float = SIGNIFICANCE,
    looks: int = 1,
) -> dict[str, Judgement]:
    """Give a verdict for each task, with Holm's correction over the tasks for each of three tests.

    The p-values are corrected for the number of `looks` before that. In this order, each at
    `significance` after correction:

    1. A run, of either contestant, that is not above the majority class: *at chance*. Two networks
       that learned nothing are equal, and to beat one of them is no merit.
    2. The difference is within the margin: *equivalent*, even if it is also significantly
       different from zero, for the margin says which differences matter and this one does not.
    3. The difference is significant and not shown to be within the margin: *better* or *worse*.
    4. Otherwise *undecided*: a wide interval is not evidence of equality. More seeds narrow it.
    """
    if not 0 < significance < 1:
        raise StatisticsError(f"The significance is {significance}, expected it between 0 and 1.")
    cases = list(comparisons.values())
    equivalence = holm([looks * case.p_equivalence for case in cases])
    difference = holm([looks * case.p_difference for case in cases])
    chance = holm([looks * case.p_chance for case in cases])
    judgements = {}
    for k, (task, case) in enumerate(comparisons.items()):
        p = (float(equivalence[k]), float(difference[k]), float(chance[k]))
        judgements[task] = Judgement(case, *p, verdict=_verdict(case, *p, significance))
    return judgements


def planned_looks(most: int, first: int = 5, growth: float = 1.6) -> tuple[int, ...]:
    """Return after how many seeds to look, such as 5, 8, 13, 21, 30: few looks cost little power.

    Each has more seeds than the one before by a share; the last one has the most.
    """
    looks: list[int] = []
    count = first
    while count < most:
        looks.append(count)
        count = round(growth * count)
    return (*looks, most)


def holm(p_values: Sequence[float]) -> FloatArray:
    """Adjust p-values for the number of tests by Holm's step-down method, in their order.

    The k-th smallest of m is multiplied by `m - k + 1`; none may fall below a smaller one's.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _verdict(
    case: PairedComparison,
    p_equivalence: float,
    p_difference: float,
    p_chance: float,
    significance: float,
) -> Verdict:
    if p_chance >= significance:
        return Verdict.AT_CHANCE
    if p_equivalence < significance:
        return Verdict.EQUIVALENT
    if p_difference < significance:
        return Verdict.BETTER if case.difference > 0 else Verdict.WORSE
    return Verdict.UNDECIDED


def _compared(
    difference: FloatArray,
    scores: tuple[Score, ...],
    margin: float,
    resolution: float,
    possible: tuple[float, float],
    looks: int,
) -> PairedComparison:
    """Test differences, which are told apart in steps of `resolution` and lie where possible."""
    if not 0 < margin < 1:
        raise StatisticsError(f"The margin is {margin}, expected a fraction between 0 and 1.")
    if looks < 1:
        raise StatisticsError(f"There are {looks} looks, expected at least 1.")
    eqprop, baseline = scores
    std = _sample_std(difference)
    spread = float("nan") if len(difference) == 1 else max(std, resolution)
    interval, p_equivalence, p_difference = possible, 1.0, 1.0
    if len(difference) > 1:
        interval, p_equivalence, p_difference = _test_difference(difference, margin, spread, looks)
    return PairedComparison(
        seeds=len(difference),
        eqprop=eqprop,
        baseline=baseline,
        difference=float(difference.mean()),
        difference_std=std,
        interval=interval,
        margin=float(margin),
        p_equivalence=p_equivalence,
        p_difference=p_difference,
        spread=spread,
    )


def _p_of_chance(
    accuracies: FloatArray, samples: npt.NDArray[np.int64], rates: FloatArray
) -> float:
    return max(
        float(stats.binomtest(round(a * n), int(n), rate, alternative="greater").pvalue)
        for a, n, rate in zip(accuracies, samples, rates, strict=True)
    )


def _sample_std(values: FloatArray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _test_difference(
    difference: FloatArray, margin: float, spread: float, looks: int
) -> tuple[tuple[float, float], float, float]:
    """Interval of the mean difference, p-value of equivalence, p-value of a difference."""
    mean, error = float(difference.mean()), spread / np.sqrt(len(difference))
    free = len(difference) - 1
    reach = float(error * special.stdtrit(free, 1 - (1 - CONFIDENCE) / looks / 2))
    p_equivalence = float(special.stdtr(free, (abs(mean) - margin) / error))
    p_difference = float(2 * special.stdtr(free, -abs(mean) / error))
    return (mean - reach, mean + reach), p_equivalence, p_difference
