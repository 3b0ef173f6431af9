"""Equilibrium propagation as scikit-learn estimators: `EqPropClassifier` and `EqPropRegressor`.

Inputs are taken as they come, so scale them first (`StandardScaler` in a pipeline). The network is
trained in the precision of the first data it sees. Images `(samples, height, width)` or `(samples,
height, width, channels)` are taken too.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from adapters.sklearn_images import conv_regression
from adapters.sklearn_training import EqPropBase, Samples
from engine.arrays import FloatArray
from engine.errors import EngineError
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network

REACH = 0.8
"""Where the largest training target lies in the range of an output unit, which ends at one."""

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


class EqPropClassifier(ClassifierMixin, EqPropBase):  # type: ignore[misc]
    """Classify with a network that settles, trained by equilibrium propagation.

    One number in `hidden_layer_sizes` gives the looped network, several give a layered one, "conv"
    gives a convolutional one whose layers have so many `channels`. "auto" is "conv" for images and
    64 for rows. Rows are images if `image_shape` says `(height, width, channels)`; for "conv" they
    are gray squares otherwise. Hidden units have an `activation`: "tanh", "relu", "hard_sigmoid" or
    "linear"; "auto" is "relu" for images and "tanh" for rows. Classes are read out by softmax.

    Training ends when `n_iter_no_change` passes in a row have not lowered the loss by `tol`, or
    after `max_iter`. With `early_stopping` the score on a `validation_fraction` of the samples,
    which are not learned from, takes the place of the loss, and the best pass is kept. `alpha`
    weighs the squares of the weights in the loss, `warm_start` lets `fit` go on from what was
    learned, `verbose` prints a line for each pass: all as in `MLPClassifier`.

    `free_steps`, `nudged_steps` and `tolerance` say how long the network may settle; a tolerance of
    "auto" shrinks with the cost, and is 1e-4 for predictions. `cap` bounds the norm of the
    recurrent coupling, `beta` is the nudge.
    """

    classes_: npt.NDArray[Any]

    @_all_or_nothing
    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Train a new network, or with `warm_start` the one there is."""
        goes_on = self._goes_on()
        dtype = self.backend_.dtype if goes_on else (np.float64, np.float32)
        x, labels = self._validated(X, y, dtype=dtype, reset=not goes_on)
        weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True, dtype=x.dtype)
        labels = _class_labels(labels)
        classes = np.unique(labels)
        if goes_on and not np.array_equal(classes, self.classes_):
            raise EngineError(
                f"warm_start goes on with the classes {self.classes_.tolist()}, but y holds "
                f"{classes.tolist()}."
            )
        self.classes_ = classes
        self._begin(len(self.classes_), x.dtype)
        samples = _counting(x, self._one_hot(labels, x.dtype), weights)
        self._train(samples, strata=samples[1].argmax(1))
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
        self._refuse_partial()
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
        image, sizes, bends = self._seen(), self._sizes(), self._bends()
        if image is not None:
            return conv_net(image, self._channels(), outputs, activation=bends)
        if np.ndim(self.hidden_layer_sizes) == 0:
            return looped_mlp(self.n_features_in_, sizes[0], outputs, bends)
        return layered((self.n_features_in_, *sizes, outputs), bends)

    def _score_of(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the accuracy."""
        found = self._predictor.predict(x, self._settled())
        return float(accuracy_score(y.argmax(1), found, sample_weight=weights))

    def _one_hot(self, labels: npt.NDArray[Any], dtype: npt.DTypeLike) -> FloatArray:
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[places] != labels
        if unknown.any():
            raise EngineError(f"label {labels[unknown][0]!r} is not among the classes.")
        rows: FloatArray = np.eye(len(self.classes_), dtype=dtype)[places]
        return rows


class EqPropRegressor(RegressorMixin, EqPropBase):  # type: ignore[misc]
    """Predict numbers with a network that settles; settings as in `EqPropClassifier`.

    It is convolutional, or layered even with one layer. The outputs are tanh units inside the
    energy, whatever the `activation` of the hidden ones. Targets are scaled so that those of the
    training set (of the first batch, with `partial_fit`) fill 80 % of their range; a prediction is
    therefore at most 1.25 times as far from the middle as the farthest of them.
    """

    @_all_or_nothing
    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Train a new network, or with `warm_start` the one there is, whose scale it keeps."""
        goes_on = self._goes_on()
        dtype = self.backend_.dtype if goes_on else (np.float64, np.float32)
        x, targets, weights = self._checked(X, y, sample_weight, dtype, not goes_on)
        if goes_on:
            self._begin(self._outputs_of(targets), x.dtype)
        else:
            self._begin_scaled(targets)
        self._train((x, self._scaled(targets), weights))
        return self

    @_all_or_nothing
    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Pass once over some data; the first call fixes the scale of the targets."""
        self._refuse_partial()
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
    ) -> Samples:
        x, targets = self._validated(
            X, y, dtype=dtype, reset=reset, multi_output=True, y_numeric=True
        )
        weights = _check_sample_weight(sample_weight, x, ensure_non_negative=True, dtype=x.dtype)
        if reset:
            self._flat = targets.ndim == 1
        return _counting(x, targets.reshape(len(x), -1).astype(x.dtype), weights)

    def _outputs_of(self, targets: FloatArray) -> int:
        """Return how many targets a sample has, which are those of the first fit."""
        if targets.shape[1] != len(self._middle):
            raise EngineError(
                f"y has {targets.shape[1]} targets a sample, but the estimator was fitted to "
                f"{len(self._middle)}."
            )
        return len(self._middle)

    def _begin_scaled(self, targets: FloatArray) -> None:
        low, high = targets.min(axis=0), targets.max(axis=0)
        self._middle = low / 2 + high / 2
        self._half_range = np.where(high > low, high / 2 - low / 2, 1.0).astype(targets.dtype)
        self._begin(targets.shape[1], targets.dtype)

    def _scaled(self, targets: FloatArray) -> FloatArray:
        scaled: FloatArray = (targets - self._middle) / self._half_range * REACH
        return scaled

    def _network(self, outputs: int) -> Network:
        image, bends = self._seen(), self._bends()
        if image is not None:
            return conv_regression(image, self._channels(), outputs, bends)
        sizes = (self.n_features_in_, *self._sizes(), outputs)
        network = layered(sizes, bends, readout="squared_error")
        *hidden, top = network.layers
        return replace(network, layers=(*hidden, replace(top, activation="tanh")))

    def _score_of(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return the share of the variance that is explained."""
        found = self._predictor.predict_outputs(x, self._settled())
        return float(r2_score(y, found, sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _class_labels(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    return labels


def _counting(x: FloatArray, y: FloatArray, weights: FloatArray) -> Samples:
    """Return the samples that count, so that a weight of zero is a sample left out."""
    kept = weights > 0.0
    if not kept.any():
        raise EngineError("every sample_weight is zero: there is nothing to learn from.")
    return x[kept], y[kept], weights[kept]
