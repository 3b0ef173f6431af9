"""What the engine is to reach, and whether it did."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.benchmark import convolution
from experiments.benchmark.convolution import ImageRace
from experiments.benchmark.defaults import DefaultsRace
from experiments.benchmark.epochs import (
    BACKPROP,
    BPTT,
    EQPROP,
    EQPROP_TORCH,
    LAYERED,
    Race,
)
from experiments.benchmark.floor import FloorCell
from experiments.benchmark.growth import Exponents, FirstStep, GrowthPoint, flatness
from experiments.benchmark.parallel import ParallelResults
from experiments.benchmark.prediction import CLASSES, SERVED, PredictionTime

FLOOR, EAGER, UNROLLED, DEFAULTS = 1.0, 1.3, 3.0, 2.5
SECOND_CORE, TORCH = 0.65, 1.5
EPOCH, EPOCH_THREADS = 1.3, 1.5
"""With one thread, and with more."""
FLATNESS, FIRST_SECONDS = 0.01, 3.0
CONVOLUTION, PLAIN_TORCH = 3.0, 1.5
SERVED_US, PREDICTED = 100.0, 2.0
MODEL = 0.2
"""How far the model of a parallel step may be off, relative to what was measured."""


@dataclass(frozen=True)
class Goal:
    """One line of the table: `reached` is `None` where nothing was measured.

    A place such as 256 / 64 is a width and a batch, and the worst there is.
    """

    what: str
    wanted: str
    measured: str
    reached: bool | None
    threads: int | None = None


@dataclass(frozen=True)
class Measurements:
    """All that a run measured; a part that did not run is empty."""

    cells: Sequence[FloorCell] = ()
    races: Sequence[Race] = ()
    task: str = ""
    accuracy: float = 0.0
    exponents: Sequence[Exponents] = ()
    first_step: FirstStep | None = None
    defaults: Sequence[DefaultsRace] = ()
    images: Sequence[ImageRace] = ()
    sweeps: Sequence[GrowthPoint] = ()
    predictions: Sequence[PredictionTime] = ()
    parallel: ParallelResults | None = None


def judge_goals(measured: Measurements) -> list[Goal]:
    """Return every goal with its verdict, one line for each number of threads."""
    goals: list[Goal] = []
    for threads in dict.fromkeys(cell.threads for cell in measured.cells):
        cells = [cell for cell in measured.cells if cell.threads == threads]
        goals += [_floor_goal(cells, threads), _eager_goal(cells, threads)]
    goals += [_second_core_goal(measured.cells)]
    goals += _epoch_goals(measured) + _torch_goals(measured.races)
    goals += _defaults_goals(measured.defaults)
    goals += [_unrolled_goal(measured), _memory_goal(measured), _first_goal(measured)]
    goals += [*_image_goals(measured.images), _sweeps_goal(measured.sweeps)]
    goals += _prediction_goals(measured.predictions) + _parallel_goals(measured.parallel)
    return [goal for goal in goals if goal.reached is not None or goal.measured]


def _floor_goal(cells: Sequence[FloorCell], threads: int) -> Goal:
    large = [c for c in _of(cells, "Settle, numba") if c.width >= 256 and c.batch >= 64]
    what = "relaxation, width ≥ 256, batch ≥ 64"
    wanted = f"≤ {FLOOR} x the bare matrix products"
    if not large:
        return Goal(what, wanted, "", None)
    worst = max(large, key=lambda cell: cell.ratio.median)
    place = f"{worst.ratio.median:.2f} x at {worst.width} / {worst.batch}"
    return Goal(what, wanted, place, worst.ratio.median <= FLOOR, threads)


def _second_core_goal(cells: Sequence[FloorCell]) -> Goal:
    large = [c for c in _of(cells, "Settle, numba") if c.width >= 256 and c.batch >= 64]
    alone = {(c.width, c.batch): c.seconds for c in large if c.threads == 1}
    gains = [
        (cell.seconds / alone[cell.width, cell.batch], cell)
        for cell in large
        if cell.threads == 2 and (cell.width, cell.batch) in alone
    ]
    what, wanted = "relaxation with two threads", f"≤ {SECOND_CORE} x the time with one"
    if not gains:
        return Goal(what, wanted, "", None)
    worst, cell = max(gains, key=lambda pair: pair[0])
    middle = sorted(gain for gain, _ in gains)[len(gains) // 2]
    place = f"{worst:.2f} x at {cell.width} / {cell.batch}\n(median {middle:.2f})"
    return Goal(what, wanted, place, worst <= SECOND_CORE, 2)


def _eager_goal(cells: Sequence[FloorCell], threads: int) -> Goal:
    eager = {(c.width, c.batch): c.ratio.median for c in _of(cells, "torch eager")}
    gains = [
        (eager[c.width, c.batch] / c.ratio.median, c)
        for c in _of(cells, "Settle, numba")
        if (c.width, c.batch) in eager
    ]
    what, wanted = "against torch eager, same work", f"≥ {EAGER} x faster"
    if not gains:
        return Goal(what, wanted, "", None)
    least, cell = min(gains, key=lambda pair: pair[0])
    middle = sorted(gain for gain, _ in gains)[len(gains) // 2]
    place = f"{least:.2f} x at {cell.width} / {cell.batch}\n(median {middle:.2f})"
    return Goal(what, wanted, place, least >= EAGER, threads)


def _epoch_goals(measured: Measurements) -> list[Goal]:
    goals = []
    for race in measured.races:
        if race.contestant in (EQPROP, LAYERED):
            limit = EPOCH if race.threads == 1 else EPOCH_THREADS
            what = f"epoch, {measured.task}, {race.contestant}, batch {race.batch}"
            text = f"{race.ratio.text()}\n{race.macs_ratio:.2f} x the multiply-adds"
            reached = race.ratio.median <= limit
            goals.append(Goal(what, f"≤ {limit} x torch backprop", text, reached, race.threads))
    return goals


def _torch_goals(races: Sequence[Race]) -> list[Goal]:
    compiled = {(r.threads, r.batch): r.ratio.median for r in races if r.contestant == EQPROP}
    goals = []
    for race in races:
        if race.contestant == EQPROP_TORCH and (race.threads, race.batch) in compiled:
            over = race.ratio.median / compiled[race.threads, race.batch]
            what = f"epoch on the torch backend, batch {race.batch}"
            wanted = f"≤ {TORCH} x the compiled one"
            goals.append(Goal(what, wanted, f"{over:.2f} x", over <= TORCH, race.threads))
    return goals


def _defaults_goals(races: Sequence[DefaultsRace]) -> list[Goal]:
    goals = []
    for race in races:
        if race.contestant == BACKPROP:
            continue
        reached = race.ratio.median <= DEFAULTS
        what = f"Training() without settings, {race.contestant}, batch {race.batch}"
        wanted = f"≤ {DEFAULTS} x torch backprop"
        goals.append(Goal(what, wanted, race.ratio.text(), reached, race.threads))
    return goals


def _unrolled_goal(measured: Measurements) -> Goal:
    what = f"against BPTT, same looped net, to {measured.accuracy:.0%}"
    wanted = f"≥ {UNROLLED:.0f} x faster"
    races = {race.contestant: race for race in reversed(measured.races)}  # the first threads last
    if EQPROP not in races or BPTT not in races:
        return Goal(what, wanted, "", None)
    ours, theirs = races[EQPROP].seconds_to_accuracy, races[BPTT].seconds_to_accuracy
    if ours is None or theirs is None:
        late = EQPROP if ours is None else BPTT
        return Goal(what, wanted, f"{late} did not reach the accuracy", None)
    gain = theirs / ours
    return Goal(what, wanted, f"{gain:.2f} x", gain >= UNROLLED, races[EQPROP].threads)


def _memory_goal(measured: Measurements) -> Goal:
    what, wanted = "peak memory of training over the steps", "flat (± 1 %), BPTT linear beside it"
    found = {e.learner: e for e in measured.exponents if e.axis == "steps"}
    if not {"eqprop", "bptt"} <= set(found):
        return Goal(what, wanted, "", None)
    flat = found["eqprop"].flatness
    text = f"± {100 * flat:.1f} %\n(BPTT: exponent {found['bptt'].memory:.2f})"
    return Goal(what, wanted, text, flat <= FLATNESS)


def _first_goal(measured: Measurements) -> Goal:
    what, wanted = "import to first training step, warm cache", f"≤ {FIRST_SECONDS:.0f} s"
    if measured.first_step is None:
        return Goal(what, wanted, "", None)
    seconds = measured.first_step.warm.median
    return Goal(what, wanted, f"{seconds:.2f} s", seconds <= FIRST_SECONDS)


def _image_goals(races: Sequence[ImageRace]) -> list[Goal]:
    goals: list[Goal] = []
    for network, threads in dict.fromkeys((race.network, race.threads) for race in races):
        here = {r.contestant: r for r in races if (r.network, r.threads) == (network, threads)}
        eqprop, backprop, plain = (
            here[name] for name in (convolution.EQPROP, convolution.BACKPROP, convolution.PLAIN)
        )
        what = f"convolution, {network}"
        gain = plain.over_eqprop
        goals.append(
            Goal(
                f"{what}: epoch",
                f"≤ {CONVOLUTION:.0f} x torch backprop",
                eqprop.ratio.text(),
                eqprop.ratio.median <= CONVOLUTION,
                threads,
            )
        )
        if threads == races[0].threads:  # only there all epochs were trained
            goals.append(_accuracy_goal(f"{what}: accuracy", eqprop, backprop))
        wanted = f"≥ {PLAIN_TORCH} x faster than in plain torch"
        reached = gain.median >= PLAIN_TORCH
        goals.append(Goal(f"{what}: EqProp", wanted, gain.text(), reached, threads))
    return goals


def _accuracy_goal(what: str, eqprop: ImageRace, backprop: ImageRace) -> Goal:
    """Compare what both say of the same images: two standard errors are no difference."""
    ours, theirs = eqprop.accuracies[-1], backprop.accuracies[-1]
    variance = sum(share * (1.0 - share) for share in (ours, theirs)) / eqprop.held_out
    margin = 2.0 * variance**0.5
    text = f"{100 * ours:.1f} % against {100 * theirs:.1f} %"
    wanted = f"≥ backprop's, ± {100 * margin:.1f}"
    return Goal(what, wanted, text, ours >= theirs - margin, eqprop.threads)


def _sweeps_goal(points: Sequence[GrowthPoint]) -> Goal:
    what, wanted = "convolution: peak memory over the sweeps", "flat (± 1 %)"
    if len(points) < 2:
        return Goal(what, wanted, "", None)
    flat = flatness(points)
    span = f"{points[0].value} to {points[-1].value} sweeps"
    return Goal(what, wanted, f"± {100 * flat:.1f} %\n({span})", flat <= FLATNESS)


def _prediction_goals(times: Sequence[PredictionTime]) -> list[Goal]:
    goals = []
    for t in times:
        if t.what == SERVED and t.batch == 1:
            found, wanted = 1e6 * t.seconds, f"≤ {SERVED_US:.0f} µs of CPU"
            what = "prediction of one sample, served"
            goals.append(Goal(what, wanted, f"{found:.0f} µs", found <= SERVED_US, 1))
        if t.what == CLASSES:
            what, wanted = f"{t.what}, {t.batch:,} samples", f"≤ {PREDICTED:.0f} x {t.rival}"
            goals.append(Goal(what, wanted, t.ratio.text(), t.ratio.median <= PREDICTED, 1))
    return goals


def _parallel_goals(results: ParallelResults | None) -> list[Goal]:
    if results is None:
        return []
    wanted = f"{1 - MODEL:.1f} to {1 + MODEL:.1f}"
    return [
        Goal(
            f"two processes, {s.kind} scaling: step predicted over measured",
            wanted,
            f"{s.over_measured:.2f}",
            abs(s.over_measured - 1.0) <= MODEL,
            1,
        )
        for s in results.scalings
    ]


def _of(cells: Sequence[FloorCell], contestant: str) -> list[FloorCell]:
    return [cell for cell in cells if cell.contestant == contestant]
