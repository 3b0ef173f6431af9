"""Choose learning rate and beta of each learner and substrate on the validation part."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from experiments.hardware.job import Job, Outcome
from experiments.hardware.settings import LOOPED, Settings, learners_of
from experiments.tasks import Task

SEEDS = (7, 8)
"""No reported run uses them."""
LEARNING_RATES = (8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
BETAS = (0.3, 0.6, 1.0)
"""Of the looped network; on the others beta is what is set."""


def tuning_jobs(
    task: Task, substrates: Sequence[str], settings: Settings, network: str = LOOPED
) -> list[Job]:
    """Return one training for every point of the grid; a rival has no beta."""
    jobs, betas = [], BETAS if network == LOOPED else (settings.beta,)
    for substrate, learner, lr in product(substrates, learners_of(network), LEARNING_RATES):
        for beta in betas if learner == "eqprop" else (settings.beta,):
            point = replace(settings, lr=lr, beta=beta, looks=1)
            label = f"--set lr={lr:g}" + (f" --set beta={beta:g}" if learner == "eqprop" else "")
            jobs += [Job(task, learner, substrate, seed, point, label, network) for seed in SEEDS]
    return jobs


def choose(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], tuple[str, float]]:
    """Return the best point of each contender and its accuracy on the validation part."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for outcome in outcomes:
        key = outcome.learner, outcome.substrate, outcome.label
        scores.setdefault(key, []).append(outcome.curve[-1].accuracy)
    best: dict[tuple[str, str], tuple[str, float]] = {}
    for (learner, substrate, label), values in scores.items():
        mean = float(np.mean(values))
        if mean > best.get((learner, substrate), ("", -1.0))[1]:
            best[learner, substrate] = (label, mean)
    return best
