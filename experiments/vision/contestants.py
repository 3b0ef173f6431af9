"""The contestants of the vision experiment: train one on one task with one seed, and measure it."""

import time
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from engine.arrays import Array, FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.errors import NudgeWarning
from engine.learning.estimator import Report
from engine.learning.predict import predict_proba
from engine.learning.run import Epoch, Run
from engine.learning.scale import calibrated, relative_rates
from engine.learning.training import Step, Training, fit, train_step
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.contest.baselines import settled_bptt_step
from experiments.contest.data_facts import DATA, data_facts
from experiments.contest.devices import make_backend, torch_device
from experiments.contest.jobs import Watch
from experiments.contest.metrics import mean_cost, score
from experiments.contest.weights import Weights, save_weights
from experiments.records import EpochPoint, Record
from experiments.tasks import Split, Task
from experiments.vision.augment import Views
from experiments.vision.gradient import Truth, judge_gradient
from experiments.vision.networks import FeedForwardImages, conv_stack, filters_of, kernels_of
from experiments.vision.roster import BACKPROP, EQPROP
from experiments.vision.settings import VisionSettings

COSINE_SAMPLES = 16
COSINE_EPOCHS = 3
"""At how many epochs the gradient is compared with autograd's."""
CALIBRATED_ON = 256
"""Training images that set the scale of the starting parameters."""
TEST_STEPS = 100
"""Most steps of a relaxation when a trained network is tested."""
CURVE_IMAGES = 2_000
"""Test images, the first ones, that the epochs are measured on: that is only drawn."""
DIGITS_KEPT = 4
"""Of a weight that is only drawn."""


@dataclass(frozen=True)
class VisionJob:
    """One training to do; with `final` false it is for tuning."""

    task: Task
    contestant: str
    seed: int
    settings: VisionSettings
    final: bool = True
    label: str = ""
    weights: Path | None = None
    """Where to keep the network, if it is kept."""

    @property
    def key(self) -> str:
        """Name of the run, unique within an experiment."""
        return f"{self.task.name}-{self.contestant}-{self.seed}{self.label}"

    @property
    def network(self) -> Network:
        """The network that relaxes, or whose layers the feed-forward one has."""
        return self.settings.network(self.task)

    @property
    def training(self) -> Training:
        """The settings as the engine takes them."""
        return self.settings.training(self.network, self.seed)

    @property
    def views(self) -> Views:
        """Other views of its training images, the same for every contestant."""
        assert self.task.image is not None
        return Views(self.task.image, self.settings.views, self.seed)

    def check(self) -> None:
        """Refuse settings that no network or training can have."""
        _ = self.network, self.training, self.views

    def run(self, watch: Watch | None = None) -> Record:
        """Train and measure."""
        return run_job(self, watch)


@dataclass(frozen=True)
class TrainedImages:
    """A trained contestant: what it says of the test part, its size, its epochs and filters."""

    probabilities: FloatArray
    parameters: int
    curve: tuple[EpochPoint, ...]
    filters: FloatArray
    weights: Weights
    truths: dict[int, Truth] = field(default_factory=dict)


def run_job(job: VisionJob, watch: Watch | None = None) -> Record:
    """Train one contestant and measure it; `watch` is told of every epoch.

    A final run trains on training and validation together and is measured on the test part. A run
    for tuning is measured on the validation part, and the test part is not touched. One thread,
    whatever the machine has: the result does not depend on how many runs go at once.
    """
    began = time.perf_counter()
    parts = job.task.load(job.seed)
    tuned_on = replace(parts, x_test=parts.x_valid, y_test=parts.y_valid)
    split = _first_images(parts.joined() if job.final else tuned_on, job.settings.images)
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        # The report measures what a large beta does to the gradient, in place of a warning.
        warnings.simplefilter("ignore", NudgeWarning)
        train = _train_feedforward if job.contestant == BACKPROP else _train_network
        trained = train(job, split, watch or (lambda point: None))
    save_weights(job, trained.weights, split)
    p, y = trained.probabilities, split.y_test
    return Record(
        task=job.task.name,
        title=job.task.title,
        contestant=job.contestant,
        seed=job.seed,
        accuracy=score(p, y),
        cost=mean_cost(p, y),
        n_test=len(y),
        majority_rate=split.majority_rate,
        parameters=trained.parameters,
        settings=job.settings.as_dict(),
        curve=trained.curve,
        returns=None,
        seconds=time.perf_counter() - began,
        measures=_measures(job, parts, trained),
    )


def _first_images(split: Split, images: int) -> Split:
    """Return a split with so many training images, or all of them for 0."""
    last = images or len(split.x_train)
    return replace(split, x_train=split.x_train[:last], y_train=split.y_train[:last])


def start_params(network: Network, x: FloatArray, cap: float, seed: int) -> Params:
    """Draw parameters at the right scale for inputs such as `x`, under a cap."""
    return calibrated(initial_params(network, np.random.default_rng(seed)), x, cap)


def compile_kernels() -> None:
    """Compile what the runs will need, once, before several processes want it at the same time."""
    settings = VisionSettings(layers="1-1", epochs=1)
    side = settings.kernel
    network = conv_stack((side, side, 1), settings.layers, side, settings.activation, 2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    fit(backend, np.eye(2, network.inputs), [0, 1], settings.training(network, 0))


def _train_network(job: VisionJob, split: Split, watch: Watch) -> TrainedImages:
    network, training = job.network, job.training
    seen = split.x_train[:CALIBRATED_ON]
    params = start_params(network, seen, job.settings.cap, job.seed)
    training = replace(training, rates=relative_rates(params, seen))
    backend = make_backend(network, params, job.settings.device)
    settled = replace(training.settled, max_steps=TEST_STEPS)
    is_eqprop = job.contestant == EQPROP
    probe = split.x_train[:COSINE_SAMPLES], split.y_train[:COSINE_SAMPLES]
    probes = COSINE_EPOCHS if job.final and is_eqprop else 0
    probed = np.linspace(1, training.epochs, probes).round()
    curve: list[EpochPoint] = []
    truths: dict[int, Truth] = {}
    said: FloatArray = np.empty(0)

    def on_epoch(epoch: Epoch) -> None:
        nonlocal said
        if epoch.number in probed:
            truth = judge_gradient(backend, *probe, training)
            truths.update({epoch.number: truth} if truth else {})
        said = predict_proba(backend, _measured(split, epoch, training), settled)
        cosine = truths[epoch.number].whole if epoch.number in truths else None
        curve.append(_point(epoch, _drawn_accuracy(said, split), is_eqprop, cosine))
        watch(curve[-1])

    step: Step = train_step
    if not is_eqprop:
        step = partial(settled_bptt_step, steps=job.settings.bptt_steps)
    viewed = _viewed(step, job.views)
    fit(backend, split.x_train, split.y_train, training, on_epoch=on_epoch, step=viewed)
    first = kernels_of(network)[0]
    filters = filters_of(backend.params[first.name], first.kernel)
    return TrainedImages(said, network.size, tuple(curve), filters, backend.params, truths)


def _train_feedforward(job: VisionJob, split: Split, watch: Watch) -> TrainedImages:
    model = FeedForwardImages(job.network, job.seed, torch_device(job.settings.device))
    curve: list[EpochPoint] = []
    said: FloatArray = np.empty(0)

    def on_epoch(epoch: Epoch) -> None:
        nonlocal said
        said = model.outputs(_measured(split, epoch, job.training))
        curve.append(_point(epoch, _drawn_accuracy(said, split), False, None))
        watch(curve[-1])

    settings = job.settings
    model.fit(split.x_train, split.y_train, job.training, settings.decay, on_epoch, job.views)
    return TrainedImages(said, model.size, tuple(curve), model.filters, model.weights)


def _measured(split: Split, epoch: Epoch, training: Training) -> FloatArray:
    """Return the test images of an epoch: all of them after the last."""
    return split.x_test if epoch.number == training.epochs else split.x_test[:CURVE_IMAGES]


def _drawn_accuracy(said: FloatArray, split: Split) -> float:
    """Return the accuracy on the same few images for every epoch, so that a curve has no jump."""
    return score(said[:CURVE_IMAGES], split.y_test[:CURVE_IMAGES])


def _viewed(step: Step, views: Views) -> Step:
    """Return the step on other views of its images."""

    def viewed(
        backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int
    ) -> Report:
        return step(backend, views(x), y, training, run, total)

    return viewed


def _measures(job: VisionJob, parts: Split, trained: TrainedImages) -> dict[str, Any]:
    """Return what the report draws and says of the data: only of final runs."""
    if not job.final:
        return {}
    classes, y = job.task.classes, parts.y_test
    guesses = trained.probabilities.argmax(axis=1)
    confusion = np.bincount(classes * y + guesses, minlength=classes**2).reshape(classes, classes)
    return {
        DATA: data_facts(job.task, parts),
        "names": list(job.task.names or map(str, range(classes))),
        "confusion": confusion.tolist(),
        "filters": trained.filters.round(DIGITS_KEPT).tolist(),
        "layer_cosines": {str(n): list(truth.layers) for n, truth in trained.truths.items()},
    }


def _point(epoch: Epoch, accuracy: float, is_eqprop: bool, cosine: float | None) -> EpochPoint:
    point = EpochPoint(epoch.number, epoch.cost, accuracy, epoch.seconds)
    if not is_eqprop:
        return point
    return replace(
        point,
        free_steps=epoch.free_steps,
        nudged_steps=epoch.nudged_steps,
        unsettled=epoch.unsettled,
        cosine=cosine,
    )
