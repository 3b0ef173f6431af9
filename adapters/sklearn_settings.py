"""The settings of the scikit-learn estimators, and what they mean in the engine's words."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from adapters.sklearn_images import as_rows, image_shape_of
from engine.compiled.backend import NumbaBackend
from engine.couplings.window import Image
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.estimator import Recipe
from engine.learning.optimizer import Adam
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training

AUTO_HIDDEN = 64


class EqPropSettings(BaseEstimator):  # type: ignore[misc]
    """What both estimators are told, as the constructor stores it."""

    image_shape_: Image | None
    """Height, width and channels of the images it was fitted to; `None` for other rows."""
    backend_: NumbaBackend
    _cost: float
    """The mean cost of a sample in the last pass."""

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] | str = "auto",
        activation: str = "auto",
        *,
        image_shape: Sequence[int] | None = None,
        channels: Sequence[int] = (16, 32),
        alpha: float = 1e-4,
        learning_rate: float = 0.01,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        verbose: bool = False,
        beta: float | str = "auto",
        estimator: Recipe = "auto",
        cap: float = 0.95,
        free_steps: int = 30,
        nudged_steps: int = 15,
        tolerance: float | str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.image_shape = image_shape
        self.channels = channels
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.verbose = verbose
        self.beta = beta
        self.estimator = estimator
        self.cap = cap
        self.free_steps = free_steps
        self.nudged_steps = nudged_steps
        self.tolerance = tolerance
        self.random_state = random_state

    def _sizes(self) -> list[int]:
        named = isinstance(self.hidden_layer_sizes, str)
        return [
            whole(n) for n in np.ravel(AUTO_HIDDEN if named else self.hidden_layer_sizes).tolist()
        ]

    def _seen(self) -> Image | None:
        """Return the shape of what a convolutional network sees; `None` for another network."""
        return self.image_shape_ if isinstance(self.hidden_layer_sizes, str) else None

    def _channels(self) -> list[int]:
        return [whole(count) for count in np.ravel(self.channels)]

    def _bends(self) -> str:
        """Return the activation of hidden units."""
        if self.activation == "auto":
            return "tanh" if self._seen() is None else "relu"
        return self.activation

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
        return Relaxation(whole(steps), self.tolerance)

    def _ways(self, training: Training) -> tuple[Relaxation, Relaxation]:
        """Return how long each phase of a step may take, from the cost of the last pass."""
        free, nudged = training.relaxations(self.backend_, self._cost)
        return (
            replace(free, max_steps=whole(self.free_steps)),
            replace(nudged, max_steps=whole(self.nudged_steps)),
        )


def whole(value: Any) -> Any:
    """Return a whole number of any library as Python's; another value as it is."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
