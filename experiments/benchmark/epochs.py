"""Part 2: an epoch of training, its multiply-adds, and the time to a stated validation accuracy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from adapters.torch_backend import TorchBackend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.training import Training
from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.benchmark.against.worker import tuned_training
from experiments.benchmark.learners import EqPropLearner, feedforward, unrolled
from experiments.benchmark.timing import Spread, fixed_threads, spread
from experiments.benchmark.turns import Course, EpochLearner, train_in_turns
from experiments.benchmark.work import backprop_macs, eqprop_macs, unrolled_macs
from experiments.tasks import TASKS, Split, TaskError

EQPROP = "EqProp, numba"
LAYERED = "EqProp, numba, layered"
EQPROP_TORCH = "EqProp, torch backend"
BACKPROP = "backprop, feed-forward"
BPTT = "BPTT, same looped net"
SHORT_BPTT = "BPTT, few steps"
TWINS = (BACKPROP, EQPROP, LAYERED)
"""Who is timed with further batch sizes."""
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
    """Of the networks that relax; the feed-forward one has ReLU."""
    cap: float = 0.5
    """MNIST does as well without recurrence, so a loop that contracts by half costs it nothing."""
    most_steps: tuple[int, int] = (3, 2)
    """Steps, or sweeps where there are several layers, of a free phase of EqProp at most."""
    most_nudged: int = 2
    """Of a nudged one. With that cap the gradient gains nothing by more (docs/performance.md)."""
    timed_epochs: int = 2
    """Rounds with each further number of threads or batch size, which measure the epoch alone."""
    further_batch: int | None = 64

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Inputs, two layers and outputs."""
        task = TASKS[self.task]
        return (task.inputs, self.hidden, self.hidden, task.classes)

    def looped(self) -> Network:
        """Return the network of one layer that has as many parameters as the one of two."""
        inputs, hidden, _, classes = self.sizes
        return looped_mlp(inputs, hidden, classes, self.activation)


DIGITS = EpochContest(
    "digits",
    0.97,
    20,
    hidden=128,
    batch_size=32,
    lr=6e-3,
    activation="tanh",
    cap=0.95,
    most_steps=(20, 20),
    most_nudged=8,
)
CONTESTS = (EpochContest("mnist", 0.98, 10), DIGITS)
"""In the order of preference: the first whose data is there."""


@dataclass(frozen=True)
class Entrant:
    """A contestant: what trains it, its parameters, and its multiply-adds of a sample's step."""

    learner: EpochLearner
    parameters: int
    macs: Callable[[], float]
    """Asked after training: EqProp's depend on the steps that it took."""


@dataclass(frozen=True)
class Race:
    """One contestant of part 2.

    `seconds_to_accuracy` adds the epochs up to the first that reached the stated accuracy, without
    the validation; `None` if none did. `ratio` is that of an epoch to one of backprop in the
    same round, `macs` the multiply-adds of a sample in a training step.
    """

    contestant: str
    threads: int
    batch: int
    parameters: int
    macs: float
    macs_ratio: float
    """Over those of backprop."""
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


def eqprop_training(contest: EpochContest, network: Network) -> Training:
    """Return those of EqProp on a network: no phase takes more steps than its gradient needs."""
    training = benchmark_training(contest)
    free, nudged = training.settled, cast(Relaxation, training.nudged)
    most = contest.most_steps[len(network.layers) > 1]
    return replace(
        training,
        free=replace(free, max_steps=most),
        nudged=replace(nudged, max_steps=contest.most_nudged),
    )


def prepare_entrants(contest: EpochContest, split: Split) -> dict[str, Entrant]:
    """Build every contestant."""
    training, network = benchmark_training(contest), contest.looped()
    params = initial_params(network, np.random.default_rng(SEED))
    deep = layered(contest.sizes, contest.activation)
    deep_params = initial_params(deep, np.random.default_rng(SEED))
    looped, sweeping = (eqprop_training(contest, one) for one in (network, deep))
    entrants = {
        BACKPROP: Entrant(
            feedforward(contest.sizes, split, training), deep.size, lambda: backprop_macs(deep)
        ),
        EQPROP: relaxing(EqPropLearner(NumbaBackend(network, params), split, looped), network),
        LAYERED: relaxing(EqPropLearner(NumbaBackend(deep, deep_params), split, sweeping), deep),
        EQPROP_TORCH: relaxing(
            EqPropLearner(TorchBackend(network, params, "cpu"), split, looped), network
        ),
    }
    for name, steps in ((BPTT, training.settled.max_steps), (SHORT_BPTT, SHORT_STEPS)):
        learner = unrolled(network, params, steps, split, training)
        floor = unrolled_macs(network, steps)
        entrants[name] = Entrant(learner, network.size, lambda floor=floor: floor)  # type: ignore[misc]
    return entrants


def relaxing(learner: EqPropLearner, network: Network) -> Entrant:
    """Return the entrant that trains a network by EqProp."""
    return Entrant(learner, network.size, lambda: eqprop_macs(network, learner.took))


def measure_epochs(
    contest: EpochContest, split: Split, threads: Sequence[int], on_round: Callable[[str], None]
) -> list[Race]:
    """Train all contestants, epoch by epoch in turn; the first number of threads goes all the way.

    A contestant that has reached the accuracy stops, once it has been timed often enough. With a
    further batch size EqProp and backprop are timed alone.
    """
    races: list[Race] = []
    few = replace(contest, epochs=contest.timed_epochs)
    for count in threads:
        with fixed_threads(count):
            races += _run_races(
                contest if count == threads[0] else few, split, count, on_round, None
            )
            if contest.further_batch is not None:
                other = replace(few, batch_size=contest.further_batch)
                races += _run_races(other, split, count, on_round, TWINS)
    return races


def _run_races(
    contest: EpochContest,
    split: Split,
    threads: int,
    on_round: Callable[[str], None],
    only: Sequence[str] | None,
) -> list[Race]:
    _warm_up(split, contest)
    entrants = prepare_entrants(contest, split)
    chosen = {name: e for name, e in entrants.items() if only is None or name in only}

    def is_done(name: str, courses: Mapping[str, Course]) -> bool:
        # Backprop goes on while others do: their ratios need its rounds.
        asked = courses if name == BACKPROP else (name,)
        reached = [courses[other].accuracies for other in asked]
        return all(len(r) >= contest.timed_epochs and max(r) >= contest.accuracy for r in reached)

    learners = {name: entrant.learner for name, entrant in chosen.items()}
    title = f"batch {contest.batch_size}, "
    courses = train_in_turns(
        learners, contest.epochs, threads, lambda note: on_round(title + note), is_done
    )
    return [_race(name, threads, contest, chosen, courses) for name in chosen]


def _race(
    name: str,
    threads: int,
    contest: EpochContest,
    entrants: dict[str, Entrant],
    courses: dict[str, Course],
) -> Race:
    own, course, macs = entrants[name], courses[name], entrants[name].macs()
    goal = contest.accuracy
    reached = next((k + 1 for k, found in enumerate(course.accuracies) if found >= goal), None)
    return Race(
        name,
        threads,
        contest.batch_size,
        own.parameters,
        macs,
        macs / entrants[BACKPROP].macs(),
        spread(course.seconds),
        course.over(courses[BACKPROP]),
        tuple(course.accuracies),
        reached,
        sum(course.seconds[:reached]) if reached else None,
        own.learner.note,
    )


def _warm_up(split: Split, contest: EpochContest) -> None:
    """Compile the kernels and wake the libraries on a few batches, which are not timed."""
    few = replace(split, x_train=split.x_train[:256], y_train=split.y_train[:256])
    for entrant in prepare_entrants(contest, few).values():
        entrant.learner.train_epoch()
