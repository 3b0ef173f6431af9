"""Part 6: what a trained network takes to answer, one sample or many, with one thread.

CPU time: of one sample, whose answer takes less than what a busy machine disturbs, the smallest of
many calls; ratios are those of calls in turn.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from adapters.sklearn_estimator import EqPropClassifier
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.learning.predict import Predictor, evaluate
from experiments.benchmark.epochs import SEED, EpochContest
from experiments.benchmark.timing import Contestant, Spread, fixed_threads, spread
from experiments.tasks import Split

BATCHES = (1, 1000, 10_000)
SAMPLES, PASSES = 10_000, 3
"""What both estimators are trained with, at most."""
ROUNDS, ROUND_SECONDS = 15, 0.03

SERVED = "Predictor, outputs"
PRODUCTS = "its bare products"
CLASSES = "EqPropClassifier.predict"
SHARES = "EqPropClassifier.predict_proba"
RIVALS = {
    SERVED: PRODUCTS,
    CLASSES: "MLPClassifier.predict",
    SHARES: "MLPClassifier.predict_proba",
}


@dataclass(frozen=True)
class PredictionTime:
    """CPU seconds of a call with `batch` samples, the least of all, and over those of a rival."""

    what: str
    rival: str
    batch: int
    seconds: float
    rival_seconds: float
    ratio: Spread
    steps: float
    """Mean number of steps of a sample at the tolerance of predictions."""


def measure_prediction(
    contest: EpochContest, split: Split, on_note: Callable[[str], None], rounds: int = ROUNDS
) -> list[PredictionTime]:
    """Train a looped network and a multi-layer perceptron of one size, and let both answer."""
    on_note("prediction: training both")
    x, y = split.x_train[:SAMPLES], split.y_train[:SAMPLES]
    given: dict[str, Any] = {"max_iter": PASSES, "random_state": SEED}
    with fixed_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # neither has to be done
        ours = EqPropClassifier(contest.hidden, **given).fit(x, y)
        theirs = MLPClassifier((contest.hidden,), **given).fit(x, y)
        steps = evaluate(ours.backend_, x, y).steps
        found: list[PredictionTime] = []
        for batch in BATCHES:
            on_note(f"prediction: {batch} samples")
            rows = np.resize(x, (batch, x.shape[1]))
            calls = _contestants(ours, theirs, rows, round(steps))
            found += _in_turns(calls, batch, steps, rounds)
    return found


def _contestants(
    ours: EqPropClassifier, theirs: MLPClassifier, x: FloatArray, steps: int
) -> dict[str, Contestant]:
    predictor = Predictor(ours.backend_)
    return {
        SERVED: lambda: predictor.predict_outputs(x),
        PRODUCTS: lambda: bare_products(ours.backend_, x, steps),
        CLASSES: lambda: ours.predict(x),
        RIVALS[CLASSES]: lambda: theirs.predict(x),
        SHARES: lambda: ours.predict_proba(x),
        RIVALS[SHARES]: lambda: theirs.predict_proba(x),
    }


def bare_products(backend: NumbaBackend, x: FloatArray, steps: int) -> FloatArray:
    """Multiply as a prediction of that many steps does, and nothing else."""
    params = backend.params
    state = x @ params["W_in"]
    for _ in range(steps):
        state = state @ params["W_rec"]
    outputs: FloatArray = state @ params["W_out"]
    return outputs


def _in_turns(
    calls: Mapping[str, Contestant], batch: int, steps: float, rounds: int
) -> list[PredictionTime]:
    """Time all in every round, each for about as long."""
    often = {name: max(1, int(ROUND_SECONDS / cpu_seconds(run, 2))) for name, run in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, run in calls.items():
            taken[name].append(cpu_seconds(run, often[name]))
    return [
        PredictionTime(
            name,
            rival,
            batch,
            min(taken[name]),
            min(taken[rival]),
            spread(np.array(taken[name]) / np.array(taken[rival])),
            steps,
        )
        for name, rival in RIVALS.items()
    ]


def cpu_seconds(run: Contestant, calls: int) -> float:
    """Return the CPU seconds of one of some calls."""
    began = time.process_time()
    for _ in range(calls):
        run()
    return max(1e-9, (time.process_time() - began) / calls)
