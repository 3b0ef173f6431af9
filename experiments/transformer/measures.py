"""What is measured of a network, in training and afterwards, on sequences it has not seen."""

from dataclasses import dataclass

import numpy as np

from adapters.torch_autograd import implicit_gradient
from engine.arrays import FloatArray, IntArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Relaxation
from engine.errors import EngineError
from engine.learning.estimator import centered, estimate
from experiments.transformer.parts import attention_of, readout_of
from experiments.transformer.sequences import TEST, VALIDATION, SequenceTask, draw_sequences
from experiments.transformer.settings import TransformerSettings

BATCH = 500
PROBED = 16
"""Validation sequences on which the gradient is compared."""
MANY_STEPS = 20_000
"""Where routes form, a relaxation takes more than a thousand to come to rest."""
LOPSIDED = 0.5
"""Nudged states are opposite to first order. From this asymmetry on they are not: beta is too
large for the response to be linear, or one of them has jumped to another equilibrium."""
APART = 1e-2
"""Difference of a unit from which two settled states are two equilibria."""
DRAWN = 200
"""Sequences over which the attention map is averaged."""


@dataclass(frozen=True)
class Moment:
    """A look at a training: on validation sequences, before the update of that number."""

    update: int
    cost: float
    """Mean over tokens, at the free state of training."""
    accuracy: float
    cosine: float
    """Of the gradient as training estimates it with the exact one; NaN if there is none."""
    lopsided: float
    """Share of sequences whose nudged states are not opposite, with the beta of training."""
    free_steps: float
    nudged_steps: float
    unsettled: float


@dataclass(frozen=True)
class Answers:
    """Answers to test sequences after one way of relaxing."""

    tokens: int
    wrong: int
    sequences: int
    unsettled: int
    """Sequences above the tolerance in the end; their answers count as they are."""
    residual: float
    """The largest."""
    steps: tuple[float, float, float]
    """Median, 95th percentile, largest."""


@dataclass(frozen=True)
class Multistability:
    """What restarts from random states found."""

    sequences: int
    restarts: int
    several: int
    """Sequences with more than one equilibrium among those reached."""
    wrong: int
    """Tokens answered wrongly, over all restarts."""
    unsettled: int
    """Relaxations that did not settle, and say nothing."""


def measure_moment(
    backend: NumbaBackend, settings: TransformerSettings, task: SequenceTask, seed: int, update: int
) -> Moment:
    """Compare the gradient with that of autograd at the equilibrium, and count the answers."""
    rng = np.random.default_rng([seed, 3])
    x = draw_sequences(rng, VALIDATION, PROBED, settings.vocabulary, settings.length)
    readout = readout_of(backend.network)
    inputs, y = x.astype(np.float32), readout.targets(task.answer(x))
    clamped = backend.clamp(inputs, y)
    gradient = np.zeros(backend.network.size, np.float32)
    beta = centered(settings.beta)
    report = estimate(backend, clamped, beta, gradient, settings.free, settings.nudged)
    exact = NumbaBackend(backend.network, backend.params.astype(np.float64))
    trusted = _exact_gradient(exact, inputs, y, settings.damping)
    cosine = float(gradient @ trusted / (np.linalg.norm(gradient) * np.linalg.norm(trusted)))
    answered = readout.read(backend.predict(backend.settle(clamped, relaxation=settings.free)))
    return Moment(
        update,
        report.cost / settings.length,
        float((answered == task.answer(x)).mean()),
        cosine,
        lopsided_share(exact, exact.clamp(inputs, y), settings.beta, settings.damping),
        report.free_steps,
        report.nudged_steps,
        report.unsettled,
    )


def _exact_gradient(
    exact: NumbaBackend, inputs: FloatArray, y: FloatArray, damping: float
) -> FloatArray:
    """Return the gradient at the free equilibrium by autograd, in double precision.

    Steps unrolled through autograd would have to be as many as the relaxation needs.
    """
    at_rest = Relaxation(MANY_STEPS, 1e-11, damping=damping)
    try:
        return implicit_gradient(exact.network, exact.params, inputs, y, at_rest)
    except EngineError:  # no equilibrium was reached
        return np.full(exact.network.size, np.nan)


def lopsided_share(exact: Backend, clamped: Clamped, beta: float, damping: float) -> float:
    """Return the share of samples whose nudged states are not opposite to each other."""
    at_rest = Relaxation(MANY_STEPS, 1e-9, damping=damping)
    plan = (((0.0,), at_rest), ((beta, -beta), at_rest))
    free, plus, minus = exact.relax(clamped, plan)
    sides = np.linalg.norm(plus.state + minus.state - 2 * free.state, axis=1)
    return float((sides > LOPSIDED * np.linalg.norm(plus.state - minus.state, axis=1)).mean())


def held_out(settings: TransformerSettings, seed: int) -> IntArray:
    """Draw the test sequences of a seed."""
    rng = np.random.default_rng([seed, 2])
    count = settings.test_sequences
    return draw_sequences(rng, TEST, count, settings.vocabulary, settings.length)


def examine(
    backend: NumbaBackend, x: IntArray, answers: IntArray, relaxation: Relaxation
) -> Answers:
    """Relax every sequence and count wrong tokens."""
    readout = readout_of(backend.network)
    wrong = unsettled = 0
    residual, steps = 0.0, []
    for first in range(0, len(x), BATCH):
        rows = slice(first, first + BATCH)
        settled = backend.settle(backend.clamp(x[rows]), relaxation=relaxation)
        wrong += int((readout.read(backend.predict(settled)) != answers[rows]).sum())
        unsettled += int((~settled.converged).sum())
        residual = max(residual, float(settled.residual.max()))
        steps.append(settled.steps)
    median, late, most = np.percentile(np.concatenate(steps), (50, 95, 100))
    return Answers(x.size, wrong, len(x), unsettled, residual, (median, late, most))


def measure_multistability(
    backend: NumbaBackend, x: IntArray, answers: IntArray, settings: TransformerSettings, seed: int
) -> Multistability:
    """Relax sequences from random starts, and compare where they end with the usual end."""
    rng = np.random.default_rng([seed, 4])
    clamped = backend.clamp(x)
    usual = backend.settle(clamped, relaxation=settings.settled)
    several = np.zeros(len(x), bool)
    wrong, unsettled = 0, int((~usual.converged).sum())
    for _ in range(settings.restarts):
        start = rng.uniform(-1.0, 1.0, usual.state.shape)
        again = backend.settle(clamped, relaxation=settings.settled, start=start)
        apart = np.abs(again.state - usual.state).max(axis=1) > APART
        several |= apart & again.converged & usual.converged
        wrong += int((readout_of(backend.network).read(backend.predict(again)) != answers).sum())
        unsettled += int((~again.converged).sum())
    return Multistability(len(x), settings.restarts, int(several.sum()), wrong, unsettled)


def attention_maps(backend: NumbaBackend, x: IntArray, relaxation: Relaxation) -> FloatArray:
    """Return what tokens attend to at equilibrium, the mean `P (heads, length, length)`."""
    settled = backend.settle(backend.clamp(x[:DRAWN]), relaxation=relaxation)
    attention = attention_of(backend.network)
    tokens = backend.network.of(attention.layer, settled.state)
    maps: FloatArray = attention.probabilities(backend.params[attention.name], tokens)
    mean: FloatArray = maps.mean(axis=0)
    return mean
