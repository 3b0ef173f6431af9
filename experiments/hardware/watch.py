"""Look at the validation part several times an epoch, without a trace in what is watched."""

from copy import deepcopy
from dataclasses import replace

import numpy as np

from engine.arrays import Array, FloatArray, IntArray
from engine.backend import Backend
from engine.learning.estimator import Report
from engine.learning.predict import evaluate
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from experiments.hardware.curve import Point, look_times
from experiments.hardware.settings import Settings
from experiments.tasks import Split
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import optimizer_counts
from hw_sim.rivals.backprop import Rival

TEST_STEPS = 60
"""Most steps of a relaxation when a trained network is tested."""


class WatchedStep:
    """A step of `engine.fit` on a chip that also fills `curve`, look by look.

    It looks at a copy: the counts of the chip, its saturations and its stream of noise go on as if
    nobody had looked, so that a run is the same whatever the number of looks.
    """

    def __init__(
        self,
        chip: Substrate,
        rival: Rival | None,
        split: Split,
        settings: Settings,
        training: Training,
    ) -> None:
        self.curve: list[Point] = []
        self._chip, self._rival, self._split, self._settings = chip, rival, split, settings
        self._per_epoch = -(-len(split.x_train) // training.batch_size)
        updates = training.epochs * self._per_epoch
        self._times = set(look_times(updates, training.epochs * settings.looks))
        self._since: list[tuple[int, Report]] = []

    def __call__(
        self, backend: Backend, x: Array, y: Array, training: Training, run: Run, total: int
    ) -> Report:
        """Update by one batch, and look if it is time."""
        step = self._rival or train_step
        report = step(backend, x, y, training, run, total)
        self._since.append((len(x), report))
        if run.step in self._times:
            self._look(run.step, training)
        return report

    def _look(self, update: int, training: Training) -> None:
        chip, split, settings = self._chip, self._split, self._settings
        seen = deepcopy(chip, {id(chip.network): chip.network})
        accuracy = accuracy_of(seen, self._rival, split.x_valid, split.y_valid, settings)
        optimizing = optimizer_counts(
            chip.network, training.optimizer, update, settings.local_optimizer
        )
        samples = [n for n, _ in self._since]
        measured = [(r.unsettled, r.free_steps, r.nudged_steps) for _, r in self._since]
        unsettled, free, nudged = map(float, np.average(measured, axis=0, weights=samples))
        self._since.clear()
        rows = (chip.counts + optimizing).rows()
        epoch, steps = update / self._per_epoch, (unsettled, free, nudged)
        self.curve.append(Point(update, epoch, accuracy, *steps, chip.most_writes, rows))


def accuracy_of(
    chip: Substrate, rival: Rival | None, x: FloatArray, y: IntArray, settings: Settings
) -> float:
    """Return the share of right answers, of the network as its learner runs it."""
    if rival:
        return float((rival.predict(chip, x).argmax(1) == y).mean())
    settled = replace(settings.free, max_steps=TEST_STEPS)
    return evaluate(chip, x, y, settled).accuracy or 0.0
