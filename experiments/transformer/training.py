"""Train one energy transformer on fresh sequences, by EqProp or by backprop through its steps."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from adapters.torch_arrays import torch, unpack
from adapters.torch_autograd import loss, relax_through
from engine.arrays import FloatArray, IntArray
from engine.compiled.backend import NumbaBackend
from engine.learning.optimizer import Adam, scheduled
from engine.learning.run import Run
from engine.learning.training import Training, descend, train_step
from engine.model.params import initial_params
from experiments.transformer.measures import Moment, measure_moment
from experiments.transformer.parts import decay_rates, readout_of
from experiments.transformer.sequences import TASKS, TRAINING, draw_sequences
from experiments.transformer.settings import TransformerSettings

EQPROP, BACKPROP = "eqprop", "backprop"
METHODS = {EQPROP: "EqProp", BACKPROP: "Backprop"}


@dataclass(frozen=True)
class TransformerJob:
    """One training: a task, a method and a seed."""

    task: str
    method: str
    seed: int
    settings: TransformerSettings

    @property
    def key(self) -> str:
        """Name of the run, unique within the experiment."""
        kind = f"{self.task}-{self.settings.vocabulary}x{self.settings.length}"
        return f"{kind}-{self.method}-{self.seed}"


@dataclass(frozen=True)
class TrainedTransformer:
    """A trained network, how its training went and the CPU time it took."""

    backend: NumbaBackend
    curve: tuple[Moment, ...]
    seconds: float


def train(job: TransformerJob, watch: Callable[[int], None] | None = None) -> TrainedTransformer:
    """Train on sequences that are drawn anew for every update; `watch` is told of each.

    Both methods start from the same weights and see the same sequences in the same order; the
    optimizer, the schedule and the decay are the same too.
    """
    settings, task = job.settings, TASKS[job.task]
    network = settings.network
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(job.seed)))
    training = Training(
        beta=settings.beta,
        free=settings.free,
        nudged=settings.nudged,
        schedule="constant",
        cap=None,
        decay=decay_rates(network, settings.decay),
    )
    run = Run.start(network, Adam.moments, backend.dtype, job.seed)
    curve: list[Moment] = []
    moments = {round(k * settings.updates / settings.measured) for k in range(settings.measured)}
    began, outside = time.process_time(), 0.0
    for update, x in enumerate(training_batches(settings, job.seed)):
        if update in moments:
            paused = time.process_time()
            curve.append(measure_moment(backend, settings, task, job.seed, update))
            outside += time.process_time() - paused
        now = replace(training, optimizer=Adam(learning_rate(settings, update)))
        batch = x.astype(np.float32), readout_of(network).targets(task.answer(x))
        if job.method == EQPROP:
            train_step(backend, *batch, now, run, 1)
        else:
            backprop_step(backend, *batch, now, run, settings)
        if watch is not None:
            watch(update + 1)
    seconds = time.process_time() - began - outside
    curve.append(measure_moment(backend, settings, task, job.seed, settings.updates))
    return TrainedTransformer(backend, tuple(curve), seconds)


def learning_rate(settings: TransformerSettings, update: int) -> float:
    """Return the rate of an update: it rises over the warm-up, and falls as a cosine all along."""
    share = scheduled("cosine", update, settings.updates, settings.last_rate)
    return settings.lr * share * min(1.0, (update + 1) / max(1, settings.warm_up))


def training_batches(settings: TransformerSettings, seed: int) -> Iterator[IntArray]:
    """Yield the sequences of every update, `(batch, length)`; a seed always draws the same."""
    rng = np.random.default_rng([seed, 1])
    shape = (settings.batch, settings.vocabulary, settings.length)
    for _ in range(settings.updates):
        yield draw_sequences(rng, TRAINING, *shape)


def backprop_step(
    backend: NumbaBackend,
    x: FloatArray,
    y: FloatArray,
    training: Training,
    run: Run,
    settings: TransformerSettings,
) -> None:
    """Update by autograd through the relaxation of the same energy.

    A gradient longer than `settings.longest` is shortened to it: one that has exploded on the way
    through the steps would fill the optimizer's memory for a thousand updates.
    """
    theta = torch.from_numpy(backend.params.theta).clone().requires_grad_()
    blocks, tokens = unpack(backend.network, theta), torch.from_numpy(x)
    steps, damping = settings.unrolled_steps, settings.damping
    state = relax_through(backend.network, blocks, tokens, steps, damping=damping)
    mean = loss(backend.network, blocks, state, torch.from_numpy(y))
    (gradient,) = torch.autograd.grad(mean, theta)
    length = float(torch.linalg.vector_norm(gradient))
    run.gradient[:] = gradient.numpy() * min(1.0, settings.longest / max(length, 1e-30))
    descend(backend, training, run, 1)
