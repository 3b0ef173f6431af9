"""Part 5: training with no settings at all, against backprop with the same batches and rate.

`Training()` is what a new user gets. Everything else here is the same for all: the samples, their
order, Adam with its default rate, the schedule and the number of epochs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.compiled.backend import NumbaBackend
from engine.learning.training import Training
from engine.model.builders import layered
from engine.model.params import initial_params
from experiments.benchmark.epochs import (
    BACKPROP,
    EQPROP,
    LAYERED,
    SEED,
    Entrant,
    EpochContest,
    relaxing,
)
from experiments.benchmark.learners import EqPropLearner, feedforward
from experiments.benchmark.timing import Spread, fixed_threads, spread
from experiments.benchmark.turns import train_in_turns
from experiments.benchmark.work import backprop_macs
from experiments.tasks import Split

SAMPLES = 10_000
"""Training samples of an epoch, where there are as many, and what seconds are given for."""
EPOCHS = 5
FURTHER_BATCH = 64


@dataclass(frozen=True)
class DefaultsRace:
    """One contestant: seconds for 10,000 samples, and over those of backprop in the same round.

    `accuracy` is that on `held_out` samples after the last epoch.
    """

    contestant: str
    threads: int
    batch: int
    parameters: int
    seconds: Spread
    ratio: Spread
    macs_ratio: float
    accuracy: float
    held_out: int
    note: str


def measure_defaults(
    contest: EpochContest, split: Split, threads: Sequence[int], on_round: Callable[[str], None]
) -> list[DefaultsRace]:
    """Train with the default batch size and a further one, with every number of threads."""
    part = replace(split, x_train=split.x_train[:SAMPLES], y_train=split.y_train[:SAMPLES])
    races: list[DefaultsRace] = []
    for count in threads:
        with fixed_threads(count):
            for batch in dict.fromkeys((Training().batch_size, FURTHER_BATCH)):
                races += _race(contest, part, batch, count, on_round)
    return races


def prepare_defaults(contest: EpochContest, split: Split, batch: int) -> dict[str, Entrant]:
    """Build backprop, and both networks for EqProp with the settings that nobody chose."""
    training = Training(epochs=EPOCHS, batch_size=batch)
    networks = {EQPROP: contest.looped(), LAYERED: layered(contest.sizes, contest.activation)}
    deep = networks[LAYERED]
    entrants = {
        BACKPROP: Entrant(
            feedforward(contest.sizes, split, training), deep.size, lambda: backprop_macs(deep)
        )
    }
    for name, network in networks.items():
        params = initial_params(network, np.random.default_rng(SEED))
        learner = EqPropLearner(NumbaBackend(network, params), split, training)
        entrants[name] = relaxing(learner, network)
    return entrants


def _race(
    contest: EpochContest,
    split: Split,
    batch: int,
    threads: int,
    on_round: Callable[[str], None],
) -> list[DefaultsRace]:
    few = replace(split, x_train=split.x_train[:256], y_train=split.y_train[:256])
    for entrant in prepare_defaults(contest, few, batch).values():
        entrant.learner.train_epoch()  # compiles and wakes the libraries
    entrants = prepare_defaults(contest, split, batch)
    learners = {name: entrant.learner for name, entrant in entrants.items()}
    courses = train_in_turns(
        learners, EPOCHS, threads, lambda note: on_round(f"defaults, batch {batch}, {note}")
    )
    share = SAMPLES / len(split.x_train)
    return [
        DefaultsRace(
            name,
            threads,
            batch,
            entrant.parameters,
            spread(share * np.array(courses[name].seconds)),
            courses[name].over(courses[BACKPROP]),
            entrant.macs() / entrants[BACKPROP].macs(),
            courses[name].accuracies[-1],
            len(split.x_valid),
            entrant.learner.note,
        )
        for name, entrant in entrants.items()
    ]
