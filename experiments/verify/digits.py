"""Networks trained on digits as in the parity experiment, for tracks that look at one closely."""

from dataclasses import replace

import numpy as np

from engine.compiled.backend import NumbaBackend
from engine.learning.spectral import SpectralCap
from engine.learning.training import Step, Training, fit, train_step
from engine.model.params import initial_params
from experiments.parity.contestants import ParityJob
from experiments.parity.settings import settings_for
from experiments.tasks import Split, find_task

CAP = 0.95
FIRST_SEED = 42
EXACT_CAP = SpectralCap(CAP)
"""Projected after every update."""


def seeds(count: int) -> range:
    """Return the seeds of a track; a seed sets the split, the weights and the batches."""
    return range(FIRST_SEED, FIRST_SEED + count)


def digits_job(seed: int, epochs: int) -> ParityJob:
    """Return the looped EqProp network of the parity experiment, with another length."""
    settings = replace(settings_for("digits", "eqprop_looped"), epochs=epochs)
    return ParityJob(find_task("digits"), "eqprop_looped", seed, settings)


def train_on_digits(
    seed: int, epochs: int, cap: SpectralCap | None = EXACT_CAP, step: Step = train_step
) -> tuple[NumbaBackend, Split, Training]:
    """Train on training and validation together; return backend, split and settings."""
    job = digits_job(seed, epochs)
    split, training = job.task.load(seed).joined(), replace(job.training, cap=cap)
    backend = NumbaBackend(job.network, initial_params(job.network, np.random.default_rng(seed)))
    fit(backend, split.x_train, split.y_train, training, step=step)
    return backend, split, training
