"""Train one learner on one substrate with one seed, count everything, and measure it."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from engine.compiled.backend import NumbaBackend
from engine.errors import EngineError, NudgeWarning, check_count
from engine.learning.predict import checked_data, evaluate
from engine.learning.training import fit
from engine.model.builders import conv_net, layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.hardware.curve import Point
from experiments.hardware.own_network import OwnNetwork
from experiments.hardware.settings import CONV, DEEP, LOOPED, Settings
from experiments.hardware.watch import TEST_STEPS, WatchedStep, accuracy_of
from experiments.tasks import Split, Task
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.messages import check_activations
from hw_sim.chips.settling import Settling, measure_settling
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts, WordCount
from hw_sim.rivals.backprop import Rival, feedforward

SETTLING_SAMPLES = 100
"""Of the validation part, with which the settling of analog states is integrated."""


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
    own: OwnNetwork | None = None
    """In place of a network that the command builds."""


@dataclass(frozen=True)
class AsLoaded:
    """Accuracies of a saved network on the test part, before it is trained further."""

    chip: float | None
    """In the words or cells of the chip; `None` where no chip runs it."""
    engine: float
    """In floating point, on the compiled engine."""


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
    n_valid: int
    n_train: int
    curve: tuple[Point, ...]
    inference: list[list[Any]]
    """Counts of all inferences of the test part."""
    memory: WordCount
    settings: dict[str, Any]
    saturations: dict[str, int]
    core_work: list[list[int]]
    """Of all inferences of the test part, of every core."""
    as_loaded: AsLoaded | None = None
    """Of a network that was saved; else none."""
    settling: Settling | None = None
    """Of the trained network, where states stay analog; else none."""

    def counts_at(self, epoch: int) -> OpCounts:
        """Return everything that training did up to the end of an epoch."""
        return next(point.done for point in self.curve if point.epoch == epoch)


def network_of(job: Job) -> Network:
    """Return the network that a job trains, or refuse a task or units that it cannot have."""
    if job.own is not None:
        return job.own.network
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
    chip = make_substrate(job.substrate, network, settings, job.seed, job.own)
    rival = make_rival(job.learner, settings)
    training = settings.training(job.seed)
    if job.learner == "backprop":
        training = replace(training, cap=None)
    watch = WatchedStep(chip, rival, split, settings, training)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)  # what a large beta does is measured
        loaded = _as_loaded(job, chip, split, settings)
        fit(chip, split.x_train, split.y_train, training, step=watch)
        before, idle = chip.counts.copy(), chip.core_work
        accuracy = accuracy_of(chip, rival, split.x_test, split.y_test, settings)
    moments = training.optimizer.moments
    memory = rival.words(chip, moments) if rival else chip.footprint.count(network, moments)
    return Outcome(
        job.learner, job.substrate, job.label, job.seed, accuracy, len(split.y_test),
        len(split.y_valid), len(split.y_train), tuple(watch.curve),
        (chip.counts - before).rows(), memory, settings.values(), chip.saturated,
        (chip.core_work - idle).tolist(), loaded,
        _settling(job, chip, split, settings),
    )  # fmt: skip


def _settling(job: Job, chip: Substrate, split: Split, settings: Settings) -> Settling | None:
    """Integrate how long the trained network takes, where no step is clocked."""
    if job.learner != "eqprop" or not settings.chips[job.substrate].stays_analog:
        return None
    x, y = checked_data(chip, split.x_valid[:SETTLING_SAMPLES], split.y_valid[:SETTLING_SAMPLES])
    return measure_settling(chip.params, x, y, settings.beta, settings.tolerance)


def _as_loaded(job: Job, chip: Substrate, split: Split, settings: Settings) -> AsLoaded | None:
    """Test a saved network on a copy of its chip, which counts nothing, and on the engine."""
    if job.own is None or job.own.saved is None:
        return None
    seen, tested = deepcopy(chip, {id(chip.network): chip.network}), (split.x_test, split.y_test)
    engine = NumbaBackend(chip.network, job.own.saved)
    exact = evaluate(engine, *tested, replace(settings.free, max_steps=TEST_STEPS))
    return AsLoaded(accuracy_of(seen, None, *tested, settings), exact.accuracy or 0.0)


def make_substrate(
    name: str, network: Network, settings: Settings, seed: int, own: OwnNetwork | None = None
) -> Substrate:
    """Return a substrate with random or saved weights; its devices and rounding have the seed."""
    params = own.start(seed) if own else initial_params(network, np.random.default_rng(seed))
    return CHIPS[name].build(network, params, settings.chips[name].with_seed(seed))


def make_rival(learner: str, settings: Settings) -> Rival | None:
    """Return the rule that trains in place of EqProp, if it is another."""
    steps = {"eqprop": None, "backprop": 0, "bptt": settings.bptt_steps}[learner]
    return None if steps is None else Rival(steps)
