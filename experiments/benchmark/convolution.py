"""Part 4: training a convolutional network, its accuracy, its work, and its memory over sweeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.optimizer import Adam
from engine.learning.scale import calibrated, relative_rates
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training
from engine.model.builders import conv_net
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.benchmark.growth import GrowthPoint, run_probe
from experiments.benchmark.image_learners import PlainEqPropLearner, planes_of, stack_of_planes
from experiments.benchmark.learners import EqPropLearner
from experiments.benchmark.probe import Setting
from experiments.benchmark.timing import Spread, fixed_threads, spread
from experiments.benchmark.torch_eqprop import Sweeps
from experiments.benchmark.turns import EpochLearner, train_in_turns
from experiments.benchmark.work import StepsTaken, backprop_macs, eqprop_macs
from experiments.tasks import IMAGE_TASKS, Image, Split, TaskError
from experiments.vision.settings import VisionSettings

EQPROP, PLAIN, BACKPROP = "EqProp, numba", "EqProp, plain torch", "backprop, same layers"
SETTLED = "EqProp, numba, to tolerance"
SEED = 7
CALIBRATED_ON = 256
"""Training images that set the scale of the starting parameters."""
FEW = Sweeps(free=2, nudged=2)
"""Fewer than settle the network: the contestant to tolerance shows what that does to accuracy."""
SWEEPS = (2, 8, 32)
"""Along which memory is measured."""
SWEPT_CHANNELS = (32, 64)


@dataclass(frozen=True)
class ImageContest:
    """A network and the images it learns; a few of them, so that a run takes a minute or two."""

    task: str
    image: Image
    """What the network sees; smaller images get a border of zeros, grey ones equal channels."""
    channels: tuple[int, ...]
    images: int
    epochs: int
    held_out: int = 4_000
    batch_size: int = 64
    lr: float = 2e-3
    sweeps: Sweeps = FEW
    cap: float = 0.95
    timed_epochs: int = 2
    """Rounds with each further number of threads, which measure the epoch alone."""

    @property
    def title(self) -> str:
        """Say what the network sees, and its channels."""
        return f"{'x'.join(map(str, self.image))}, {'-'.join(map(str, self.channels))}"


FASHION = ImageContest("fashion_mnist_10k", (28, 28, 1), (32, 64), 3_072, 5)
LARGE = ImageContest("fashion_mnist_10k", (32, 32, 3), (32, 64, 128), 1_536, 5)
SMALL = ImageContest("digits", (8, 8, 1), (16, 32), 1_024, 6)
CONTESTS = (FASHION, LARGE)


@dataclass(frozen=True)
class ImageRace:
    """One contestant on one task; ratios are those of epochs of the same round.

    `macs` are the multiply-adds of one image in one training step, in millions; `None` where each
    image takes as many as it needs. Accuracies are on `held_out` images, after each epoch.
    """

    contestant: str
    task: str
    network: str
    threads: int
    parameters: int
    macs: float | None
    epoch_seconds: Spread
    ratio: Spread
    over_eqprop: Spread
    accuracies: tuple[float, ...]
    held_out: int
    note: str


def find_images(
    contests: Sequence[ImageContest] = CONTESTS,
) -> tuple[list[tuple[ImageContest, Split]], list[str]]:
    """Return the contests whose images are present, else the digits, and notes on the others."""
    found: list[tuple[ImageContest, Split]] = []
    notes: list[str] = []
    for contest in contests:
        try:
            split = IMAGE_TASKS[contest.task].load(SEED)
        except TaskError as error:
            notes.append(f"{contest.title} was not measured: {error}")
            continue
        found.append((contest, some_images(contest, split)))
    if not found:
        found = [(SMALL, some_images(SMALL, IMAGE_TASKS[SMALL.task].load(SEED)))]
    return found, notes


def some_images(contest: ImageContest, split: Split) -> Split:
    """Return the images that a contest uses, in its size."""
    own = cast(Image, IMAGE_TASKS[contest.task].image)
    return replace(
        split,
        x_train=_enlarged(split.x_train[: contest.images], own, contest.image),
        y_train=split.y_train[: contest.images],
        x_valid=_enlarged(split.x_valid[: contest.held_out], own, contest.image),
        y_valid=split.y_valid[: contest.held_out],
    )


def _enlarged(x: FloatArray, own: Image, image: Image) -> FloatArray:
    """Put images in the middle of larger ones, and repeat their channels."""
    borders = [
        ((new - old) // 2, (new - old + 1) // 2) for old, new in zip(own, image, strict=True)
    ]
    padded = np.pad(x.reshape(-1, *own), ((0, 0), *borders[:2], (0, 0)))
    repeated: FloatArray = np.repeat(padded, image[2] // own[2], axis=3)
    return repeated.reshape(len(x), -1)


def measure_images(
    contest: ImageContest, split: Split, threads: Sequence[int], on_round: Callable[[str], None]
) -> list[ImageRace]:
    """Train all contestants, epoch by epoch in turn; the first number of threads goes all the way.

    The others stop after as many epochs as it takes to time them.
    """
    races: list[ImageRace] = []
    for count in threads:
        epochs = contest.epochs if count == threads[0] else contest.timed_epochs
        with fixed_threads(count):
            races += _run_races(contest, split, count, epochs, on_round)
    return races


def network_of(contest: ImageContest) -> Network:
    """Return the network that relaxes, and whose layers the feed-forward one has."""
    task = IMAGE_TASKS[contest.task]
    return conv_net(contest.image, contest.channels, task.classes)


def prepare_learners(contest: ImageContest, split: Split) -> dict[str, EpochLearner]:
    """Build every contestant: EqProp from one calibrated start, backprop from torch's own.

    With the tolerances of the vision experiment, EqProp sweeps as often as each sample needs.
    """
    network, seen = network_of(contest), split.x_train[:CALIBRATED_ON]
    start = initial_params(network, np.random.default_rng(SEED))
    params = calibrated(start, seen, contest.cap)
    free, nudged = (Relaxation(count, 0.0, "sweeps") for count in contest.sweeps)
    usual = VisionSettings()
    training = Training(
        epochs=contest.epochs,
        batch_size=contest.batch_size,
        free=free,
        nudged=nudged,
        optimizer=Adam(contest.lr),
        cap=SpectralCap(contest.cap, iterations=1),
        rates=relative_rates(params, seen),
        seed=SEED,
    )
    settled = replace(
        training,
        free=Relaxation(usual.free_steps, usual.tolerance, "sweeps"),
        nudged=Relaxation(usual.nudged_steps, usual.nudged_tolerance, "sweeps"),
    )
    planes = planes_of(split, contest.image)
    return {
        BACKPROP: stack_of_planes(network, planes, training),
        EQPROP: EqPropLearner(NumbaBackend(network, params), split, training),
        PLAIN: PlainEqPropLearner(network, params, planes, training, contest.sweeps),
        SETTLED: EqPropLearner(NumbaBackend(network, params), split, settled),
    }


def multiply_adds(network: Network, sweeps: Sweeps) -> dict[str, float]:
    """Return those of one image in one training step."""
    eqprop = eqprop_macs(network, StepsTaken(*sweeps, sweeps=True))
    return {BACKPROP: backprop_macs(network), EQPROP: eqprop, PLAIN: eqprop}


def measure_sweeps(
    values: Sequence[int], threads: int, on_point: Callable[[str], None]
) -> list[GrowthPoint]:
    """Measure the memory of training with so many sweeps in each phase, in fresh processes."""
    points = []
    for count in values:
        on_point(f"memory of {count} sweeps")
        setting = Setting("eqprop", count, batch=64, threads=threads, channels=SWEPT_CHANNELS)
        points.append(GrowthPoint("steps", setting, run_probe(setting)))
    return points


def _run_races(
    contest: ImageContest, split: Split, threads: int, epochs: int, on_round: Callable[[str], None]
) -> list[ImageRace]:
    _warm_up(contest, split)
    learners = prepare_learners(contest, split)
    title = f"{contest.title}, "
    courses = train_in_turns(learners, epochs, threads, lambda note: on_round(title + note))
    network = network_of(contest)
    work = multiply_adds(network, contest.sweeps)
    return [
        ImageRace(
            contestant=name,
            task=IMAGE_TASKS[contest.task].title,
            network=contest.title,
            threads=threads,
            parameters=network.size,
            macs=work[name] / 1e6 if name in work else None,
            epoch_seconds=spread(courses[name].seconds),
            ratio=courses[name].over(courses[BACKPROP]),
            over_eqprop=courses[name].over(courses[EQPROP]),
            accuracies=tuple(courses[name].accuracies),
            held_out=len(split.x_valid),
            note=learner.note,
        )
        for name, learner in learners.items()
    ]


def _warm_up(contest: ImageContest, split: Split) -> None:
    """Compile the kernels and wake the libraries on a few batches, which are not timed."""
    few = replace(split, x_train=split.x_train[:256], y_train=split.y_train[:256])
    for learner in prepare_learners(contest, few).values():
        learner.train_epoch()
