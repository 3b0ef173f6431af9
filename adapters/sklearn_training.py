"""How the scikit-learn estimators learn: passes over the data, and when they end."""

import warnings
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adapters.sklearn_settings import EqPropSettings, whole
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.link import ONE
from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count, shown
from engine.learning.estimator import estimate
from engine.learning.predict import Predictor
from engine.learning.run import Run
from engine.learning.training import descend
from engine.model.network import Network
from engine.model.params import Params, initial_params

AUTO_BATCH = 200

Samples = tuple[FloatArray, FloatArray, FloatArray]
"""Inputs, targets and weights, a row for each sample."""


class EqPropBase(EqPropSettings):
    """What both estimators do with their settings."""

    def _network(self, outputs: int) -> Network:
        raise NotImplementedError

    def _score_of(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Return how well held-out samples are predicted; more is better."""
        raise NotImplementedError

    def _goes_on(self) -> bool:
        """Tell whether `fit` starts from what was learned."""
        return bool(self.warm_start) and hasattr(self, "backend_")

    def _begin(self, outputs: int, dtype: npt.DTypeLike) -> None:
        """Draw a new network and forget what was learned before, or go on from it."""
        training, network = self._training(), self._network(outputs)
        if self._goes_on():
            if network != self.backend_.network:
                raise EngineError(
                    "warm_start goes on with the network that was fitted, but the settings now "
                    "describe another one."
                )
            return
        seed = check_random_state(self.random_state).randint(2**31)
        run = Run.start(network, training.optimizer.moments, dtype, seed)
        params = initial_params(network, np.random.default_rng(seed), dtype)
        if training.spectral_cap is not None:
            training.spectral_cap.enforce(network, params, 0, run.vectors)
        self.backend_ = NumbaBackend(network, params)
        self._predictor = Predictor(self.backend_)
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self._cost, self._run = 1.0, run

    def _check_passes(self) -> None:
        """Refuse settings of the passes that make no sense."""
        for name in ("max_iter", "n_iter_no_change"):
            check_count(name, whole(getattr(self, name)))
        for name in ("alpha", "learning_rate", "tol", "validation_fraction"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise EngineError(f"{name} is {shown(value)}, expected a number.")
        if not (np.isfinite(self.alpha) and self.alpha >= 0.0):
            raise EngineError(f"alpha is {self.alpha}, expected zero or more.")
        if self.early_stopping and not 0.0 < self.validation_fraction < 1.0:
            raise EngineError(
                f"validation_fraction is {self.validation_fraction}, expected more than 0 and "
                "less than 1."
            )

    def _train(self, samples: Samples, strata: npt.NDArray[Any] | None = None) -> None:
        """Pass over the data until the loss, or the score on samples held out, gains no more.

        With `early_stopping` the parameters of the best score are those that stay; samples are
        held out of each of the `strata` alike.
        """
        self._check_passes()
        held_out: Samples | None = None
        if self.early_stopping:
            samples, held_out = self._held_out(samples, strata)
            self.validation_scores_: list[float] = []
        stale, best, kept = 0, -np.inf, None
        for _ in range(self.max_iter):
            gain = -self._pass_over(*samples)
            if held_out is not None:
                gain = self._score_of(*held_out)
                self.validation_scores_.append(gain)
            self._tell()
            stale = 0 if gain > best + self.tol else stale + 1
            if held_out is not None and gain > best:
                kept = self.backend_.params.copy()
            best = max(best, gain)
            if stale >= self.n_iter_no_change:
                break
        else:
            self._warn_unfinished()
        if held_out is not None:
            self.best_validation_score_ = best
            self._keep(kept)

    def _held_out(
        self, samples: Samples, strata: npt.NDArray[Any] | None
    ) -> tuple[Samples, Samples]:
        """Part the samples in those to learn from and those to judge by."""
        seed = check_random_state(self.random_state).randint(2**31)
        try:
            parts = train_test_split(
                *samples, test_size=self.validation_fraction, random_state=seed, stratify=strata
            )
        except ValueError as error:
            raise EngineError(
                f"early_stopping cannot hold out {self.validation_fraction:g} of {len(samples[0])} "
                f"samples: {error}"
            ) from error
        if not is_classifier(self) and len(parts[1]) < 2:
            raise EngineError(
                f"early_stopping would hold out {len(parts[1])} of {len(samples[0])} samples, "
                "but a score needs two: raise validation_fraction."
            )
        return (parts[0], parts[2], parts[4]), (parts[1], parts[3], parts[5])

    def _keep(self, best: Params | None) -> None:
        """Take the parameters of the best pass."""
        if best is not None:
            self.backend_.load(best)

    def _tell(self) -> None:
        if self.verbose:
            line = f"pass {self.n_iter_}: loss {self.loss_curve_[-1]:.6f}"
            if self.early_stopping:
                line += f", validation score {self.validation_scores_[-1]:.4f}"
            print(line, flush=True)

    def _warn_unfinished(self) -> None:
        what = "validation score still rose" if self.early_stopping else "loss still fell"
        warnings.warn(
            f"the {what} after {self.max_iter} passes; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def _pass_over(self, x: FloatArray, y: FloatArray, weights: FloatArray) -> float:
        """Train once on every sample; return the mean loss met on the way.

        The loss is the cost and, for each sample of a batch, its share of `alpha / 2 |W|^2`. A
        batch counts as much as its weights say, so that the expected update is that of the
        weighted mean. When one batch holds all samples, a weight of two is the sample twice.
        """
        training, run, size = self._training(), self._run, self._batch_size(len(x))
        order = run.rng.permutation(len(x)) if size < len(x) else np.arange(len(x))
        cost = penalty = 0.0
        for first in range(0, len(x), size):
            rows = order[first : first + size]
            share = float(weights[rows].sum() / weights.sum())
            clamped = self.backend_.clamp(x[rows], y[rows], weights[rows])
            phases, ways = training.phases(self.backend_), self._ways(training)
            report = estimate(self.backend_, clamped, phases, run.gradient, *ways)
            run.gradient *= share * len(x) / len(rows)
            penalty += share * self._add_penalty(len(x) / (weights.sum() * len(rows)))
            descend(self.backend_, training, run, total=1)
            cost += share * report.cost
        self.n_iter_ += 1
        self._cost = cost
        self.loss_curve_.append(cost + penalty)
        return cost + penalty

    def _add_penalty(self, share: float) -> float:
        """Add the slope of `share alpha / 2 |W|^2` to the gradient and return it; not of biases."""
        if self.alpha == 0.0:
            return 0.0
        network, total = self.backend_.network, 0.0
        gradient = Params(network, self._run.gradient)
        for name, block in self.backend_.params.items():
            if name not in _biases(network):
                gradient[name][...] += block.dtype.type(share * self.alpha) * block
                total += float(np.vdot(block, block))
        return share * self.alpha / 2 * total

    def _batch_size(self, samples: int) -> int:
        if self.batch_size == "auto":
            return min(AUTO_BATCH, samples)
        if isinstance(self.batch_size, str):
            raise EngineError(f"batch_size is '{self.batch_size}', expected a number or 'auto'.")
        check_count("batch_size", whole(self.batch_size))
        return min(int(self.batch_size), samples)

    def _refuse_partial(self) -> None:
        if self.early_stopping:
            raise EngineError("partial_fit passes once over its data, without early_stopping.")
        self._check_passes()

    def _asked(self, X: npt.ArrayLike) -> tuple[FloatArray, Relaxation]:
        """Return the rows to predict, and how they are to settle."""
        check_is_fitted(self)
        return self._validated(X, dtype=self.backend_.dtype, reset=False), self._settled()

    def _settled(self) -> Relaxation:
        """Return how a state that is only read is looked for."""
        way, steps = self._way(self.free_steps), whole(self.free_steps)
        return Relaxation(steps) if isinstance(way, str) else way

    def _outputs(self, X: npt.ArrayLike) -> FloatArray:
        rows, settled = self._asked(X)
        return self._predictor.predict_outputs(rows, settled)


def _biases(network: Network) -> set[str]:
    """Name the blocks that are no weights."""
    names = {link.block for link in network.links.values() if link.source == ONE}
    return names if network.reading is None else names | {network.reading.bias}
