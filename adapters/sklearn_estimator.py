"""Equilibrium propagation as scikit-learn estimators: `EqPropClassifier` and `EqPropRegressor`.

Inputs are taken as they come, so scale them first (`StandardScaler` in a pipeline). The network is
trained in the precision of the first data it sees. Images `(samples, height, width)` or `(samples,
height, width, channels)` are taken too.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from numbers import Integral
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from adapters.sklearn_images import as_rows, conv_regression, image_shape_of
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.window import Image
from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count
from engine.learning.estimator import Recipe, estimate
from engine.learning.optimizer import Adam
from engine.learning.predict import Predictor
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training, descend
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ModuleNotFoundError as error:
    message = 'the scikit-learn adapter needs scikit-learn: pip install "scikit-learn>=1.6".'
    raise ImportError(message) from error

REACH = 0.8
"""Where the largest training target lies in the range of an output unit, which ends at one."""
AUTO_BATCH = 200
AUTO_HIDDEN = 64

Method = TypeVar("Method", bound=Callable[..., Any])


def _all_or_nothing(method: Method) -> Method:
    """Let a refused call leave the estimator as it was: unfitted, or with what it had learned."""

    @wraps(method)
    def call(self: Any, *values: Any, **named: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *values, **named)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, call)


class _EqProp(BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: settings, the training loop and the outputs."""

    image_shape_: Image | None
    """Height, width and channels of the images it was fitted to; `None` for other rows."""

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] | str = "auto",
        *,
        image_shape: Sequence[int] | None = None,
        channels: Sequence[int] = (16, 32),
        learning_rate: float = 0.01,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        beta: float | str = "auto",
        estimator: Recipe = "auto",
        cap: float = 0.95,
        free_steps: int = 30,
        nudged_steps: int = 15,
        tolerance: float | str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.image_shape = image_shape
        self.channels = channels
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.beta = beta
        self.estimator = estimator
        self.cap = cap
        self.free_steps = free_steps
        self.nudged_steps = nudged_steps
        self.tolerance = tolerance
        self.random_state = random_state

    def _network(self, outputs: int) -> Network:
        raise NotImplementedError

    def _sizes(self) -> list[int]:
        named = isinstance(self.hidden_layer_sizes, str)
        return [_whole(n) for n in np.ravel(AUTO_HIDDEN if named else self.hidden_layer_sizes)]

    def _seen(self) -> Image | None:
        """Return the shape of what a convolutional network sees; `None` for another network."""
        return self.image_shape_ if isinstance(self.hidden_layer_sizes, str) else None

    def _channels(self) -> list[int]:
        return [_whole(count) for count in np.ravel(self.channels)]

    def _validated(self, X: npt.ArrayLike, *y: npt.ArrayLike, reset: bool, **options: Any) -> Any:
        """Let scikit-learn check the data, as rows; keep the shape of the images, or compare it."""
        rows, seen = as_rows(X)
        if not reset and seen is not None and seen != self.image_shape_:
            known = f"images {self.image_shape_}" if self.image_shape_ else "rows of features"
            raise EngineError(f"X holds images {seen}, but the estimator was fitted to {known}.")
        found = validate_data(self, rows, *y, reset=reset, **options)
        if reset:
            kind = self.hidden_layer_sizes
            if isinstance(kind, str) and kind not in ("auto", "conv"):
                raise EngineError(
                    f"hidden_layer_sizes is '{kind}', expected numbers, 'conv' or 'auto'."
                )
            square = isinstance(kind, str) and kind == "conv"
            self.image_shape_ = image_shape_of(self.image_shape, seen, self.n_features_in_, square)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _training(self) -> Training:
        """Settings in the engine's words, which refuses those that make no sense."""
        return Training(
            beta=self.beta,
            estimator=self.estimator,
            free=self._way(self.free_steps),
            nudged=self._way(self.nudged_steps),
            optimizer=Adam(self.learning_rate),
            schedule="constant",
            cap=SpectralCap(self.cap, method="watched"),
        )

    def _way(self, steps: int) -> Relaxation | Literal["auto"]:
        if isinstance(self.tolerance, str):
            if self.tolerance != "auto":
                raise EngineError(f"tolerance is '{self.tolerance}', expected a number or 'auto'.")
            return "auto"
        return Relaxation(_whole(steps), self.tolerance)

    def _ways(self, training: Training) -> tuple[Relaxation, Relaxation]:
        """Return how long each phase of a step may take, from the loss of the last pass."""
        cost = self.loss_curve_[-1] if self.loss_curve_ else 1.0
        free, nudged = training.relaxations(self.backend_, cost)
        return (
            replace(free, max_steps=_whole(self.free_steps)),
            replace(nudged, max_steps=_whole(self.nudged_steps)),
        )

    def _begin(self, outputs: int, dtype: npt.DTypeLike) -> None:
        """Draw a new network; forget what was learned before."""
        seed = check_random_state(self.random_state).randint(2**31)
        training, network = self._training(), self._network(outputs)
        run = Run.start(network, training.optimizer.moments, dtype, seed)
        params = initial_params(network, np.random.default_rng(seed), dtype)
        if training.spectral_cap is not None:
            training.spectral_cap.enforce(network, params, 0, run.vectors)
        self.backend_ = NumbaBackend(network, params)
        self._predictor = Predictor(self.backend_)
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self._run = run

    def _train(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> None:
        """Pass over the data until the loss no longer falls."""
        for name in ("max_iter", "n_iter_no_change"):
            check_count(name, _whole(getattr(self, name)))
        stale, best = 0, np.inf
        for _ in range(self.max_iter):
            loss = self._pass_over(x, y, weights)
            stale = 0 if loss < best - self.tol else stale + 1
            best = min(best, loss)
            if stale >= self.n_iter_no_change:
                return
        warnings.warn(
            f"the loss still fell after {self.max_iter} passes; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _pass_over(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Train once on every sample; return the mean cost met on the way.

        A batch counts as much as its weights say, so that the expected update is that of the
        weighted mean. When one batch holds all samples, a weight of two is the sample twice.
        """
        training, run, size = self._training(), self._run, self._batch_size(len(x))
        order = run.rng.permutation(len(x)) if size < len(x) else np.arange(len(x))
        loss = 0.0
        for first in range(0, len(x), size):
            rows = order[first : first + size]
            share = float(weights[rows].sum() / weights.sum())
            clamped = self.backend_.clamp(x[rows], y[rows], weights[rows])
            phases, ways = training.phases(self.backend_), self._ways(training)
            report = estimate(self.backend_, clamped, phases, run.gradient, *ways)
            run.gradient *= share * len(x) / len(rows)
            descend(self.backend_, training, run, total=1)
            loss += share * report.cost
        self.n_iter_ += 1
        self.loss_curve_.append(loss)
        return loss

    def _batch_size(self, samples: int) -> int:
        if self.batch_size == "auto":
            return min(AUTO_BATCH, samples)
        if isinstance(self.batch_size, str):
            raise EngineError(f"batch_size is '{self.batch_size}', expected a number or 'auto'.")
        check_count("batch_size", _whole(self.batch_size))
        return min(int(self.batch_size), samples)

    def _asked(self, X: npt.ArrayLike) -> tuple[FloatArray, Relaxation]:
        """Return the rows to predict, and how they are to settle."""
        check_is_fitted(self)
        x = self._validated(X, dtype=self.backend_.dtype, reset=False)
        way, steps = self._way(self.free_steps), _whole(self.free_steps)
        return x, Relaxation(steps) if isinstance(way, str) else way

    def _outputs(self, X: npt.ArrayLike) -> FloatArray:
        rows, settled = self._asked(X)
        return self._predictor.predict_outputs(rows, settled)


class EqPropClassifier(ClassifierMixin, _EqProp):  # type: ignore[misc]
    """Classify with a network that settles, trained by equilibrium propagation.

    One number in `hidden_layer_sizes` gives the looped network, several give a layered one, "conv"
    gives a convolutional one whose layers have so many `channels`. "auto" is "conv" for images and
    64 for rows. Rows are images if `image_shape` says `(height, width, channels)`; for "conv" they
    are gray squares otherwise. Classes are read out by softmax.

    `free_steps`, `nudged_steps` and `tolerance` say how long the network may settle; a tolerance of
    "auto" shrinks with the loss, and is 1e-4 for predictions. `cap` bounds
    the norm of the recurrent coupling, `beta` is the nudge. Training ends when `n_iter_no_change`
    passes in a row have not lowered the loss by `tol`, or after `max_iter`.
    """

    @_all_or_nothing
    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Train a new network."""
        x, labels = self._validated(X, y, dtype=(np.float64, np.float32), reset=True)
        weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True, dtype=x.dtype)
        labels = _class_labels(labels)
        self.classes_ = np.unique(labels)
        self._begin(len(self.classes_), x.dtype)
        self._train(*_counting(x, self._one_hot(labels, x.dtype), weights))
        return self

    @_all_or_nothing
    def partial_fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Pass once over some data; the first call names all `classes`."""
        first = not hasattr(self, "backend_")
        dtype = (np.float64, np.float32) if first else self.backend_.dtype
        x, labels = self._validated(X, y, dtype=dtype, reset=first)
        weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True, dtype=x.dtype)
        labels = _class_labels(labels)
        if first:
            if classes is None:
                raise EngineError("the first call of partial_fit needs all classes.")
            self.classes_ = np.unique(np.asarray(classes))
            self._begin(len(self.classes_), x.dtype)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise EngineError(f"classes {classes} are not those of the first call.")
        self._pass_over(*_counting(x, self._one_hot(labels, x.dtype), weights))
        return self

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """Return the probability of every class, `(samples, classes)`."""
        return self._outputs(X)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable class of every sample."""
        rows, settled = self._asked(X)
        chosen = self._predictor.predict(rows, settled)
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def _network(self, outputs: int) -> Network:
        image, sizes = self._seen(), self._sizes()
        if image is not None:
            return conv_net(image, self._channels(), outputs)
        if np.ndim(self.hidden_layer_sizes) == 0:
            return looped_mlp(self.n_features_in_, sizes[0], outputs)
        return layered((self.n_features_in_, *sizes, outputs))

    def _one_hot(self, labels: npt.NDArray[Any], dtype: npt.DTypeLike) -> FloatArray:
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[places] != labels
        if unknown.any():
            raise EngineError(f"label {labels[unknown][0]!r} is not among the classes.")
        rows: FloatArray = np.eye(len(self.classes_), dtype=dtype)[places]
        return rows


class EqPropRegressor(RegressorMixin, _EqProp):  # type: ignore[misc]
    """Predict numbers with a network that settles; settings as in `EqPropClassifier`.

    It is convolutional, or layered even with one layer. The outputs are tanh units inside the
    energy. Targets are scaled so that those of the training set (of the first batch, with
    `partial_fit`) fill 80 % of their range; a prediction is therefore at most 1.25 times as far
    from the middle as the farthest of them.
    """

    @_all_or_nothing
    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Train a new network."""
        x, targets, weights = self._checked(X, y, sample_weight, (np.float64, np.float32), True)
        self._begin_scaled(targets)
        self._train(x, self._scaled(targets), weights)
        return self

    @_all_or_nothing
    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Pass once over some data; the first call fixes the scale of the targets."""
        first = not hasattr(self, "backend_")
        dtype = (np.float64, np.float32) if first else self.backend_.dtype
        x, targets, weights = self._checked(X, y, sample_weight, dtype, first)
        if first:
            self._begin_scaled(targets)
        self._pass_over(x, self._scaled(targets), weights)
        return self

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Return the predicted values, `(samples,)` or `(samples, outputs)` as in training."""
        outputs: FloatArray = self._outputs(X) / REACH * self._half_range + self._middle
        return outputs[:, 0] if self._flat else outputs

    def _checked(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any, dtype: Any, reset: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, targets = self._validated(
            X, y, dtype=dtype, reset=reset, multi_output=True, y_numeric=True
        )
        weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True, dtype=x.dtype)
        if reset:
            self._flat = targets.ndim == 1
        return _counting(x, targets.reshape(len(x), -1).astype(x.dtype), weights)

    def _begin_scaled(self, targets: FloatArray) -> None:
        low, high = targets.min(axis=0), targets.max(axis=0)
        self._middle = low / 2 + high / 2
        self._half_range = np.where(high > low, high / 2 - low / 2, 1.0).astype(targets.dtype)
        self._begin(targets.shape[1], targets.dtype)

    def _scaled(self, targets: FloatArray) -> FloatArray:
        scaled: FloatArray = (targets - self._middle) / self._half_range * REACH
        return scaled

    def _network(self, outputs: int) -> Network:
        image = self._seen()
        if image is not None:
            return conv_regression(image, self._channels(), outputs)
        return layered((self.n_features_in_, *self._sizes(), outputs), readout="squared_error")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _whole(value: Any) -> Any:
    """Return a whole number of any library as Python's; another value as it is."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _class_labels(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    return labels


def _counting(
    x: FloatArray, y: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the samples that count, so that a weight of zero is a sample left out."""
    kept = weights > 0.0
    if not kept.any():
        raise EngineError("every sample_weight is zero: there is nothing to learn from.")
    return x[kept], y[kept], weights[kept]
