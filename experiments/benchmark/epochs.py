"""Part 2: an epoch of training, and the time to a stated validation accuracy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from adapters.torch_backend import TorchBackend
from engine.compiled.backend import NumbaBackend
from engine.learning.training import Training
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.benchmark.against.worker import tuned_training
from experiments.benchmark.learners import EpochLearner, EqPropLearner, feedforward, unrolled
from experiments.benchmark.timing import Spread, fixed_threads, seconds_of, spread
from experiments.tasks import TASKS, Split, TaskError

EQPROP = "EqProp, numba"
EQPROP_TORCH = "EqProp, torch backend"
BACKPROP = "backprop, feed-forward"
BPTT = "BPTT, same looped net"
SHORT_BPTT = "BPTT, few steps"
SEED = 7

SHORT_STEPS = 5
"""About what the free phase needs on average: a BPTT that knows it may stop there."""


@dataclass(frozen=True)
class EpochContest:
    """A task, the accuracy to reach on its validation part, and how long to try."""

    task: str
    accuracy: float
    epochs: int
    hidden: int = 256
    batch_size: int = 128
    lr: float = 2.5e-3
    activation: str = "relu"
    """Of the looped network; the feed-forward one has ReLU."""
    cap: float = 0.5
    """MNIST does as well without recurrence, so a loop that contracts by half costs it nothing."""
    timed_epochs: int = 2
    """Rounds with each further number of threads, which measure the epoch alone."""


DIGITS = EpochContest(
    "digits", 0.97, 20, hidden=128, batch_size=32, lr=6e-3, activation="tanh", cap=0.95
)
CONTESTS = (EpochContest("mnist", 0.98, 10), DIGITS)
"""In the order of preference: the first whose data is there."""


@dataclass(frozen=True)
class Race:
    """One contestant of part 2.

    `seconds_to_accuracy` adds the epochs up to the first that reached the stated accuracy, without
    the validation; `None` if none did. `ratio` is that of an epoch to one of backprop in the
    same round.
    """

    contestant: str
    threads: int
    parameters: int
    epoch_seconds: Spread
    ratio: Spread
    accuracies: tuple[float, ...]
    epochs_to_accuracy: int | None
    seconds_to_accuracy: float | None
    note: str


def find_contest(
    contests: Sequence[EpochContest] = CONTESTS,
) -> tuple[EpochContest, Split, list[str]]:
    """Return the first contest whose data is present, and a note where it is not the first."""
    notes: list[str] = []
    for contest in contests:
        try:
            return contest, TASKS[contest.task].load(SEED), notes
        except TaskError as error:
            notes.append(f"{TASKS[contest.task].title} was not measured: {error}")
    raise TaskError("no data set of the benchmark is present.")


def benchmark_training(contest: EpochContest) -> Training:
    """Return the settings of all contestants."""
    training: Training = tuned_training(
        contest.epochs, contest.batch_size, contest.lr, contest.cap, SEED
    )
    return training


def prepare_learners(contest: EpochContest, split: Split) -> dict[str, tuple[EpochLearner, int]]:
    """Build every contestant with its number of parameters."""
    task, training = TASKS[contest.task], benchmark_training(contest)
    hidden = contest.hidden
    network = looped_mlp(task.inputs, hidden, task.classes, contest.activation)
    params = initial_params(network, np.random.default_rng(SEED))
    sizes = (task.inputs, hidden, hidden, task.classes)
    forward = sum(a * b + b for a, b in pairwise(sizes))
    steps = training.free.max_steps
    return {
        BACKPROP: (feedforward(sizes, split, training), forward),
        EQPROP: (EqPropLearner(NumbaBackend(network, params), split, training), network.size),
        EQPROP_TORCH: (
            EqPropLearner(TorchBackend(network, params, "cpu"), split, training),
            network.size,
        ),
        BPTT: (unrolled(network, params, steps, split, training), network.size),
        SHORT_BPTT: (unrolled(network, params, SHORT_STEPS, split, training), network.size),
    }


def measure_epochs(
    contest: EpochContest, split: Split, threads: Sequence[int], on_round: Callable[[str], None]
) -> list[Race]:
    """Train all contestants, epoch by epoch in turn; the first number of threads goes all the way.

    A contestant that has reached the accuracy stops, once it has been timed often enough.
    """
    races: list[Race] = []
    for count in threads:
        limit = contest.epochs if count == threads[0] else contest.timed_epochs
        with fixed_threads(count):
            races += _run_races(contest, split, count, limit, on_round)
    return races


def _run_races(
    contest: EpochContest, split: Split, threads: int, limit: int, on_round: Callable[[str], None]
) -> list[Race]:
    learners = prepare_learners(contest, split)
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    accuracies: dict[str, list[float]] = {name: [] for name in learners}
    _warm_up(split, contest)
    for number in range(limit):
        for name, (learner, _) in learners.items():
            reached = max(accuracies[name], default=0.0) >= contest.accuracy
            if reached and number >= contest.timed_epochs and name != BACKPROP:
                continue  # backprop goes on: the ratios of the others need its rounds
            on_round(f"epoch {number + 1}, {threads} thread(s): {name}")
            seconds[name].append(seconds_of(learner.train_epoch))
            accuracies[name].append(learner.accuracy())
        done = all(max(found) >= contest.accuracy for found in accuracies.values())
        if done and number + 1 >= contest.timed_epochs:
            break
    return [
        _race(name, threads, *learners[name], seconds, accuracies[name], contest.accuracy)
        for name in learners
    ]


def _race(
    name: str,
    threads: int,
    learner: EpochLearner,
    parameters: int,
    seconds: dict[str, list[float]],
    accuracies: list[float],
    goal: float,
) -> Race:
    own = np.array(seconds[name])
    ratios = own / np.array(seconds[BACKPROP])[: len(own)]
    reached = next((k + 1 for k, found in enumerate(accuracies) if found >= goal), None)
    return Race(
        name,
        threads,
        parameters,
        spread(own),
        spread(ratios),
        tuple(accuracies),
        reached,
        float(own[:reached].sum()) if reached else None,
        learner.note,
    )


def _warm_up(split: Split, contest: EpochContest) -> None:
    """Compile the kernels and wake the libraries on a few batches, which are not timed."""
    few = replace(split, x_train=split.x_train[:256], y_train=split.y_train[:256])
    for learner, _ in prepare_learners(contest, few).values():
        learner.train_epoch()
