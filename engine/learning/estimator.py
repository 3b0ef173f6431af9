"""Gradient estimators: an estimator is data, a tuple of `(beta, coefficient)` pairs.

    g = sum_k c_k dE/dtheta(s^{beta_k})     with  sum c_k = 0  and  sum c_k beta_k = 1

Each phase adds its signed contribution and is then forgotten. `docs/maths.md` has the derivation.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from engine.arrays import Array, FloatArray, OwnArray
from engine.backend import Backend
from engine.border import checked
from engine.equilibrium import Clamped, Equilibrium, Plan, Relaxation
from engine.errors import EngineError, NudgeWarning

Estimator: TypeAlias = tuple[tuple[float, float], ...]
EstimatorName = Literal["one_sided", "centered", "four_point"]
Recipe: TypeAlias = str | Estimator | Callable[[float], Estimator]
"""How to make an estimator for a beta: a name, a function, or the pairs themselves."""

SAFE_NUDGE = 0.1
"""Largest `beta * curvature of C` at which the bias was seen to stay small."""
MOST_POINTS = 32
"""Points beyond which the coefficients alternate so wildly that nothing is left of the gain."""
SMALLEST_NUDGE = 1e3
"""Smallest beta in roundings of the precision: below it the states barely move between phases, and
what is left of their difference is rounding."""
LARGEST_BETA = 0.1
"""Where `beta="auto"` starts for states, while the read-out is still weak."""
TINY_BETA = 1e-4
"""What `beta="auto"` is for displacements, which carry any: the bias of one nudge is of its order,
and few units lie so close to a kink that it takes them over."""

FIRM_BETA = 1.0
"""What `beta="auto"` is for displacements where outputs clip: a unit beyond its edge feels no
nudge but one that lifts it over, and this one goes as far as the target."""


@dataclass(frozen=True)
class Report:
    """How the phases of one estimate went, as means over the samples of the batch.

    Numbers; of a batch that lies in a remote backend's own arrays they lie there too.
    """

    cost: Any
    """At the free equilibrium."""
    free_steps: Any
    nudged_steps: Any
    """Of one nudged phase."""
    unsettled: Any
    """Share of samples, over all phases, that did not converge."""


@checked
def one_sided(beta: float) -> Estimator:
    """Free phase against one nudge; bias O(beta)."""
    _check_beta(beta)
    return ((0.0, -1 / beta), (beta, 1 / beta))


@checked
def centered(beta: float) -> Estimator:
    """Two opposite nudges; bias O(beta^2)."""
    return symmetric(beta, 2)


@checked
def four_point(beta: float) -> Estimator:
    """Four nudges at `+-beta / 2` and `+-beta`; bias O(beta^4)."""
    return symmetric(beta, 4)


@checked
def symmetric(beta: float, points: int) -> Estimator:
    """`points` nudges, evenly spaced and symmetric up to `+-beta`; bias O(beta^points).

    The coefficients are those of the finite difference: they cancel the even powers of beta by
    symmetry, and the odd ones above the first by a Vandermonde system.
    """
    _check_beta(beta)
    if not 2 <= points <= MOST_POINTS or points % 2:
        raise EngineError(
            f"a symmetric estimator has an even number of points, at most {MOST_POINTS}, "
            f"not {points}."
        )
    nodes = np.arange(1, points // 2 + 1) / (points // 2)
    odd_powers = nodes ** np.arange(1, points, 2)[:, None]
    first_only = np.zeros(len(nodes))
    first_only[0] = 0.5 / beta
    half = np.linalg.solve(odd_powers, first_only)
    negative = [(-beta * node, -c) for node, c in zip(nodes[::-1], half[::-1], strict=True)]
    positive = [(beta * node, c) for node, c in zip(nodes, half, strict=True)]
    return tuple((float(b), float(c)) for b, c in negative + positive)


@checked
def phases_of(recipe: Recipe, beta: float) -> Estimator:
    """Return the estimator that a recipe makes for this beta; pairs have their own betas."""
    if isinstance(recipe, str):
        return named_estimator(recipe, beta)
    _check_beta(beta)
    made = recipe(beta) if callable(recipe) else recipe
    check_estimator(made)
    return made


@checked
def named_estimator(name: str, beta: float) -> Estimator:
    """Return the estimator called `name` for this beta."""
    _check_beta(beta)
    return _made(name, float(beta))


@lru_cache(maxsize=64)
def _made(name: str, beta: float) -> Estimator:
    known = {"one_sided": one_sided, "centered": centered, "four_point": four_point}
    if name not in known:
        options = ", ".join(get_args(EstimatorName))
        raise EngineError(f"unknown estimator '{name}'; known: {options}.")
    return known[name](beta)


@checked
def check_estimator(estimator: Estimator) -> None:
    """Refuse pairs that do not estimate a derivative at `beta = 0`."""
    total = sum(c for _, c in estimator)
    slope = sum(beta * c for beta, c in estimator)
    scale = sum(abs(c) for _, c in estimator)
    if not (abs(total) <= 1e-9 * scale and abs(slope - 1.0) <= 1e-9):
        raise EngineError(
            f"estimator {estimator} has sum c = {total:g} and sum c beta = {slope:g}, "
            "expected 0 and 1."
        )


@checked
def estimate(
    backend: Backend,
    clamped: Clamped,
    estimator: Estimator,
    gradient: OwnArray,
    free: Relaxation | None = None,
    nudged: Relaxation | None = None,
    start: OwnArray | None = None,
) -> Report:
    """Write the estimated gradient of the mean cost, weighted if it is, into `gradient`.

    The free phase begins at `start (samples, units)`, or at `sigma(input drive)`.
    The read-out learns at the free equilibrium, where its gradient needs no estimate. Every nudged
    phase starts there too, as a displacement where the backend can (`Relaxation.displaced`). The
    tolerance of a phase in the estimate is scaled with beta.
    """
    if clamped.y is None:
        raise EngineError("a gradient needs targets y, but none were clamped.")
    backend.check_gradient(gradient)
    course = _course(backend, estimator, free, nudged)
    share = 1.0 / (len(clamped.x) if clamped.weights is None else float(clamped.weights.sum()))
    went: list[tuple[Any, Any]] = []
    for plus, minus, coefficient, stages in course.pairs:
        if not went:  # the first phases are relaxed along with the free one
            settled, *phases = backend.relax(clamped, (((0.0,), course.free), *stages), start)
            gradient[:] = 0.0
            costs = backend.accumulate(clamped, settled, gradient, cost=share)
            went.append(_how(settled))
        else:
            phases = [e for s in stages for e in backend.relax(clamped, (s,), settled.state)]
        reached = (beta for side_by_side, _ in stages for beta in side_by_side)
        at = {0.0: settled} | dict(zip(reached, phases, strict=True))
        phase = at[plus] if minus is None else at[plus].against(at[minus])
        backend.accumulate(clamped, phase, gradient, energy=coefficient * share)
        went += map(_how, phases)
    return _report(_mean(backend, costs, clamped.weights), went)


@checked
def estimate_anew(
    backend: Backend,
    x: OwnArray,
    y: OwnArray,
    estimator: Estimator,
    gradient: OwnArray,
    free: Relaxation | None = None,
    nudged: Relaxation | None = None,
    start: OwnArray | None = None,
) -> Report:
    """Do the same for a batch that is not clamped, in one piece where the backend can."""
    course = _course(backend, estimator, free, nudged)
    if len(course.pairs) == 1 and course.pairs[0][1] == 0.0:
        samples = len(x) if np.ndim(x) else 1  # what is no batch is refused below
        (_, _, coefficient, stages), share = course.pairs[0], 1.0 / max(1, samples)
        plan: Plan = (((0.0,), course.free), *stages)
        ways = {"energy": coefficient * share, "cost": share}
        learnt = backend.learn(x, y, plan, gradient, **ways, start=start)
        if learnt is not None:
            costs, found = learnt
            return _report(_mean(backend, costs), list(map(_how, found)))
    return estimate(backend, backend.clamp(x, y), estimator, gradient, free, nudged, start)


def _report(cost: Any, went: Sequence[tuple[Any, Any]]) -> Report:
    """Put together how the free and the nudged phases went."""
    (free_steps, _), *others = went
    return Report(
        cost,
        free_steps,
        sum(steps for steps, _ in others) / len(others),
        sum(unsettled for _, unsettled in went) / len(went),
    )


class _Course(NamedTuple):
    """What an estimate does: how it looks for the free state, and the pairs that it compares.

    A pair has its betas, its coefficient, and the stages that lead there.
    """

    free: Relaxation
    pairs: tuple[tuple[float, float | None, float, Plan], ...]
    displaced: bool


def _course(
    backend: Backend, estimator: Estimator, free: Relaxation | None, nudged: Relaxation | None
) -> _Course:
    """Return the course of an estimate, and warn of a nudge that would drown in rounding."""
    precision: np.dtype[Any] = np.dtype(backend.dtype)
    free = free or Relaxation()
    course = _planned(estimator, free, nudged or free, backend.displaces, precision)
    _warn_lost(estimator, precision, course.displaced)
    return course


@lru_cache(maxsize=64)  # the same in every step of a training
def _planned(
    estimator: Estimator,
    free: Relaxation,
    nudged: Relaxation,
    displaces: bool,
    precision: np.dtype[Any],
) -> _Course:
    check_estimator(estimator)
    displaced = nudged.displaces(displaces)
    nudged = replace(nudged, displaced=displaced)
    # A state is at most one, or about that; a displacement is as small as beta.
    rounding = 0.0 if displaced else 8.0 * float(np.finfo(precision).eps)
    betas = [beta for beta, _ in estimator]
    if 0.0 in betas and not displaced:  # then the error of the free state counts as much
        free = free.nudged(min(abs(beta) for beta in betas if beta != 0.0), rounding)
    pairs = tuple(
        (plus, minus, c, _stages([plus] if minus is None else [plus, minus], nudged, rounding))
        for plus, minus, c in _pairs(estimator, displaced)
    )
    return _Course(free, pairs, displaced)


def _stages(betas: Sequence[float], nudged: Relaxation, rounding: float) -> Plan:
    """Nudges of the same size are relaxed side by side, with a tolerance that fits them."""
    sizes = dict.fromkeys(abs(beta) for beta in betas if beta != 0.0)
    return tuple(
        (tuple(b for b in betas if abs(b) == size), nudged.nudged(size, rounding)) for size in sizes
    )


def _pairs(
    estimator: Estimator, displaced: bool = False
) -> list[tuple[float, float | None, float]]:
    """Join phases of opposite coefficients: `(beta, beta to subtract, coefficient)`.

    Displacements that are left over are compared with the free state: all coefficients add up to
    zero, so that it cancels.
    """
    pairs: list[tuple[float, float | None, float]] = []
    single: list[tuple[float, float]] = []
    for beta, coefficient in estimator:
        partner = next((phase for phase in single if phase[1] == -coefficient), None)
        if partner is None:
            single.append((beta, coefficient))
        else:
            single.remove(partner)
            pairs.append((beta, partner[0], coefficient))
    if displaced:
        return pairs + [(beta, 0.0, coefficient) for beta, coefficient in single if beta != 0.0]
    return pairs + [(beta, None, coefficient) for beta, coefficient in single]


def _how(equilibrium: Equilibrium) -> tuple[Any, Any]:
    """Return the mean number of steps, and the share of samples that did not converge."""
    steps, converged = equilibrium.steps, equilibrium.converged
    count = len(steps)
    if isinstance(steps, np.ndarray):
        return float(steps.sum()) / count, 1.0 - int(np.count_nonzero(converged)) / count
    return steps.sum() / count, 1.0 - converged.sum() / count


def _mean(backend: Backend, costs: Array, weights: FloatArray | None = None) -> Any:
    """Return the mean cost of the samples, weighted if they are."""
    if isinstance(costs, np.ndarray):
        return float(np.average(costs, weights=weights))
    if weights is None:
        return costs.mean()
    return (costs * backend.own(weights)).sum() / float(weights.sum())


def safe_beta(backend: Backend) -> float:
    """Return the largest beta that keeps `beta * curvature` within the safe range."""
    curvature = backend.network.readout.curvature(backend.params)
    inside = (1 - 1e-9) * SAFE_NUDGE  # so that rounding does not bring the product over the range
    return min(LARGEST_BETA, inside / max(curvature, 1e-30))


def warn_unsafe(backend: Backend, beta: float) -> bool:
    """Warn when `beta` times the curvature of the cost is not safe; say whether it is not.

    For a softmax that curvature is `||W_out||^2`.
    """
    curvature = backend.network.readout.curvature(backend.params)
    unsafe = beta * curvature > SAFE_NUDGE
    if unsafe:
        warnings.warn(
            f"beta {beta:g} times the curvature of the cost {curvature:.3g} is "
            f"{beta * curvature:.2g}, over the safe {SAFE_NUDGE:g}: the gradient may be wrong; "
            f"use beta {SAFE_NUDGE / curvature:.2g} or 'auto'.",
            NudgeWarning,
            stacklevel=4,
        )
    return unsafe


def _warn_lost(
    estimator: Estimator, precision: np.dtype[np.floating[Any]], displaced: bool
) -> None:
    """Warn of a nudge that the precision of states, or of displacements, cannot carry."""
    beta = min(abs(beta) for beta, _ in estimator if beta != 0.0)
    least = _least_nudge(precision, displaced)
    if beta < least:
        what = "displacements" if displaced else "states"
        warnings.warn(
            f"beta {beta:g} is below {least:.1g}, the least that {what} in {precision} carry: the "
            "gradient drowns in rounding; use a larger beta or 'auto'.",
            NudgeWarning,
            stacklevel=5,
        )


@cache
def _least_nudge(precision: np.dtype[np.floating[Any]], displaced: bool) -> float:
    """Return the smallest beta that a precision can carry."""
    limits = np.finfo(precision)
    least = limits.tiny / limits.eps if displaced else SMALLEST_NUDGE * limits.eps
    return float(least)


def _check_beta(beta: float) -> None:
    if not (math.isfinite(beta) and beta > 0.0):
        raise EngineError(f"beta is {beta}, expected a positive number.")
