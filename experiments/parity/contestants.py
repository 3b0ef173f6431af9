"""The contestants of the parity experiment: train one on one task with one seed, and measure it."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import Array, FloatArray, IntArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation, Solver
from engine.errors import EngineError, NudgeWarning
from engine.learning.estimator import estimate
from engine.learning.predict import predict_outputs, targets_of
from engine.learning.run import Epoch
from engine.learning.training import Training, fit, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.contest.baselines import bptt_step
from experiments.contest.data_facts import DATA, data_facts
from experiments.contest.devices import Kinds, make_backend, torch_device
from experiments.contest.jobs import Watch
from experiments.contest.metrics import mean_cost, metric_of, p_of_chance, score
from experiments.contest.weights import Weights, save_weights
from experiments.parity.baselines import FeedForward
from experiments.parity.networks import layer_sizes, layered_network, looped_network
from experiments.parity.settings import ParitySettings
from experiments.records import EpochPoint, Record
from experiments.tasks import (
    Split,
    Task,
    cloned_policy,
    expert_policy,
    policy_return,
    random_policy,
)

EPISODES = 20
COSINE_SAMPLES = 128
"""So many that their gradient does not vanish, and leave rounding alone, once nearly all fit."""
COSINE_EPOCHS = 6
"""At how many epochs the gradient is compared with autograd's."""
TEST_STEPS = 100
"""Most steps of a relaxation when a trained network is tested."""

FROZEN = {
    "no_recurrence": ("W_rec",),
    "frozen_recurrence": ("W_rec",),
    "readout_only": ("W_in", "b", "W_rec"),
}

Outputs = Callable[[FloatArray], FloatArray]
"""Class probabilities `(samples, classes)`, or predictions `(samples, 1)`."""


class _Flipped(Backend):
    """The control that learns the wrong way: the sign of the hidden update is turned round."""

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: Array,
        energy: float,
        cost: float,
    ) -> Array | None:
        return super()._accumulate(  # type: ignore[safe-super]
            clamped, equilibrium, gradient, -energy, cost
        )


class FlippedBackend(_Flipped, NumbaBackend):
    """It on compiled kernels."""


class FlippedTorchBackend(_Flipped, TorchBackend):
    """It on torch."""


@dataclass(frozen=True)
class ParityJob:
    """One training to do; with `final` false it is for tuning."""

    task: Task
    contestant: str
    seed: int
    settings: ParitySettings
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
        """The network that relaxes."""
        is_layered = self.contestant == "eqprop_layered"
        return (layered_network if is_layered else looped_network)(self.task, self.settings)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of inputs, hidden layers and outputs, where layers lie upon each other."""
        return layer_sizes(self.task, self.settings)

    @property
    def training(self) -> Training:
        """The settings as the engine takes them."""
        training = self.settings.training(self.contestant, self.seed)
        matrices = [name for name, block in self.network.blocks.items() if len(block.shape) > 1]
        return replace(
            training,
            frozen=FROZEN.get(self.contestant, ()),
            decay=dict.fromkeys(matrices, self.settings.decay),
        )

    def check(self) -> None:
        """Refuse settings that no network or training can have."""
        _ = self.network, self.training, self.sizes

    def run(self, watch: Watch | None = None) -> Record:
        """Train and measure."""
        return run_job(self, watch)


@dataclass(frozen=True)
class TrainedContestant:
    """A trained contestant: what it says of inputs, its size, its epochs."""

    outputs: Outputs
    parameters: int
    curve: tuple[EpochPoint, ...]
    weights: Weights


def run_job(job: ParityJob, watch: Watch | None = None) -> Record:
    """Train one contestant and measure it; `watch` is told of every epoch.

    A final run trains on training and validation together and is measured on the test part. A run
    for tuning is measured on the validation part, and the test part is not touched. One thread,
    whatever the machine has: the result does not depend on how many runs go at once.
    """
    began = time.perf_counter()
    parts = job.task.load(job.seed)
    tuned_on = replace(parts, x_test=parts.x_valid, y_test=parts.y_valid)
    split = parts.joined() if job.final else tuned_on
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        # The report measures what a large beta does to the gradient, in place of a warning.
        warnings.simplefilter("ignore", NudgeWarning)
        train = _train_feedforward if job.contestant == "backprop_feedforward" else _train_network
        trained = train(job, split, watch or (lambda point: None))
        said = trained.outputs(split.x_test)
        returns = _returns(job, split, trained.outputs) if job.final else None
    save_weights(job, trained.weights, split)
    return Record(
        task=job.task.name,
        title=job.task.title,
        contestant=job.contestant,
        seed=job.seed,
        accuracy=score(said, split.y_test),
        cost=mean_cost(said, split.y_test),
        n_test=len(split.y_test),
        majority_rate=split.majority_rate,
        parameters=trained.parameters,
        settings=job.settings.as_dict(),
        curve=trained.curve,
        returns=returns,
        seconds=time.perf_counter() - began,
        measures={DATA: data_facts(job.task, parts)} if job.final else {},
        metric=metric_of(split.y_test).name,
        p_chance=p_of_chance(said, split.y_test),
    )


def compile_kernels() -> None:
    """Compile what the runs will need, once, before several processes want it at the same time."""
    looped, stacked = looped_mlp(1, 1, 2), layered((1, 1, 1, 2))
    pairs: list[tuple[Network, Solver]] = [(looped, "fixed_point"), (stacked, "alternating")]
    for network, solver in pairs:
        backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
        backend.settle(backend.clamp([[0.0]]), relaxation=Relaxation(solver=solver))


def _train_network(job: ParityJob, split: Split, watch: Watch) -> TrainedContestant:
    network, training = job.network, job.training
    params = initial_params(network, np.random.default_rng(job.seed))
    if job.contestant == "no_recurrence":
        params["W_rec"][...] = 0.0
    kinds: Kinds = (NumbaBackend, TorchBackend)
    if job.contestant == "flipped_sign":
        kinds = (FlippedBackend, FlippedTorchBackend)
    backend = make_backend(network, params, job.settings.device, kinds)
    settled = replace(training.settled, max_steps=TEST_STEPS)
    is_eqprop = job.contestant.startswith("eqprop")
    probe = split.x_train[:COSINE_SAMPLES], split.y_train[:COSINE_SAMPLES]
    probes = COSINE_EPOCHS if job.final else 0
    probed = np.linspace(1, training.epochs, probes).round()
    curve: list[EpochPoint] = []

    def on_epoch(epoch: Epoch) -> None:
        cosine = None
        if is_eqprop and epoch.number in probed:
            cosine = gradient_cosine(backend, *probe, training)
        said = predict_outputs(backend, split.x_test, settled)
        curve.append(_point(epoch, score(said, split.y_test), is_eqprop, cosine))
        watch(curve[-1])

    step = bptt_step if job.contestant == "backprop_looped" else train_step
    fit(backend, split.x_train, split.y_train, training, on_epoch=on_epoch, step=step)
    return TrainedContestant(
        lambda x: predict_outputs(backend, x, settled), network.size, tuple(curve), backend.params
    )


def _train_feedforward(job: ParityJob, split: Split, watch: Watch) -> TrainedContestant:
    device = torch_device(job.settings.device)
    activation, continuous = job.settings.activation, job.task.continuous
    model = FeedForward(job.sizes, activation, job.seed, device, continuous)
    curve: list[EpochPoint] = []

    def on_epoch(epoch: Epoch) -> None:
        said = model.outputs(split.x_test)
        curve.append(_point(epoch, score(said, split.y_test), False, None))
        watch(curve[-1])

    model.fit(split.x_train, split.y_train, job.training, job.settings.decay, on_epoch)
    return TrainedContestant(model.outputs, model.size, tuple(curve), model.weights)


def gradient_cosine(
    backend: Backend, x: FloatArray, y: IntArray | FloatArray, training: Training
) -> float | None:
    """Return the cosine between the estimate, as trained with, and the exact gradient.

    The exact one is autograd's by implicit differentiation in float64. `None` where it does not
    exist, because a sample of the batch finds no equilibrium.
    """
    network = backend.network
    targets = targets_of(network, y, backend.dtype)
    gradient = np.zeros(network.size, backend.dtype)
    phases = training.phases(backend)
    estimate(backend, backend.clamp(x, targets), phases, gradient, *training.relaxations(backend))
    closely = replace(training.settled, max_steps=5000, tolerance=1e-9)
    try:
        exact = implicit_gradient(network, backend.params.astype(float), x, targets, closely)
    except EngineError:
        return None
    scale = float(np.linalg.norm(gradient)) * float(np.linalg.norm(exact))
    return float(gradient @ exact) / scale if scale > 0.0 else 0.0


def _returns(job: ParityJob, split: Split, outputs: Outputs) -> dict[str, list[float]] | None:
    task, seed = job.task, job.seed
    if task.environment is None:
        return None
    clone = cloned_policy(split, lambda x: outputs(x).argmax(axis=1))
    policies = {
        "clone": clone,
        "expert": expert_policy(task),
        "random": random_policy(task, seed),
    }
    return {
        name: policy_return(task, policy, EPISODES, seed).tolist()
        for name, policy in policies.items()
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
