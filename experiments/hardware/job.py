"""Train one learner on one substrate with one seed, count everything, and measure it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from engine.arrays import FloatArray, IntArray
from engine.errors import EngineError, NudgeWarning, check_count
from engine.learning.predict import evaluate
from engine.learning.run import Epoch
from engine.learning.training import fit, train_step
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.hardware.settings import CONV, DEEP, LOOPED, Settings
from experiments.tasks import Task
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.messages import check_activations
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts, WordCount, optimizer_counts
from hw_sim.rivals.backprop import Rival, feedforward

TEST_STEPS = 60
"""Most steps of a relaxation when a trained network is tested."""


@dataclass(frozen=True)
class Job:
    """One training to do; `label` tells the points of a sweep apart."""

    task: Task
    learner: str
    substrate: str
    seed: int
    settings: Settings
    label: str = ""
    network: str = LOOPED


@dataclass(frozen=True)
class Point:
    """After one epoch: accuracy on the validation part, and all counts since the start."""

    epoch: int
    accuracy: float
    unsettled: float
    free_steps: float
    nudged_steps: float
    most_writes: int
    counts: list[list[Any]]


@dataclass(frozen=True)
class Outcome:
    """What a run measured; accuracies are fractions of held-out parts."""

    learner: str
    substrate: str
    label: str
    seed: int
    accuracy: float
    """On the test part, after the last epoch."""
    n_test: int
    curve: tuple[Point, ...]
    inference: list[list[Any]]
    """Counts of all inferences of the test part."""
    memory: WordCount
    settings: dict[str, Any]
    saturations: dict[str, int]

    def counts_at(self, epoch: int) -> OpCounts:
        """Return everything that training did up to the end of an epoch."""
        return OpCounts.from_rows(tuple(row) for row in self.curve[epoch - 1].counts)

    def first_epoch(self, target: float) -> int | None:
        """Return the first epoch after which the validation accuracy reached the target."""
        return next((p.epoch for p in self.curve if p.accuracy >= target), None)

    def steps_until(self, epoch: int) -> float:
        """Return the mean steps of a sample, of the free and both nudged phases together."""
        return float(np.mean([p.free_steps + 2 * p.nudged_steps for p in self.curve[:epoch]]))


def network_of(job: Job) -> Network:
    """Return the network that a job trains, or refuse a task or units that it cannot have."""
    settings = job.settings
    network = BUILDERS[job.network](job.task, settings)
    if job.learner == "backprop":
        return feedforward(network, settings.backprop_activation)
    if job.learner == "eqprop":
        check_activations(network)
    return network


def _looped(task: Task, settings: Settings) -> Network:
    return looped_mlp(task.inputs, settings.hidden, task.classes, settings.activation)


def _deep(task: Task, settings: Settings) -> Network:
    check_count("layers", settings.layers)
    sizes = task.inputs, *[settings.hidden] * settings.layers, task.classes
    return layered(sizes, settings.activation)


def _conv(task: Task, settings: Settings) -> Network:
    """Build two layers of pixels with strides of two: links, as chips have them."""
    if task.image is None:
        raise EngineError(f"--network {CONV} needs images, but task '{task.name}' has none.")
    channels = settings.channels, 2 * settings.channels
    return conv_net(task.image, channels, task.classes, activation=settings.activation)


BUILDERS: dict[str, Callable[[Task, Settings], Network]] = {
    LOOPED: _looped, DEEP: _deep, CONV: _conv,
}  # fmt: skip


def run_job(job: Job) -> Outcome:
    """Train on the training part, watch the validation part, measure on the test part."""
    settings = job.settings.chosen(job.learner, job.substrate, job.network)
    network = network_of(job)
    split = job.task.load(job.seed)
    chip = make_substrate(job.substrate, network, settings, job.seed)
    rival = make_rival(job.learner, settings)
    training, curve = settings.training(job.seed), []
    if job.learner == "backprop":
        training = replace(training, cap=None)
    updates = -(-len(split.x_train) // settings.batch_size)

    def on_epoch(epoch: Epoch) -> None:
        kept = chip.counts.copy()
        accuracy = _accuracy(chip, rival, split.x_valid, split.y_valid, settings)
        chip.counts = kept  # watching is no part of training
        done = kept + optimizer_counts(
            network, training.optimizer, updates * epoch.number, settings.local_optimizer
        )
        steps = epoch.unsettled, epoch.free_steps, epoch.nudged_steps
        curve.append(Point(epoch.number, accuracy, *steps, chip.most_writes, done.rows()))

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)  # what a large beta does is measured
        step = rival or train_step
        fit(chip, split.x_train, split.y_train, training, on_epoch=on_epoch, step=step)
        before = chip.counts.copy()
        accuracy = _accuracy(chip, rival, split.x_test, split.y_test, settings)
    moments = training.optimizer.moments
    memory = rival.words(chip, moments) if rival else chip.footprint.count(network, moments)
    return Outcome(
        job.learner, job.substrate, job.label, job.seed, accuracy, len(split.y_test),
        tuple(curve), (chip.counts - before).rows(), memory, settings.values(), chip.saturated,
    )  # fmt: skip


def make_substrate(name: str, network: Network, settings: Settings, seed: int) -> Substrate:
    """Return a substrate with random weights; its devices and its rounding depend on the seed."""
    params = initial_params(network, np.random.default_rng(seed))
    return CHIPS[name].build(network, params, settings.chips[name].with_seed(seed))


def make_rival(learner: str, settings: Settings) -> Rival | None:
    """Return the rule that trains in place of EqProp, if it is another."""
    steps = {"eqprop": None, "backprop": 0, "bptt": settings.bptt_steps}[learner]
    return None if steps is None else Rival(steps)


def _accuracy(
    chip: Substrate, rival: Rival | None, x: FloatArray, y: IntArray, settings: Settings
) -> float:
    """Return the share of right answers, of the network as its learner runs it."""
    if rival:
        return float((rival.predict(chip, x).argmax(1) == y).mean())
    settled = replace(settings.free, max_steps=TEST_STEPS)
    return evaluate(chip, x, y, settled).accuracy or 0.0
