"""Part 3: how time and peak memory grow with steps, width, depth and batch; and the first step."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.arrays import FloatArray
from experiments.benchmark.probe import LearnerName, Setting, TrainingFootprint
from experiments.benchmark.timing import Spread, spread

ROOT = Path(__file__).parents[2]
LEARNERS: tuple[LearnerName, ...] = ("eqprop", "backprop", "bptt")

FIRST_STEP = """
import numpy as np
from engine import NumbaBackend, Training, fit, initial_params, looped_mlp
network = looped_mlp(784, 256, 10)
backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
fit(backend, np.zeros((32, 784)), np.arange(32) % 10, Training(epochs=1))
"""
"""A program that imports the engine and takes one training step."""


@dataclass(frozen=True)
class Sweep:
    """Values along each axis; the rest of a setting stays as it is."""

    axes: Mapping[str, tuple[int, ...]]
    starts: int = 5
    """How often the first step is timed."""
    cold: bool = True
    """Whether to time it once without the cache of compiled kernels as well."""


# Along the steps the memory is to be told to a hundredth, and the kernel counts it in pages, some
# for each core at once: the training there is large enough.
BASES: dict[str, dict[str, int]] = {
    "steps": {"inputs": 2048, "batch": 256},
    "width": {"steps": 10, "batch": 32},
    "depth": {"width": 128, "batch": 1024},
}
"""What differs from the default setting along an axis."""

WHOLE = Sweep(
    {
        "steps": (10, 30, 100, 300, 1000),
        "width": (256, 512, 1024, 2048, 4096, 8192),
        "depth": (1, 2, 4, 8, 16),
        "batch": (1, 16, 128, 1024, 4096),
    }
)
QUICK = Sweep(
    {"steps": (10, 100), "width": (64, 256), "depth": (1, 4), "batch": (1, 128)},
    starts=2,
    cold=False,
)


@dataclass(frozen=True)
class GrowthPoint:
    """What one training needed in a process of its own."""

    axis: str
    setting: Setting
    footprint: TrainingFootprint

    @property
    def value(self) -> int:
        """Where it lies on its axis."""
        return int(getattr(self.setting, self.axis))


@dataclass(frozen=True)
class Exponents:
    """Slopes of a straight line through the logarithms: `time ~ value^slope`, and `extra` memory.

    `flatness` is the largest deviation of the extra memory from its mean, as a share of it.
    """

    axis: str
    learner: str
    time: float
    memory: float
    flatness: float


@dataclass(frozen=True)
class FirstStep:
    """Seconds from starting Python to the end of the first training step."""

    warm: Spread
    cold: float | None
    """With no compiled kernels in the cache."""


def measure_growth(
    sweep: Sweep, threads: int, on_point: Callable[[str], None]
) -> list[GrowthPoint]:
    """Measure every point of every axis for EqProp, backprop and BPTT."""
    points = []
    for axis, values in sweep.axes.items():
        for value in values:
            for learner in LEARNERS:
                on_point(f"{axis} {value}: {learner}")
                chosen: dict[str, Any] = {**BASES.get(axis, {}), axis: value}
                setting = Setting(learner, threads=threads, **chosen)
                points.append(GrowthPoint(axis, setting, run_probe(setting)))
    return points


def run_probe(setting: Setting) -> TrainingFootprint:
    """Measure a setting in a fresh process."""
    command = [sys.executable, "-m", "experiments.benchmark.probe", json.dumps(asdict(setting))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        last = (ended.stderr.strip() or "no message").splitlines()[-1]
        raise OSError(f"the training {setting} could not be measured: {last}")
    return TrainingFootprint(**json.loads(ended.stdout.splitlines()[-1]))


def fit_exponents(points: list[GrowthPoint]) -> list[Exponents]:
    """Fit every axis of every learner that has two points or more."""
    found = []
    for axis in dict.fromkeys(point.axis for point in points):
        for learner in LEARNERS:
            line = [p for p in points if p.axis == axis and p.setting.learner == learner]
            if len(line) < 2:
                continue
            values = np.log([point.value for point in line])
            extra = _extra(line)
            seconds = [point.footprint.seconds for point in line]
            found.append(
                Exponents(
                    axis,
                    learner,
                    float(np.polyfit(values, np.log(seconds), 1)[0]),
                    float(np.polyfit(values, np.log(extra), 1)[0]),
                    flatness(line),
                )
            )
    return found


def flatness(points: Sequence[GrowthPoint]) -> float:
    """Return the largest deviation of the extra memory from its mean, as a share of it."""
    extra = _extra(points)
    return float(np.abs(extra / extra.mean() - 1).max())


def _extra(points: Sequence[GrowthPoint]) -> FloatArray:
    return np.array([float(max(point.footprint.extra, 1)) for point in points])


def measure_first_step(sweep: Sweep, on_point: Callable[[str], None]) -> FirstStep:
    """Time the first training step of a new process, with the cache warm and without it."""
    on_point("import to first training step")
    _start_process({})
    warm = [_start_process({}) for _ in range(sweep.starts)]
    cold = None
    if sweep.cold:
        on_point("first training step with an empty cache")
        with tempfile.TemporaryDirectory() as empty:
            cold = _start_process({"NUMBA_CACHE_DIR": empty})
    return FirstStep(spread(warm), cold)


def _start_process(environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", FIRST_STEP],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began
