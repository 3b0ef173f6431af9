"""Choose learning rate and beta of each contender on the validation part."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from experiments.hardware.runs import Job, Outcome
from experiments.hardware.settings import RIVALS, Settings
from experiments.tasks import Task

SEEDS = (7, 8)
"""No reported run uses them."""
LEARNING_RATES = (2e-3, 4e-3, 8e-3)
BETAS = (0.1, 0.3, 0.6)


def tuning_jobs(task: Task, contenders: Sequence[str], settings: Settings) -> list[Job]:
    """Return one training for every point of the grid; a rival has no beta."""
    jobs = []
    for name, lr in product(contenders, LEARNING_RATES):
        for beta in BETAS if name not in RIVALS else (settings.beta,):
            point = replace(settings, lr=lr, beta=beta)
            jobs += [Job(task, name, seed, point, f"lr {lr:g}, beta {beta:g}") for seed in SEEDS]
    return jobs


def choose(outcomes: Sequence[Outcome]) -> dict[str, tuple[str, float]]:
    """Return the best point of each contender and its accuracy on the validation part."""
    scores: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        scores.setdefault((outcome.contender, outcome.label), []).append(outcome.valid_accuracy)
    best: dict[str, tuple[str, float]] = {}
    for (contender, label), values in scores.items():
        mean = float(np.mean(values))
        if contender not in best or mean > best[contender][1]:
            best[contender] = (label, mean)
    return best
