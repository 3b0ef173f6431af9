"""Measure one training in a process of its own: `python -m experiments.benchmark.probe JSON`.

A fresh process is the only place where the peak memory of a training can be told from that of
everything before it, torch's own allocator included. It prints one line of JSON.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from experiments.pool import watch_parent

LearnerName: TypeAlias = Literal["eqprop", "backprop", "bptt"]

IMAGE = (28, 28, 1)
"""What a convolutional network sees."""
CLASSES = 10
STEADY = 3
"""Training steps that are timed, after one that is not."""


@dataclass(frozen=True)
class Setting:
    """A training to measure: `steps` of relaxation in every phase, none left out."""

    learner: LearnerName
    steps: int = 30
    width: int = 256
    depth: int = 1
    """Layers; one is the looped network, more are a layered one.

    Backprop has the same layers feed-forward, and two of them in place of the looped one: as many
    parameters.
    """
    batch: int = 128
    inputs: int = 64
    threads: int = 1
    channels: tuple[int, ...] = ()
    """Those of the layers of a convolutional network, in place of all other sizes of a network."""


@dataclass(frozen=True)
class TrainingFootprint:
    """Seconds of the fastest training step, and memory in bytes.

    The seconds are those of the processor with one thread, of the clock with more.
    `peak` is the largest resident memory while training, `extra` what it adds to the process with
    all libraries loaded and the kernels warm, but without network, data or training.
    """

    seconds: float
    peak: int
    extra: int


def measure(setting: Setting) -> TrainingFootprint:
    """Train a few steps; call it in a fresh process."""
    from threadpoolctl import threadpool_limits

    if setting.learner != "eqprop":
        from adapters.torch_arrays import torch

        torch.set_num_threads(setting.threads)
    with threadpool_limits(setting.threads, user_api="blas"):
        few = tuple(2 for _ in setting.channels)
        small = Setting(setting.learner, 2, 8, setting.depth, batch=4, channels=few)
        _fastest(small, 2)
        before = resident()
        forget_peak()
        seconds = _fastest(setting, STEADY + 1)
    peak = resident_peak()
    return TrainingFootprint(seconds, peak, peak - before)


def _fastest(setting: Setting, count: int) -> float:
    """Take `count` training steps; return the seconds of the fastest but for the first."""
    prepare = _backprop_step if setting.learner == "backprop" else _relaxing_step
    step = prepare(setting, count)
    clock = time.process_time if setting.threads == 1 else time.perf_counter
    seconds = []
    for _ in range(count):
        began = clock()
        step()
        seconds.append(clock() - began)
    return min(seconds[1:])


def _backprop_step(setting: Setting, count: int) -> Callable[[], object]:
    """Return a training step of torch through the same layers, feed-forward."""
    from adapters.torch_arrays import torch

    widths = [setting.width] * max(setting.depth, 2)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise((setting.inputs, *widths)):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(setting.width, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    x = torch.randn((setting.batch, setting.inputs))
    labels = torch.randint(CLASSES, (setting.batch,))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _relaxing_step(setting: Setting, count: int) -> Callable[[], object]:
    """Return a training step of a network that relaxes, by EqProp or by BPTT."""
    from engine import Adam, NumbaBackend, Relaxation, SpectralCap, Training, initial_params
    from engine.learning.run import Run
    from engine.learning.scale import calibrated
    from engine.learning.training import Step, train_step
    from engine.model.builders import conv_net, layered, looped_mlp

    step: Step = train_step
    if setting.learner == "bptt":
        from experiments.contest.baselines import bptt_step

        step = bptt_step
    rng = np.random.default_rng(0)
    if setting.channels:
        network = conv_net(IMAGE, setting.channels, CLASSES)
    elif setting.depth == 1:
        network = looped_mlp(setting.inputs, setting.width, CLASSES)
    else:
        network = layered((setting.inputs, *[setting.width] * setting.depth, CLASSES))
    x = rng.standard_normal((setting.batch, network.inputs)).astype(np.float32)
    params = initial_params(network, rng)
    if setting.channels:  # near the cap: else a state would stop to change before the last sweep
        params = calibrated(params, x[:2])
    backend = NumbaBackend(network, params)
    way = Relaxation(setting.steps, 0.0, "sweeps" if setting.channels else "fixed_point")
    cap = SpectralCap(0.95, method="power")  # the exact projection is not what grows here
    beta = "auto" if setting.channels else 0.02
    training = Training(beta=beta, free=way, nudged=way, optimizer=Adam(1e-4), cap=cap)
    run = Run.start(network, 2, np.float32, seed=0)
    y = np.eye(CLASSES, dtype=np.float32)[rng.integers(CLASSES, size=setting.batch)]
    return partial(step, backend, x, y, training, run, count)


def resident() -> int:
    """Return the resident memory of the process now, in bytes."""
    return _status("VmRSS") or _largest()


def resident_peak() -> int:
    """Return the largest resident memory, in bytes: since `forget_peak` where there is Linux."""
    return _status("VmHWM") or _largest()


def forget_peak() -> None:
    """Let the peak start again from now; only Linux can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), 0)


def _largest() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    watch_parent(os.getppid())
    print(json.dumps(asdict(measure(Setting(**json.loads(sys.argv[1]))))))
