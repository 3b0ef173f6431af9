"""Train a network that no chip runs on the compiled engine, and count its measured steps.

Steps are evaluations of `T` that the engine took; the events of each are those of digital logic,
by the closed formula of `hw_sim.formula`.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import NudgeWarning
from engine.learning.predict import targets_of
from engine.learning.run import Epoch
from engine.learning.training import Training, fit
from engine.model.network import Network
from experiments.hardware.curve import Point
from experiments.hardware.job import AsLoaded, Job, Outcome, network_of, run_job
from experiments.hardware.settings import Settings
from experiments.transformer.parts import decay_rates
from experiments.transformer.settings import TransformerSettings
from hw_sim.chips.substrate import NEURON_WORDS
from hw_sim.counts import Footprint, OpCounts, optimizer_counts
from hw_sim.formula import dense_counts, inference_counts, update_counts
from hw_sim.places import BORDER

DAMPING = 0.5
"""Attention overshoots without it."""
NUDGES = 2
TESTED = 500
"""Samples that are tested at once."""


def run_any(job: Job) -> Outcome:
    """Run a job on its chip, or on the compiled engine where no chip runs the network."""
    return run_measured(job) if job.own is not None and job.own.refused else run_job(job)


def run_measured(job: Job) -> Outcome:
    """Train on the training part, watch the validation part, measure on the test part."""
    assert job.own is not None, "only the user's own networks are no chip's"
    network, settings = network_of(job), job.settings.chosen(job.learner, job.substrate)
    split, training = job.task.load(job.seed), training_of(network, settings, job.seed)
    backend = NumbaBackend(network, job.own.start(job.seed))
    samples, done, curve = len(split.x_train), OpCounts(), []

    def on_epoch(epoch: Epoch) -> None:
        nonlocal done
        done = done + _epoch_counts(network, training, epoch, samples, settings.local_optimizer)
        accuracy, _ = _test(backend, split.x_valid, split.y_valid, settings)
        steps = epoch.unsettled, epoch.free_steps, epoch.nudged_steps
        update = epoch.number * -(-samples // training.batch_size)
        curve.append(Point(update, epoch.number, accuracy, *steps, 0, done.rows()))

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)
        loaded = None
        if job.own.saved is not None:
            loaded = AsLoaded(None, _test(backend, split.x_test, split.y_test, settings)[0])
        fit(backend, split.x_train, split.y_train, training, on_epoch=on_epoch)
        accuracy, steps = _test(backend, split.x_test, split.y_test, settings)
    tests = len(split.x_test)
    once = inference_counts(network, tests, steps)
    once.add("input", BORDER, "off_chip", tests * network.inputs)
    once.add("readout", BORDER, "off_chip", tests * network.outputs)
    held = Footprint(NEURON_WORDS, ("weight", "gradient"))
    memory = held.count(network, training.optimizer.moments)
    return Outcome(
        job.learner, job.substrate, job.label, job.seed, accuracy, tests, len(split.y_valid),
        samples, tuple(curve), once.rows(), memory, settings.values(), {}, [], loaded,
    )  # fmt: skip


def training_of(network: Network, settings: Settings, seed: int) -> Training:
    """Return the settings as the engine takes them: damped, with two nudges of finite size.

    Queries and keys decay as in `experiments.transformer`, without which attention does not learn.
    """
    damped = replace(settings.free, damping=DAMPING)
    nudged = replace(damped, max_steps=settings.nudged_steps, displaced=False)
    return replace(
        settings.training(seed), free=damped, nudged=nudged, estimator="centered", cap=None,
        decay=decay_rates(network, TransformerSettings.decay),
    )  # fmt: skip


def _epoch_counts(
    network: Network, training: Training, epoch: Epoch, samples: int, local: bool
) -> OpCounts:
    """Return what one epoch did: measured evaluations, updates, and words across the border."""
    updates = -(-samples // training.batch_size)
    free = round(samples * epoch.free_steps)
    nudged = round(samples * NUDGES * epoch.nudged_steps)
    counts = dense_counts(network, samples, free, nudged, NUDGES)
    counts.add("input", BORDER, "off_chip", samples * network.inputs)
    counts.add("nudged", BORDER, "off_chip", NUDGES * samples * network.outputs)
    counts += update_counts(network, updates)
    return counts + optimizer_counts(network, training.optimizer, updates, local)


def _test(
    backend: NumbaBackend, x: FloatArray, y: IntArray, settings: Settings
) -> tuple[float, int]:
    """Return the share of right answers, at each position, and the evaluations of all samples."""
    network = backend.network
    goal, steps, right = targets_of(network, y, backend.dtype), 0, 0.0
    relaxation = Relaxation(settings.free_steps, settings.tolerance, damping=DAMPING)
    answer = _answers(network)
    for first in range(0, len(x), TESTED):
        rows = slice(first, first + TESTED)
        settled = backend.settle(backend.clamp(x[rows]), relaxation=relaxation)
        steps += int(settled.steps.sum())
        right += float((answer(backend.predict(settled)) == answer(goal[rows])).mean(1).sum())
    return right / len(x), steps


def _answers(network: Network) -> Callable[[FloatArray], IntArray]:
    positions = network.reading.positions if network.reading else 1
    return lambda rows: np.asarray(rows).reshape(len(rows), positions, -1).argmax(-1)
