"""Scores as they come into a comparison: refused in one sentence if they cannot be compared."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray


class StatisticsError(ValueError):
    """Accuracies or settings that cannot be compared, as one sentence."""


def check_pairs(first: FloatArray, second: FloatArray) -> None:
    """Refuse scores that are no pairs."""
    if len(first) != len(second):
        raise StatisticsError(
            f"EqProp has {len(first)} accuracies and the baseline {len(second)}, expected pairs."
        )


def checked_scores(name: str, values: Sequence[float]) -> FloatArray:
    """Return scores as an array, or refuse those that are not finite."""
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0 or not np.isfinite(scores).all():
        raise StatisticsError(f"{name} has the scores {values}, expected finite numbers.")
    return scores


def checked_accuracies(name: str, values: Sequence[float]) -> FloatArray:
    """Return accuracies as an array, or refuse what is no fraction."""
    accuracies = np.asarray(values, dtype=np.float64)
    if accuracies.ndim != 1 or accuracies.size == 0:
        raise StatisticsError(
            f"{name} has accuracies of shape {accuracies.shape}, expected one for each seed."
        )
    wrong = accuracies[~((accuracies >= 0) & (accuracies <= 1))]
    if wrong.size:
        raise StatisticsError(f"{name} has an accuracy of {wrong[0]}, expected 0 to 1.")
    return accuracies


def checked_test_parts(
    n_test: int | Sequence[int], majority_rate: float | Sequence[float], seeds: int
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the size and the majority rate of the test part of each seed."""
    samples, rates = np.asarray(n_test), np.asarray(majority_rate, dtype=np.float64)
    for name, values in (("n_test", samples), ("majority_rate", rates)):
        if values.shape not in ((), (seeds,)):
            raise StatisticsError(
                f"{name} has shape {values.shape}, expected one value, or one for each of the "
                f"{seeds} seeds."
            )
    if samples.dtype.kind not in "iu" or samples.min() < 1:
        raise StatisticsError(f"n_test is {n_test}, expected a whole number of samples above 0.")
    if not ((rates > 0) & (rates <= 1)).all():
        raise StatisticsError(f"majority_rate is {majority_rate}, expected above 0 and up to 1.")
    return np.broadcast_to(samples, seeds), np.broadcast_to(rates, seeds)
