"""What theory says of a gradient and of an update."""

from dataclasses import replace

import numpy as np

from adapters.torch_autograd import implicit_gradient
from engine.arrays import BoolArray, FloatArray
from engine.equilibrium import Clamped, Relaxation
from engine.learning.estimator import Estimator, centered, estimate, one_sided
from engine.learning.optimizer import SGD, Adam
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap, recurrent_norm
from engine.learning.training import Training, train_step
from engine.model.network import Network
from engine.model.params import Params
from experiments.fuzz.images import images
from experiments.fuzz.strategies import (
    Case,
    cases,
    looped,
    quadratic_networks,
    smooth_networks,
    transformers,
    wild_cases,
)
from experiments.fuzz.theory import theory

TIGHT = Relaxation(3000, 1e-13)


@theory(
    "The centered estimate is the gradient by autograd, up to a bias of order beta squared.",
    cases(any_network=smooth_networks() | images(("tanh",)) | transformers(), high=0.7),
)
def gradient_is_right(case: Case) -> None:
    """At a beta whose square is far below the tolerance of the comparison."""
    beta = 1e-3 / (1.0 + case.network.readout.curvature(case.params))
    found = _gradient(case, case.clamped, centered(beta))
    exact = implicit_gradient(case.network, case.params, case.x, case.y)
    error = float(np.linalg.norm(found - exact))
    assert error <= 1e-3 * float(np.linalg.norm(exact)) + 1e-7, error


@theory(
    "The centered estimate is even in beta, and the mean of the two one-sided ones.",
    wild_cases(),
)
def opposite_nudges_balance(case: Case) -> None:
    """Of the one-sided estimates the free phase drops out, and the bias of first order with it."""
    beta = 0.05
    up, down = one_sided(beta), ((0.0, 1 / beta), (-beta, -1 / beta))
    expected = _gradient(case, case.clamped, centered(beta))
    turned = _gradient(case, case.clamped, centered(beta)[::-1])
    mean = (_gradient(case, case.clamped, up) + _gradient(case, case.clamped, down)) / 2
    # Phases that are relaxed together or alone end apart by their tolerance, which `1 / beta` and
    # the input magnify; a phase that is missing or has the wrong sign is an error of order one.
    error = 1e4 * TIGHT.tolerance * (1.0 + np.abs(case.x).max()) / beta
    np.testing.assert_allclose(turned, expected, rtol=1e-10, atol=error)
    np.testing.assert_allclose(mean, expected, rtol=1e-10, atol=error)


@theory("A sample of weight two counts as two samples.", cases())
def weights_are_repetitions(case: Case) -> None:
    """In the whole estimate, free phase and read-out included."""
    counts = case.rng.integers(0, 3, len(case.x))
    counts[0] += 1
    rows = np.repeat(np.arange(len(case.x)), counts)
    weighted = case.backend.clamp(case.x, case.y, counts)
    repeated = case.backend.clamp(case.x[rows], case.y[rows])
    found, expected = (_gradient(case, c, centered(0.1)) for c in (weighted, repeated))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@theory("A synapse sees its two ends and nothing else.", cases(quadratic_networks()))
def learning_is_local(case: Case) -> None:
    """Moving one unit of one sample changes only the parameters with an end there."""
    unit = int(case.rng.integers(case.network.units))
    settled = case.backend.settle(case.clamped)
    moved = settled.state.copy()
    moved[0, unit] += 0.5
    parts = []
    for state in (settled.state, moved):
        total = np.zeros(case.network.size)
        case.backend.accumulate(case.clamped, replace(settled, state=state), total, energy=0.7)
        parts.append(total)
    touched = _touched(case.network, unit)
    changed = parts[0] != parts[1]
    assert not changed[~touched].any()
    assert changed[touched].any()  # its bias, if nothing else


@theory(
    "After every update the recurrent norm is at or below the cap.",
    cases(quadratic_networks(), high=0.9),
)
def cap_holds(case: Case) -> None:
    """Under updates so large that only the cap can hold them."""
    backend = type(case.backend)(case.network, case.params)
    training = Training(optimizer=Adam(0.5), schedule="constant", cap=SpectralCap(0.9))
    run = Run.start(case.network, Adam.moments, backend.dtype, seed=0)
    for _ in range(3):
        train_step(backend, case.x, case.y, training, run, total=1)
        assert recurrent_norm(backend.params) <= 0.9 + 1e-9


@theory(
    "An optimizer changes every parameter by its formula, in any precision.",
    cases(looped()) | cases(looped(), dtype=np.float32),
)
def optimizers_follow_their_formulas(case: Case) -> None:
    """In double precision, by the mean of earlier gradients that a moment is."""
    rng, size, rate = case.rng, case.network.size, 0.01
    gradients = rng.normal(0.0, 10.0 ** rng.uniform(-3, 1), (6, size)).astype(case.x.dtype)
    adam, descent = Adam(rate), SGD(rate, momentum=0.7)
    memories = [np.zeros((optimizer.moments, size), case.x.dtype) for optimizer in (adam, descent)]
    for step in range(len(gradients)):
        seen = gradients[: step + 1].astype(np.float64)
        found = adam.update(gradients[step].copy(), memories[0], step, rate)
        first, second = (
            np.average(seen**power, axis=0, weights=decay ** np.arange(step, -1, -1))
            for power, decay in ((1, adam.decay1), (2, adam.decay2))
        )
        expected = -rate * first / (np.sqrt(second) + adam.eps)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * rate)
        found = descent.update(gradients[step].copy(), memories[1], step, rate)
        velocity = (0.7 ** np.arange(step, -1, -1)) @ seen
        np.testing.assert_allclose(found, -rate * velocity, rtol=1e-4, atol=1e-6)


def _gradient(case: Case, clamped: Clamped, estimator: Estimator) -> FloatArray:
    gradient = np.zeros(case.network.size)
    estimate(case.backend, clamped, estimator, gradient, TIGHT)
    return gradient


def _touched(network: Network, unit: int) -> BoolArray:
    """Mark the parameters with an end at `unit`."""
    owner, inside = next(
        (name, unit - span.start)
        for name, span in network.columns.items()
        if span.start <= unit < span.stop
    )
    marks = Params(network, np.zeros(network.size))
    for coupling in network.couplings:
        if owner not in coupling.layers:
            continue
        block = marks[coupling.name]
        link = network.links.get(coupling.name)
        tied = link is not None and link.tied
        if tied or coupling.layers[0] == owner != coupling.layers[-1]:
            block[inside] = 1
        if coupling.layers[-1] == owner:
            block[..., inside] = 1
    marked: BoolArray = marks.theta == 1
    return marked
