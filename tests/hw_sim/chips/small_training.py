"""A training that takes a moment, to see whether a substrate still learns."""

from collections.abc import Callable

import numpy as np

from engine import SGD, Training, evaluate, fit
from engine.backend import Backend
from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params

NETWORK = looped_mlp(6, 10, 3)
TRAINING = Training(
    epochs=8, batch_size=16, beta=0.1, optimizer=SGD(0.3, 0.8), cap=None, schedule="constant",
    free=Relaxation(12, 1e-4), nudged=Relaxation(8, 1e-4, displaced=False),
)  # fmt: skip
LEARNED = 0.5 * np.log(3)
"""A cost well below that of guessing."""


def three_classes() -> tuple[np.ndarray, np.ndarray]:
    """The largest of three directions."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((240, 6))
    return x, (x @ rng.standard_normal((6, 3))).argmax(1)


def first_params() -> Params:
    return initial_params(NETWORK, np.random.default_rng(0), np.float64)


def held_out_cost(make: Callable[[Network, Params], Backend]) -> float:
    """Cost on held-out samples after training on the substrate."""
    x, y = three_classes()
    backend = make(NETWORK, first_params())
    fit(backend, x[:160], y[:160], TRAINING)
    return evaluate(backend, x[160:], y[160:], Relaxation(30, 1e-4)).cost
