"""Train one contender on one task with one seed, count everything, and measure it."""

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from engine.backend import Backend
from engine.compiled import NumbaBackend
from engine.errors import EngineError, NudgeWarning
from engine.network import Network, looped_mlp
from engine.params import initial_params
from engine.predict import evaluate
from engine.run import Epoch
from engine.train import fit, train_step
from experiments.hardware.settings import RIVALS, SUBSTRATES, Settings, settings_for
from experiments.tasks import Task
from hw_sim.backprop import Rival, feedforward
from hw_sim.counts import BORDER, OpCounts, optimizer_counts
from hw_sim.crossbar import CrossbarBackend
from hw_sim.digital import DigitalBackend
from hw_sim.spiking import SpikingBackend
from hw_sim.substrate import Substrate

TEST_STEPS = 60
"""Most steps of a relaxation when a trained network is tested."""


@dataclass(frozen=True)
class Job:
    """One training to do; `label` tells the points of a sweep apart."""

    task: Task
    contender: str
    seed: int
    settings: Settings
    label: str = ""


@dataclass(frozen=True)
class Point:
    """After one epoch: accuracy on the validation part, and all counts since the start."""

    epoch: int
    accuracy: float
    unsettled: float
    free_steps: float
    nudged_steps: float
    counts: list[list[Any]]


@dataclass(frozen=True)
class Outcome:
    """What a run measured; accuracies are fractions of held-out parts."""

    contender: str
    label: str
    seed: int
    accuracy: float
    """On the test part, after the last epoch."""
    valid_accuracy: float
    n_test: int
    curve: tuple[Point, ...]
    inference: list[list[Any]]
    """Counts of all inferences of the test part."""
    words: int
    size: int
    settings: dict[str, Any]
    saturations: dict[str, int]

    def counts_at(self, epoch: int) -> OpCounts:
        """Return everything that training did up to the end of an epoch."""
        return OpCounts.from_rows(tuple(row) for row in self.curve[epoch - 1].counts)

    def first_epoch(self, target: float) -> int | None:
        """Return the first epoch after which the validation accuracy reached the target."""
        return next((p.epoch for p in self.curve if p.accuracy >= target), None)


def network_of(job: Job) -> Network:
    """Return the network that a job trains."""
    sizes = job.task.inputs, job.settings.hidden, job.task.classes
    return feedforward(*sizes) if job.contender == "backprop" else looped_mlp(*sizes)


def run_job(job: Job) -> Outcome:
    """Train on the training part, watch the validation part, measure on the test part."""
    settings = settings_for(job.contender, job.settings)
    split, network = job.task.load(job.seed), network_of(job)
    backend, rival = make_backend(job.contender, network, settings, job.seed)
    source: Any = rival or backend
    training, curve = settings.training(job.seed), []
    if job.contender == "backprop":
        training = replace(training, cap=None)
    updates = -(-len(split.x_train) // settings.batch_size)
    settled = replace(training.free, max_steps=TEST_STEPS)

    def on_epoch(epoch: Epoch) -> None:
        kept = source.counts.copy()
        score = evaluate(backend, split.x_valid, split.y_valid, settled)
        source.counts = kept  # watching is no part of training
        done = kept + optimizer_counts(network, training.optimizer, updates * epoch.number)
        steps = epoch.unsettled, epoch.free_steps, epoch.nudged_steps
        curve.append(Point(epoch.number, score.accuracy or 0.0, *steps, done.rows()))

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", NudgeWarning)  # what a large beta does is measured
        step = rival or train_step
        fit(backend, split.x_train, split.y_train, training, on_epoch=on_epoch, step=step)
        before = source.counts.copy()
        score = evaluate(backend, split.x_test, split.y_test, settled)
    inference = source.counts - before
    if rival:
        inference = forward_counts(rival, split.x_test.shape)
    moments = training.optimizer.moments
    words = rival.words(network, moments) if rival else _words(backend, moments)
    hit = asdict(backend.saturations) if isinstance(backend, DigitalBackend) else {}
    return Outcome(
        job.contender, job.label, job.seed, score.accuracy or 0.0, curve[-1].accuracy,
        len(split.y_test), tuple(curve), inference.rows(), words, network.size,
        settings.as_dict(), hit,
    )  # fmt: skip


def make_backend(
    contender: str, network: Network, settings: Settings, seed: int
) -> tuple[Backend, Rival | None]:
    """Return the backend that holds the weights, and the rival that trains them if it is one."""
    params = initial_params(network, np.random.default_rng(seed))
    match contender:
        case "digital":
            digital = replace(settings.digital, seed=seed + 1)
            return DigitalBackend(network, params, digital), None
        case "crossbar":
            return CrossbarBackend(network, params, replace(settings.crossbar, seed=seed)), None
        case "spiking":
            return SpikingBackend(network, params, settings.spiking), None
        case "backprop":
            return NumbaBackend(network, params), Rival(0)
        case "bptt":
            return NumbaBackend(network, params), Rival(settings.bptt_steps)
    known = ", ".join((*SUBSTRATES, *RIVALS))
    raise EngineError(f"there is no contender '{contender}'; known: {known}.")


def forward_counts(rival: Rival, shape: tuple[int, ...]) -> OpCounts:
    """Return the counts of forward passes alone, which are inferences."""
    trained, samples, inputs = rival.counts, shape[0], shape[1]
    seen = trained.total("off_chip", "input") // inputs
    forward = OpCounts()
    for (phase, place, kind), n in trained:
        if phase in ("input", "free"):
            forward.add(phase, place, kind, n * samples // seen)
    outputs = trained.total("off_chip", "backward") // seen
    forward.add("readout", BORDER, "off_chip", samples * outputs)
    return forward


def _words(backend: Backend, moments: int) -> int:
    assert isinstance(backend, Substrate)
    return backend.footprint.words(backend.network, moments)
