"""What contestants are scored by: accuracy on classes, R² where a number is to be predicted.

`R² = 1 - sum (y - prediction)^2 / sum (y - mean y)^2` on the test part: one is perfect, and zero is
what the mean itself has. It does not change with the unit of the target.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from engine.arrays import FloatArray
from experiments.reporting.number_text import MINUS, percent, points, points_between
from experiments.reporting.plot_style import accuracy_limits
from experiments.tasks.task import RawArray


@dataclass(frozen=True)
class Metric:
    """A score, and how it is written."""

    name: str
    axis: str
    """What an axis of it is called."""
    scale: float
    """By which it is multiplied to be drawn."""
    margin: float
    """How large a gap may be and still not matter, where no goal says so."""
    constant: str
    """What the best constant answer is called."""

    def text(self, mean: float, std: float = np.nan) -> str:
        """Return a score, with its deviation if there is one."""
        if self is ACCURACY:
            return percent(mean, std)
        return _signless(mean) if np.isnan(std) else f"{_signless(mean)} ± {std:.3f}"

    def difference(self, value: float) -> str:
        """Return a signed difference of scores."""
        if self is ACCURACY:
            return points(value)
        # Adding zero turns a negative zero into a positive one.
        return f"{round(value, 3) + 0.0:+.3f}".replace("-", MINUS)

    def between(self, value: float, interval: tuple[float, float]) -> str:
        """Return a difference with its interval."""
        if self is ACCURACY:
            return points_between(value, interval)
        low, high = map(self.difference, interval)
        return f"{self.difference(value)}\n({low} to {high})"

    def note(self, value: float) -> str:
        """Return a score as the progress of a run shows it."""
        return f"{value:.2%}" if self is ACCURACY else f"R² {value:.3f}"

    def limits(self, values: FloatArray) -> tuple[float, float]:
        """Return the range of an axis around scores, which are scaled."""
        if self is ACCURACY:
            return accuracy_limits(values)
        low, high = float(values.min()), float(values.max())
        room = max(0.08 * (high - low), 0.005)
        return low - room, min(high + room, 1.0 + room)


ACCURACY = Metric("accuracy", "test accuracy (%)", 100.0, 0.005, "Majority class")
R2 = Metric("r2", "test R²", 1.0, 0.02, "Mean")
METRICS = {metric.name: metric for metric in (ACCURACY, R2)}


def metric_of(y: RawArray) -> Metric:
    """Return what labels or targets are scored by."""
    return R2 if y.dtype.kind == "f" else ACCURACY


def score(outputs: FloatArray, y: RawArray) -> float:
    """Return accuracy of class probabilities, or R² of predictions `(samples, 1)`."""
    if metric_of(y) is ACCURACY:
        return float((outputs.argmax(axis=1) == y).mean())
    wrong, spread = _squares(outputs, y)
    return float(1.0 - wrong.sum() / spread.sum())


def mean_cost(outputs: FloatArray, y: RawArray) -> float:
    """Return cross entropy of probabilities, or half the squared error."""
    if metric_of(y) is ACCURACY:
        likelihood = np.maximum(outputs[np.arange(len(y)), y], np.finfo(np.float32).tiny)
        return float(-np.log(likelihood).mean())
    return float(_squares(outputs, y)[0].mean() / 2)


def p_of_chance(outputs: FloatArray, y: RawArray) -> float | None:
    """Return the p-value of predictions that are no better than the mean of the test part.

    A one-sided t-test over its samples, of how much closer they are, squared. `None` of classes,
    whose accuracy tells it.
    """
    if metric_of(y) is ACCURACY:
        return None
    wrong, spread = _squares(outputs, y)
    p = float(stats.ttest_1samp(spread - wrong, 0.0, alternative="greater").pvalue)
    return 1.0 if np.isnan(p) else p


def _squares(outputs: FloatArray, y: RawArray) -> tuple[FloatArray, FloatArray]:
    """Return the squared distance of each target from its prediction, and from the mean."""
    target = y.astype(np.float64)
    wrong = (target - outputs).ravel() ** 2
    return wrong, (target - target.mean()).ravel() ** 2


def _signless(value: float) -> str:
    return f"{value:.3f}".replace("-", MINUS)
