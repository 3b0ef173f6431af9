"""How long to look for the equilibria of a training step: as long as its gradient gains by it.

A gradient is as large as the errors that it comes from. A state that is off by `tau` puts the error
of a sample off by about as much, so `tau` has to shrink as the errors do. Their scale is the root
of the mean cost: half a squared error has that by definition, and of a cross-entropy it lies
between the error of a sample that is wrong and that of one that is nearly right.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from engine.backend import Backend
from engine.equilibrium import Relaxation, Solver

FREE, NUDGED = 0.01, 2.5e-3
"""Tolerances of the free phase, and of a nudged one in proportion to its beta, at a cost of one."""
FIRM = 0.5
"""Beta of a nudge beyond which whole steps of outputs settle slowly, or never."""
TIGHTEST = 1e-5
"""Of the free phase: below it float32 has little left to find."""


def automatic(
    backend: Backend, cost: float = 1.0, beta: float = 0.0
) -> tuple[Relaxation, Relaxation]:
    """Return how to look for the free and the nudged equilibria of a step at this mean cost.

    Where units are compared with targets, a step of theirs under the nudge `beta` goes beyond their
    equilibrium by beta times as much as they were away from it: `1 / (1 + beta)` of it ends there.

    A displacement carries on what the free state lacks, so both may be loose; where nudged phases
    are states, both are tight. Layers take turns where there are several and the backend can.
    """
    if not backend.displaces:
        return Relaxation(), Relaxation(max_steps=15)
    takes_turns = len(backend.network.layers) > 1 and "sweeps" in backend.solvers
    return _paced("sweeps" if takes_turns else "fixed_point", cost, beta if beta > FIRM else 0.0)


@lru_cache(maxsize=64)  # the same for all steps of an epoch
def _paced(solver: Solver, cost: float, beta: float) -> tuple[Relaxation, Relaxation]:
    scale = float(np.clip(np.sqrt(cost), TIGHTEST / FREE, 1.0))
    free = Relaxation(tolerance=scale * FREE, solver=solver)
    nudged = replace(free, max_steps=15, tolerance=scale * NUDGED, displaced=True)
    if beta > 0.0:
        damping = 1.0 / (1.0 + beta)
        nudged = replace(nudged, max_steps=30, solver="fixed_point", damping=damping)
    return free, nudged
