"""Train one energy transformer on fresh sequences, by EqProp or by backprop through its steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from adapters.torch_arrays import torch, unpack
from adapters.torch_autograd import loss, relax_through
from engine.arrays import FloatArray, IntArray
from engine.attention import Attention
from engine.compiled import NumbaBackend
from engine.estimator import Report
from engine.network import Network
from engine.optimizer import Adam, scheduled
from engine.params import initial_params
from engine.run import Run
from engine.tokens import TokenReadout
from engine.train import Training, descend, train_step
from experiments.transformer.measures import Moment, measure_moment
from experiments.transformer.sequences import TASKS, TRAINING, draw_sequences
from experiments.transformer.settings import Settings

EQPROP, BACKPROP = "eqprop", "backprop"
METHODS = {EQPROP: "EqProp", BACKPROP: "Backprop"}


@dataclass(frozen=True)
class Job:
    """One training: a task, a method and a seed."""

    task: str
    method: str
    seed: int
    settings: Settings

    @property
    def key(self) -> str:
        """Name of the run, unique within the experiment."""
        kind = f"{self.task}-{self.settings.vocabulary}x{self.settings.length}"
        return f"{kind}-{self.method}-{self.seed}"


@dataclass(frozen=True)
class Trained:
    """A trained network, how its training went and how long it took."""

    backend: NumbaBackend
    curve: tuple[Moment, ...]
    seconds: float


def train(job: Job, watch: Callable[[int, Report], None] | None = None) -> Trained:
    """Train on sequences that are drawn anew for every update.

    Both methods start from the same weights and see the same sequences in the same order; the
    optimizer, the schedule and the decay are the same too.
    """
    settings, task = job.settings, TASKS[job.task]
    network = settings.network
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(job.seed)))
    rng = np.random.default_rng([job.seed, 1])
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
    began, outside = time.perf_counter(), 0.0
    for update in range(settings.updates):
        if update in moments:
            paused = time.perf_counter()
            curve.append(measure_moment(backend, settings, task, job.seed, update))
            outside += time.perf_counter() - paused
        x = draw_sequences(rng, TRAINING, settings.batch, settings.vocabulary, settings.length)
        share = scheduled("cosine", update, settings.updates, settings.last_rate)
        now = replace(training, optimizer=Adam(settings.lr * share))
        step = _step_eqprop if job.method == EQPROP else _step_backprop
        report = step(backend, x, task.answer(x), now, run, settings)
        if watch is not None:
            watch(update + 1, report)
    seconds = time.perf_counter() - began - outside
    curve.append(measure_moment(backend, settings, task, job.seed, settings.updates))
    return Trained(backend, tuple(curve), seconds)


def decay_rates(network: Network, rate: float) -> dict[str, FloatArray]:
    """Return the decay of each attention: queries and keys decay, what they route does not."""
    rates = {}
    for coupling in network.couplings:
        if isinstance(coupling, Attention):
            block = np.zeros(network.blocks[coupling.name].shape, np.float32)
            heads = coupling.split(block)
            heads.query[...] = rate
            heads.key[...] = rate
            rates[coupling.name] = block
    return rates


def targets_of(network: Network, answers: IntArray) -> FloatArray:
    """Return answers as the targets of the network's read-out."""
    assert isinstance(network.readout, TokenReadout)
    return network.readout.targets(answers)


def _step_eqprop(
    backend: NumbaBackend,
    x: IntArray,
    answers: IntArray,
    training: Training,
    run: Run,
    settings: Settings,
) -> Report:
    y = targets_of(backend.network, answers)
    return train_step(backend, x.astype(np.float32), y, training, run, 1)


def _step_backprop(
    backend: NumbaBackend,
    x: IntArray,
    answers: IntArray,
    training: Training,
    run: Run,
    settings: Settings,
) -> Report:
    """Update by autograd through the relaxation of the same energy."""
    theta = torch.from_numpy(backend.params.theta).clone().requires_grad_()
    blocks = unpack(backend.network, theta)
    tokens = torch.from_numpy(x.astype(np.float32))
    steps = settings.unrolled_steps
    state = relax_through(backend.network, blocks, tokens, steps, damping=settings.damping)
    y = torch.from_numpy(targets_of(backend.network, answers))
    mean = loss(backend.network, blocks, state, y)
    (gradient,) = torch.autograd.grad(mean, theta)
    run.gradient[:] = gradient.numpy()
    descend(backend, training, run, 1)
    return Report(mean.item(), free_steps=steps, nudged_steps=0.0, unsettled=0.0)
