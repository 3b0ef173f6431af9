"""Peak memory of one call, measured in a process that does nothing else.

The functions to be measured are here too: each takes one training step whose relaxations make
exactly `steps` steps. What they import is imported before the measurement begins.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import numpy as np

from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.run import Run
from engine.learning.training import Training, train_step
from engine.model.builders import looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from experiments.pool import watch_parent

INPUTS, HIDDEN, OUTPUTS, BATCH = 64, 256, 10, 128
STATE_BYTES = BATCH * HIDDEN * 4
"""One state of the batch in float32: the least that storing a step can take."""

Prepare: TypeAlias = Callable[[], Callable[[int], object]]
"""Returns a function that takes one training step with that many relaxation steps."""


def measure_peak(prepare: Prepare, steps: int) -> int:
    """Return how far memory rose during a step, in bytes, in a fresh process.

    `prepare` is a module's function: the process imports it by its name.
    """
    given = [prepare.__module__, prepare.__name__, str(steps)]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.verify.peak_memory", *given],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"the memory of {prepare.__name__} was not measured: {last[0]}")
    return int(done.stdout)


def eqprop_numba() -> Callable[[int], object]:
    """EqProp on the compiled engine."""
    network, params = _network()
    return _eqprop(NumbaBackend(network, params))


def eqprop_torch() -> Callable[[int], object]:
    """EqProp on torch."""
    from adapters.torch_backend import TorchBackend

    network, params = _network()
    return _eqprop(TorchBackend(network, params, "cpu"))


def bptt() -> Callable[[int], object]:
    """Backpropagation through the relaxation."""
    from adapters.torch_arrays import torch
    from adapters.torch_autograd import bptt_gradient

    torch.set_num_threads(1)
    network, params = _network()
    x, y = _batch()
    return lambda steps: bptt_gradient(network, params, x, y, steps)


def _eqprop(backend: Backend) -> Callable[[int], object]:
    x, y = _batch()

    def step(steps: int) -> object:
        exactly = Relaxation(max_steps=steps, tolerance=0.0)
        training = Training(beta=0.01, free=exactly, nudged=exactly)
        run = Run.start(backend.network, training.optimizer.moments, backend.dtype, seed=0)
        return train_step(backend, x, y, training, run, total=1)

    return step


def _network() -> tuple[Network, Params]:
    network = looped_mlp(INPUTS, HIDDEN, OUTPUTS)
    return network, initial_params(network, np.random.default_rng(0))


def _batch() -> tuple[np.typing.NDArray[np.float32], np.typing.NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, INPUTS)).astype(np.float32)
    return x, np.eye(OUTPUTS, dtype=np.float32)[rng.integers(OUTPUTS, size=BATCH)]


def _rise(prepare: Prepare, steps: int) -> int:
    step = prepare()
    step(1)  # compiles, and allocates what any call needs
    before = _restart_peak()
    step(steps)
    return _peak() - before


def _restart_peak() -> int:
    """Forget the peak of the warm-up where the system can; return the memory held now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> int:
    """Return the largest resident memory so far, in bytes."""
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    watch_parent(os.getppid())
    module, name, count = sys.argv[1:]
    print(_rise(getattr(import_module(module), name), int(count)))
