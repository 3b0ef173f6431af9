"""Training: free phase, nudged phases, a local update, the cap. Then again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.arrays import Array, FloatArray, OwnArray, namespace
from engine.backend import Backend
from engine.border import checked
from engine.compiled.moments import lift
from engine.compiled.threads import fitting_threads
from engine.equilibrium import Relaxation
from engine.errors import CheckpointError, EngineError, check_count, check_seed, shown
from engine.fingerprint import fingerprint
from engine.learning import checkpoint as files
from engine.learning.estimator import (
    FIRM_BETA,
    TINY_BETA,
    Estimator,
    Recipe,
    Report,
    estimate_anew,
    phases_of,
    safe_beta,
    warn_unsafe,
)
from engine.learning.optimizer import Adam, Optimizer, scheduled
from engine.learning.pace import automatic
from engine.learning.predict import checked_data, evaluate
from engine.learning.run import Epoch, Run
from engine.learning.spectral import AUTO_CAP, SpectralCap
from engine.model.params import Params, unpack


@checked
@dataclass(frozen=True)
class Training:
    """Settings of a training run; `beta` is a number or `"auto"`.

    `estimator` is a name, a function of beta such as `lambda beta: symmetric(beta, 6)`, or pairs
    `(beta, coefficient)`, which are used as they are. `"auto"` is one nudge where nudged phases are
    displacements and beta is `"auto"` too: a tiny one, or one of 1 where units that clip are
    compared with the targets. Else it is `"centered"`.
    """

    epochs: int = 30
    """Passes over the samples, and the length of the schedule."""
    batch_size: int = 32
    """Samples of an update."""
    beta: float | str = "auto"
    estimator: Recipe = "auto"
    free: Relaxation | Literal["auto"] = "auto"
    """How to look for the free equilibrium; `"auto"` as below."""
    nudged: Relaxation | Literal["auto"] = "auto"
    """How to look for the nudged ones; `"auto"` is as exact as the gradient needs it (`pace`)."""
    optimizer: Optimizer = field(default_factory=Adam)
    """What makes an update of the gradient: `Adam` or `SGD`, with the largest learning rate."""
    schedule: str = "cosine"
    """How the learning rate falls: `"cosine"` to a hundredth, or `"constant"`."""
    cap: SpectralCap | Literal["auto"] | None = "auto"
    """Bound of the recurrent norm; `"auto"` caps what has a known norm (see `uncapped`)."""
    frozen: tuple[str, ...] = ()
    """Parameter blocks that do not learn."""
    decay: Mapping[str, float | FloatArray] = field(default_factory=dict)
    """Weight decay of blocks, beside the gradient: `theta <- theta (1 - rate decay)`.

    For a block one number, or one for each parameter.
    """
    rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates of blocks, relative to that of the optimizer (`relative_rates`); else one."""
    patience: int | None = None
    """Epochs without a better validation score after which to stop and take the best."""
    seed: int = 0
    """Of the order of the samples, not of the starting parameters."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            check_count(name, getattr(self, name))
        if isinstance(self.beta, str) and self.beta != "auto":
            raise EngineError(f"beta is '{self.beta}', expected a positive number or 'auto'.")
        for name in ("free", "nudged"):
            if isinstance(getattr(self, name), str) and getattr(self, name) != "auto":
                raise EngineError(
                    f"{name} is '{getattr(self, name)}', expected a Relaxation or 'auto'."
                )
        if isinstance(self.cap, str) and self.cap != "auto":
            raise EngineError(f"cap is '{self.cap}', expected a SpectralCap, None or 'auto'.")
        phases_of(self._named, 1.0 if isinstance(self.beta, str) else self.beta)
        scheduled(self.schedule, 0, 1)
        if self.patience is not None:
            check_count("patience", self.patience)
        check_seed(self.seed)
        for name, rate in self.rates.items():
            if not (np.isfinite(rate) and rate > 0.0):
                raise EngineError(f"rate of '{name}' is {rate}, expected a positive number.")
        for name, decay in self.decay.items():
            if not (np.size(decay) and np.isfinite(decay).all() and np.min(decay) >= 0.0):
                raise EngineError(f"decay of '{name}' is {shown(decay)}, expected zero or more.")

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.estimator, str) and self.estimator == "auto"

    @property
    def _named(self) -> Recipe:
        """The recipe of a stated beta."""
        return "centered" if self._is_auto else self.estimator

    def phases(self, backend: Backend) -> Estimator:
        """Return the estimator of the next step on a backend, with what is `"auto"` resolved."""
        displaced = backend.displaces
        if not isinstance(self.nudged, str):
            displaced = self.nudged.displaces(displaced)
        recipe = self._named
        if not isinstance(self.beta, str):
            return phases_of(recipe, self.beta)
        if not displaced:
            return phases_of(recipe, safe_beta(backend))
        if not self._is_auto:
            return phases_of(recipe, TINY_BETA)
        beta = FIRM_BETA if backend.network.clips_outputs else TINY_BETA
        return phases_of("one_sided", beta)

    def relaxations(self, backend: Backend, cost: float = 1.0) -> tuple[Relaxation, Relaxation]:
        """Return how free and nudged equilibria are looked for at this mean cost of a sample."""
        network = backend.network
        # A circuit divides its steps by all that meets in a node, and needs no smaller ones.
        steps_far = backend.displaces and network.compares_units and not network.squares
        free, nudged = automatic(backend, cost, _largest_beta(backend, self) if steps_far else 0.0)
        return (
            free if isinstance(self.free, str) else self.free,
            nudged if isinstance(self.nudged, str) else self.nudged,
        )

    @property
    def settled(self) -> Relaxation:
        """How to look for a state that is only read: the free phase, if that was said."""
        return Relaxation() if isinstance(self.free, str) else self.free

    @property
    def spectral_cap(self) -> SpectralCap | None:
        """The cap, with `"auto"` resolved."""
        return AUTO_CAP if isinstance(self.cap, str) else self.cap


Step: TypeAlias = Callable[[Backend, Array, Array, Training, Run, int], Report]
"""One update from a batch `x`, `y`; the last number is the length of the schedule in steps."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Is told how many batches are done, of how many, and how the last whole epoch went."""


@checked
def train_step(
    backend: Backend,
    x: OwnArray,
    y: OwnArray,
    training: Training,
    run: Run,
    total: int,
    *,
    start: OwnArray | None = None,
) -> Report:
    """Estimate the gradient of the batch by its phases, from `start` on, and descend.

    On a remote backend, batch and run in its own arrays (`Backend.own`, `Run.on`) stay there.
    """
    phases = training.phases(backend)
    ways = training.relaxations(backend, run.history[-1].cost if run.history else 1.0)
    report = estimate_anew(backend, x, y, phases, run.gradient, *ways, start)
    descend(backend, training, run, total)
    return report


@checked
def descend(backend: Backend, training: Training, run: Run, total: int) -> None:
    """Update the parameters from `run.gradient`, which is used up."""
    network = backend.network
    for name in training.frozen:
        run.gradient[network.blocks[name].span] = 0.0
    rate = training.optimizer.lr * scheduled(training.schedule, run.step, total)
    update = training.optimizer.update(run.gradient, run.memory, run.step, rate)
    for name, share in training.rates.items():
        update[network.blocks[name].span] *= share
    if training.decay or training.spectral_cap is not None:
        _decay_and_cap(backend, training, run, rate, update)
    if network.squares:
        keep_least(backend, update)
    backend.apply(update)
    run.step += 1


def _decay_and_cap(
    backend: Backend, training: Training, run: Run, rate: float, update: Array
) -> None:
    """Change the update in place: add the decay, and lead to recurrent blocks under the cap.

    Both are part of the update, so that a substrate writes each weight once.
    """
    network, cap = backend.network, training.spectral_cap
    decaying = training.decay.keys() - set(training.frozen)
    capped = [] if cap is None else [coupling.name for coupling in network.recurrent]
    held = backend.blocks_as(update)
    change = unpack(network, update, {*decaying, *capped})
    for name in decaying:
        change[name] -= rate * _decay_of(backend, training, run, name) * held[name]
    if cap is None:
        return
    now = {name: held[name] for name in capped}
    then = {name: block + change[name] for name, block in now.items()}
    vectors = dict(run.vectors)
    for name in cap.clipped(network, run.step):
        then[name], vectors[name] = backend.host(then[name]), backend.host(vectors[name])
    cap.enforce(network, then, run.step, vectors)
    for name, vector in vectors.items():
        if vector is not run.vectors[name]:
            run.vectors[name] = backend.own(vector)
    for name, block in then.items():
        change[name][...] = (block if type(block) is type(update) else backend.own(block)) - now[
            name
        ]


def keep_least(backend: Backend, update: Array) -> None:
    """Change the update in place so that no conductance falls below the least there is.

    That is the projection on the conductances that a device can have, as a part of the update.
    """
    network = backend.network
    held = backend.blocks_as(update)
    xp = namespace(update)
    for name, change in unpack(network, update, network.squares).items():
        now, least = held[name], network.squares[name].g_min
        if isinstance(update, np.ndarray):
            number = update.dtype.type
            lift(now.ravel(), change.reshape(-1), number(least), number(np.inf))
            continue
        falls = now + change < least
        up = xp.where(falls, least - now, change)
        # The difference is rounded, and so may end one step of its precision too low.
        higher = xp.nextafter(up, xp.full_like(up, np.inf))
        change[...] = xp.where(falls & (now + up < least), higher, up)


def _decay_of(backend: Backend, training: Training, run: Run, name: str) -> Any:
    """Return the decay of a block, as an array where the run lies."""
    decay = training.decay[name]
    if isinstance(run.gradient, np.ndarray):
        return np.asarray(decay)
    if np.ndim(decay) == 0:
        return float(decay)
    if name not in run.settings:
        run.settings[name] = backend.own(np.asarray(decay))
    return run.settings[name]


@checked
def fit(
    backend: Backend,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    training: Training | None = None,
    validation: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    checkpoint: Path | str | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    step: Step = train_step,
    progress: Progress | None = None,
) -> list[Epoch]:
    """Train the parameters that `backend` holds; return what was measured in each epoch.

    `y` holds class labels `(samples,)` or targets `(samples, outputs)`. With `checkpoint`, every
    finished epoch is saved there, and `resume` goes on from it: the result is the same, bit for
    bit, as without the interruption.

    Nothing is printed, but for a line of the logger `engine` where kernels have to be compiled.
    `on_epoch` is told what each epoch measured, and `progress(done, total,
    note)` is called after each batch, for a bar or a line on a terminal.
    """
    training = training or Training()
    _check_settings(backend, training, validation is not None)
    inputs, targets = checked_data(backend, x, y)
    held_out = None if validation is None else checked_data(backend, *validation)
    if checkpoint is not None:
        files.check_place(checkpoint)
    identity = _identity(training, inputs, targets, held_out)
    run = _begin(backend, training, identity, checkpoint if resume else None).on(backend)
    data = backend.own(inputs), backend.own(targets)
    warned = isinstance(training.beta, str) and not isinstance(training.estimator, tuple)
    step = step if progress is None else _watched(step, progress)
    size = training.batch_size
    with fitting_threads(backend.network, size), backend.fitting_threads(size):
        while run.epoch < training.epochs and not _is_stale(run, training):
            epoch = _train_epoch(backend, *data, training, run, step)
            if validation is not None:
                result = evaluate(backend, *validation, training.settled)
                epoch = epoch.validated(result.cost, result.accuracy)
                run.keep_if_best(epoch, backend.params.theta)
            run.history.append(epoch)
            run.epoch += 1
            if checkpoint is not None:
                files.save(checkpoint, backend.params, run.off(backend), identity)
            warned = warned or warn_unsafe(backend, _largest_beta(backend, training))
            if on_epoch is not None:
                on_epoch(epoch)
    if training.patience is not None and run.best_theta is not None:
        backend.load(Params(backend.network, run.best_theta.astype(backend.dtype)))
    return run.history


def _check_settings(backend: Backend, training: Training, has_validation: bool) -> None:
    if training.patience is not None and not has_validation:
        raise EngineError(f"patience {training.patience} needs a validation set.")
    named = {"freeze": training.frozen, "decay": training.decay, "rate": training.rates}
    for what, names in named.items():
        for name in names:
            if name not in backend.network.blocks:
                known = ", ".join(backend.network.blocks)
                raise EngineError(f"no parameter block '{name}' to {what}; known: {known}.")
    for name, decay in training.decay.items():
        shape = backend.network.blocks[name].shape
        if np.shape(decay) not in ((), shape):
            raise EngineError(f"decay of '{name}' has shape {np.shape(decay)}, expected {shape}.")


def _identity(training: Training, *data: object) -> str:
    """Say what a run is made of, so that it is resumed only with the same."""
    recipe = training.estimator
    # Of a function, what it does.
    settings = fingerprint(
        replace(training, estimator=phases_of(recipe, 1.0) if callable(recipe) else recipe)
    )
    return f"settings {settings} data {fingerprint(data)}"


def _begin(
    backend: Backend, training: Training, identity: str, resume_from: Path | str | None
) -> Run:
    """Start a run, or take up the one in the file."""
    if resume_from is not None and Path(resume_from).exists():
        params, run, settings = files.load(resume_from)
        if run is None or settings.split()[:2] != identity.split()[:2]:
            raise CheckpointError(f"{resume_from} is from a training with other settings.")
        if settings != identity:
            raise CheckpointError(f"{resume_from} is from a training on other data.")
        if params.theta.dtype != backend.dtype:
            raise CheckpointError(f"{resume_from} is from a training in {params.theta.dtype}.")
        backend.load(params)
        return run
    run = Run.start(backend.network, training.optimizer.moments, backend.dtype, training.seed)
    if training.spectral_cap is not None:
        capped = backend.params.copy()
        training.spectral_cap.enforce(backend.network, capped, 0, run.vectors)
        backend.load(capped)
    return run


def _train_epoch(
    backend: Backend, x: Array, y: Array, training: Training, run: Run, step: Step
) -> Epoch:
    """Pass once over data in the backend's own arrays; numbers are read from them at the end."""
    began = time.perf_counter()
    if backend.remote:  # to ask for the curvature in every step would be to wait for it
        training = replace(training, estimator=training.phases(backend))
    order = backend.own(run.rng.permutation(len(x)))
    total = training.epochs * -(-len(x) // training.batch_size)
    cost = free_steps = nudged_steps = unsettled = 0.0
    for first in range(0, len(x), training.batch_size):
        rows = order[first : first + training.batch_size]
        report = step(backend, x[rows], y[rows], training, run, total)
        share = len(rows) / len(x)
        cost += share * report.cost
        free_steps += share * report.free_steps
        nudged_steps += share * report.nudged_steps
        unsettled += share * report.unsettled
    backend.check_finite()
    cost, free_steps, nudged_steps, unsettled = map(
        float, (cost, free_steps, nudged_steps, unsettled)
    )
    seconds = time.perf_counter() - began
    return Epoch(run.epoch + 1, cost, free_steps, nudged_steps, unsettled, seconds)


def _watched(step: Step, progress: Progress) -> Step:
    """Return the step that also tells how far the training is."""

    def watched(
        backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int
    ) -> Report:
        report = step(backend, x, y, training, run, total)
        progress(run.step, total, run.history[-1].summary() if run.history else "")
        return report

    return watched


def _largest_beta(backend: Backend, training: Training) -> float:
    return max(abs(beta) for beta, _ in training.phases(backend))


def _is_stale(run: Run, training: Training) -> bool:
    """Tell whether the validation result has not improved for `patience` epochs."""
    patience = training.patience
    return patience is not None and run.epoch - run.best_epoch >= patience and run.best_epoch > 0
