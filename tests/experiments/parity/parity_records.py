"""Invented records, only to test what a report makes of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from experiments.records import EpochPoint, Record

SEEDS = (42, 43, 44)
SHIFTS = (-0.0004, 0.0, 0.0004)
"""What a seed adds to every accuracy."""

TASK_TITLES = {"digits": "Digits 8x8", "mnist": "MNIST", "cartpole": "CartPole-BC"}
LEVELS = {
    "eqprop_looped": 0.985,
    "eqprop_layered": 0.9845,
    "backprop_looped": 0.9851,
    "backprop_feedforward": 0.9849,
    "no_recurrence": 0.97,
    "frozen_recurrence": 0.98,
    "readout_only": 0.9,
    "flipped_sign": 0.05,
}
SETTINGS = {"hidden": 32, "epochs": 4, "lr": 0.002, "beta": 0.02, "cap": 0.95}
BEST = {"digits": "backprop_feedforward", "cartpole": "backprop_looped"}


def make_records(
    tasks: Iterable[str] = ("digits", "cartpole"),
    levels: Mapping[str, float] = LEVELS,
    seeds: tuple[int, ...] = SEEDS,
) -> list[Record]:
    """Return a run of every contestant with every seed on every task."""
    return [
        make_record(task, name, seed, level + SHIFTS[k % 3])
        for task in tasks
        for name, level in levels.items()
        for k, seed in enumerate(seeds)
    ]


def make_record(task: str, name: str, seed: int, accuracy: float, n_test: int = 10_000) -> Record:
    """Return one run that ended with that accuracy."""
    returns = None
    if task == "cartpole":
        rng = np.random.default_rng(seed)
        clone = (490.0 + rng.integers(0, 10, 20)).tolist()
        returns = {"clone": clone, "expert": [500.0] * 20, "random": [22.0] * 20}
    return Record(
        task=task,
        title=TASK_TITLES.get(task, task),
        contestant=name,
        seed=seed,
        accuracy=accuracy,
        cost=0.1,
        n_test=n_test,
        majority_rate=0.5,
        parameters=1000 + len(name),
        settings=dict(SETTINGS),
        curve=tuple(_point(epoch, name, accuracy) for epoch in range(1, 5)),
        returns=returns,
        seconds=2.0,
    )


def _point(epoch: int, name: str, accuracy: float) -> EpochPoint:
    point = EpochPoint(epoch, cost=1.0 / epoch, accuracy=accuracy * (1 - 0.1**epoch), seconds=0.5)
    if not name.startswith("eqprop"):
        return point
    return replace(
        point, free_steps=10.0 + epoch, nudged_steps=5.0, unsettled=0.01, cosine=1 - 0.001 * epoch
    )
