"""Part 7: data parallel training in one and in two processes, and a model of a step.

    seconds(N) = compute(rows of a process) + 2 (N - 1) latency + 2 (N - 1) / N bytes / bandwidth

is the time of a ring: every process sends each share of the gradient round, once to add it up and
once to hand it on. Latency and bandwidth are fitted to all-reduces alone, `compute` to training
alone; what they predict of two processes is then measured. Of more it stays a prediction.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from adapters.torch_arrays import torch
from adapters.torch_parallel import Team, run_together
from engine.compiled.backend import NumbaBackend
from engine.compiled.threads import fitting_threads
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from experiments.benchmark.timing import Spread, spread

PROCESSES = 2
MANY = (1, 2, 4, 8, 16, 32, 64)
LINKS = {
    "1 Gbit/s Ethernet": (50e-6, 0.125e9),
    "10 Gbit/s Ethernet": (30e-6, 1.25e9),
    "100 Gbit/s": (5e-6, 12.5e9),
    "300 GB/s between GPUs": (5e-6, 300e9),
}
"""Assumed latency of a message, in seconds, and bandwidth, in bytes a second: nothing of it was
measured."""
NUMBER_BYTES = 4


@dataclass(frozen=True)
class ParallelSize:
    """What is trained and sent, and how often."""

    sizes: tuple[int, int, int] = (784, 256, 10)
    batch: int = 256
    steps: int = 12
    rounds: int = 7
    messages: tuple[int, ...] = (2**10, 2**12, 2**14, 2**16, 2**18, 2**20)
    """Numbers in the arrays that are summed."""
    sums: int = 20


QUICK = ParallelSize((64, 32, 10), 32, 5, 3, (2**8, 2**12, 2**16), 5)


@dataclass(frozen=True)
class RoundTimes:
    """What one process measured in each round, in seconds of a step or of a sum."""

    alone: dict[int, list[float]]
    """By the rows of the batch, while the others wait."""
    strong: list[float]
    """All share one batch."""
    weak: list[float]
    """Each has as many rows as one alone."""
    waited: list[float]
    """In the all-reduce of a strong step, late others included."""
    sums: dict[int, list[float]]
    """All-reduces alone, by bytes."""


@dataclass(frozen=True)
class StepModel:
    """A line through compute times by rows, and one through all-reduces of two by bytes."""

    fixed: float
    per_row: float
    latency: float
    """Of one message."""
    bandwidth: float
    """Bytes a second."""

    def compute(self, rows: float) -> float:
        """Return the seconds that a process works on so many rows."""
        return self.fixed + self.per_row * rows

    def seconds(self, count: int, rows: float, size: int) -> float:
        """Return the seconds of a step of `count` processes with so many rows each."""
        return self.compute(rows) + all_reduce_seconds(count, size, self.latency, self.bandwidth)


@dataclass(frozen=True)
class Scaling:
    """Two processes against one: seconds of a step, their efficiency, and what was predicted."""

    kind: str
    rows: int
    """Of each process."""
    seconds: Spread
    efficiency: Spread
    waited: float | None
    predicted: float
    over_measured: float
    """Predicted over measured."""


@dataclass(frozen=True)
class ParallelResults:
    """All that part 7 found."""

    size: ParallelSize
    parameters: int
    times: RoundTimes
    model: StepModel
    scalings: Sequence[Scaling]


def all_reduce_seconds(count: int, size: int, latency: float, bandwidth: float) -> float:
    """Return how long a ring of `count` takes to add up an array of `size` bytes."""
    return 2 * (count - 1) * (latency + size / (count * bandwidth))


def measure_parallel(size: ParallelSize, on_note: Callable[[str], None]) -> ParallelResults:
    """Measure in two processes with one thread each, in turns; fit the model, and check it."""
    on_note(f"parallel: {PROCESSES} processes")
    times: RoundTimes = run_together(_measure, PROCESSES, size)[0]
    parameters = looped_mlp(*size.sizes).size
    model = fit_model(times)
    kinds = (("strong", size.batch // PROCESSES, times.strong), ("weak", size.batch, times.weak))
    scalings = [_scaling(kind, rows, taken, times, model, size) for kind, rows, taken in kinds]
    return ParallelResults(size, parameters, times, model, scalings)


def fit_model(times: RoundTimes) -> StepModel:
    """Fit compute to training alone, and communication to all-reduces alone, by least squares.

    Lines are fitted to medians, with relative errors: the smallest times count as much as others.
    """
    fixed, per_row = _line({rows: float(np.median(t)) for rows, t in times.alone.items()})
    start, per_byte = _line({size: float(np.median(t)) for size, t in times.sums.items()})
    # Two send two messages each, with half of the array in both.
    return StepModel(fixed, per_row, start / 2, 1.0 / max(per_byte, 1e-15))


def predicted_steps(
    results: ParallelResults, latency: float, bandwidth: float
) -> list[tuple[int, float, float]]:
    """Return of each number of processes the efficiency that is predicted, strong and weak."""
    model, size, batch = results.model, NUMBER_BYTES * results.parameters, results.size.batch
    alone = model.compute(batch)
    found = []
    for count in MANY:
        sent = all_reduce_seconds(count, size, latency, bandwidth)
        strong = alone / (count * (model.compute(batch / count) + sent))
        found.append((count, strong, alone / (alone + sent)))
    return found


def _scaling(
    kind: str,
    rows: int,
    taken: list[float],
    times: RoundTimes,
    model: StepModel,
    size: ParallelSize,
) -> Scaling:
    alone = np.array(times.alone[size.batch])
    ideal = alone / PROCESSES if kind == "strong" else alone
    seconds, bytes_sent = spread(taken), NUMBER_BYTES * looped_mlp(*size.sizes).size
    predicted = model.seconds(PROCESSES, rows, bytes_sent)
    waited = float(np.median(times.waited)) if kind == "strong" else None
    efficiency = spread(ideal / np.array(taken))
    return Scaling(kind, rows, seconds, efficiency, waited, predicted, predicted / seconds.median)


def _line(points: dict[int, float]) -> tuple[float, float]:
    """Return where a line begins, not below zero, and how it rises."""
    x, y = np.array(list(points), float), np.array(list(points.values()))
    slope, start = np.polyfit(x, y, 1, w=1.0 / y)
    if start < 0.0:
        return 0.0, float((x / y).sum() / ((x / y) ** 2).sum())
    return float(start), float(slope)


def _measure(team: Team, size: ParallelSize) -> RoundTimes:
    """Do the work of one process; all take part in what they do together."""
    parts = (size.batch // 4, size.batch // PROCESSES, size.batch)
    times = RoundTimes(
        {rows: [] for rows in parts}, [], [], [], {NUMBER_BYTES * n: [] for n in size.messages}
    )
    trainee = _Trainee(team, size)
    trainee.steps(size.batch, together=True)  # what it compiles and allocates is not timed
    for _ in range(size.rounds):
        for rows in parts:
            team.wait()
            if team.rank == 0:
                times.alone[rows].append(trainee.steps(rows, together=False))
        team.wait()
        before = team.waited
        times.strong.append(trainee.steps(size.batch, together=True))
        times.waited.append((team.waited - before) / size.steps)
        team.wait()
        times.weak.append(trainee.steps(PROCESSES * size.batch, together=True))
        for numbers in size.messages:
            times.sums[NUMBER_BYTES * numbers].append(_sum_seconds(team, numbers, size.sums))
    return times


def _sum_seconds(team: Team, numbers: int, calls: int) -> float:
    """Return the seconds of one all-reduce of an array."""
    array = torch.zeros(numbers)
    team.add(array)
    began = time.perf_counter()
    for _ in range(calls):
        team.add(array)
    return (time.perf_counter() - began) / calls


class _Trainee:
    """Training steps by one backend, which begin at the same parameters each time."""

    def __init__(self, team: Team, size: ParallelSize) -> None:
        network = looped_mlp(*size.sizes)
        self._team, self._size = team, size
        self._backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
        rng, most = np.random.default_rng(1), PROCESSES * size.batch
        labels = rng.integers(size.sizes[-1], size=most)
        centres = rng.standard_normal((size.sizes[-1], size.sizes[0]))
        noise = rng.standard_normal((most, size.sizes[0]))
        self._x = (0.2 * (centres[labels] + noise)).astype(np.float32)
        self._y = np.eye(size.sizes[-1], dtype=np.float32)[labels]

    def steps(self, rows: int, *, together: bool) -> float:
        """Return the seconds of a step on so many rows, from the same start."""
        backend, size = self._backend, self._size
        training = Training(epochs=1, batch_size=rows)
        params = initial_params(backend.network, np.random.default_rng(0))
        backend.load(params)
        run = Run.start(backend.network, 2, backend.dtype, 0)
        step = self._team.step if together else train_step
        batch = self._x[:rows], self._y[:rows]
        with fitting_threads(backend.network, rows):
            if together:
                self._team.wait()
            began = time.perf_counter()
            for _ in range(size.steps):
                step(backend, *batch, training, run, size.steps)
            return (time.perf_counter() - began) / size.steps
