"""Convolutional networks trained on digits as images, for tracks that look at one closely."""

from dataclasses import replace

from engine.compiled.backend import NumbaBackend
from engine.learning.predict import evaluate
from engine.learning.scale import relative_rates
from engine.learning.spectral import SpectralCap
from engine.learning.training import Step, fit, train_step
from experiments.tasks import find_task
from experiments.vision.contestants import CALIBRATED_ON, TEST_STEPS, start_params
from experiments.vision.roster import EQPROP
from experiments.vision.settings import settings_for

TASK = "digits"
CAP = settings_for(TASK, EQPROP).cap
OPERATOR_CAP = SpectralCap(CAP)
"""After every update, with the iterations that the engine takes when it is not told."""


def train_on_images(
    seed: int,
    layers: str,
    epochs: int,
    *,
    cap: SpectralCap | None = OPERATOR_CAP,
    haste: float = 1.0,
    readout_only: bool = False,
    displaced: bool | None = None,
    step: Step = train_step,
) -> float:
    """Train on training and validation together; return the accuracy on the test part.

    Start, scale and rates are those of the vision experiment, and `layers` are written as there;
    `haste` multiplies all rates.
    """
    task = find_task(TASK)
    settings = settings_for(TASK, EQPROP)
    settings = replace(settings, layers=layers, epochs=epochs, lr=haste * settings.lr)
    network, split = settings.network(task), task.load(seed).joined()
    seen = split.x_train[:CALIBRATED_ON]
    params = start_params(network, seen, settings.cap, seed)
    training, backend = settings.training(network, seed), NumbaBackend(network, params)
    _, nudged = training.relaxations(backend)
    training = replace(
        training,
        cap=cap,
        rates=relative_rates(params, seen),
        nudged=replace(nudged, displaced=displaced),
        frozen=tuple(c.name for c in network.couplings) if readout_only else (),
    )
    fit(backend, split.x_train, split.y_train, training, step=step)
    settled = replace(training.settled, max_steps=TEST_STEPS)
    return evaluate(backend, split.x_test, split.y_test, settled).accuracy or 0.0
