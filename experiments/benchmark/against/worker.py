"""Time cases with the engine of a folder: `python -P worker.py FOLDER`.

It is run as a program, and imports nothing of Settle but `engine`, from FOLDER: so it times any
version. It answers with one line of JSON: first what importing the engine took, then what it is
asked for, until its input ends.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

Case: TypeAlias = Callable[[], tuple[Callable[[], object], int]]
"""Builds what is timed; returns the call, and how many times the work of the row is in it."""

IMPORT, FIRST_FIT = "import engine", "first fit of a new process, warm cache"
FRESH = (IMPORT, FIRST_FIT)
"""Rows that a process can time only once."""
STEPS = 30
SIZES = (784, 256, 256, 10)
"""Inputs, two layers and outputs; the looped network has the first of the layers."""


def cases(quick: bool) -> dict[str, Case]:
    """Return every row that a running process can time, by its name."""
    if quick:
        return {
            "relaxation, 64 units, batch 16": partial(_relaxation, 64, 16),
            "training step, looped 64-32-10, defaults": partial(_looped, (64, 32, 10)),
            "training step, layered 64-32-32-10, defaults": partial(_layered, (64, 32, 32, 10)),
            "training step, convolution 8x8, 4-8": partial(_convolution, (8, 8, 1), (4, 8)),
            "prediction of one sample": partial(_prediction, (64, 32, 10), 1),
        }
    named = "-".join(map(str, SIZES))
    shapes = ((64, 16), (256, 1), (256, 64), (256, 128), (1024, 64))
    found: dict[str, Case] = {
        f"relaxation, {width} units, batch {batch}": partial(_relaxation, width, batch)
        for width, batch in shapes
    }
    looped, title = (SIZES[0], *SIZES[2:]), "training step,"
    return found | {
        f"relaxation by sweeps, {named}, batch 64": partial(_sweeps, 64),
        f"{title} looped 784-256-10, defaults": partial(_looped, looped),
        f"{title} looped 784-256-10, tuned": partial(_looped, looped, tuned=True),
        f"{title} layered {named}, defaults": partial(_layered, SIZES),
        f"{title} layered {named}, tuned": partial(_layered, SIZES, tuned=True),
        f"{title} convolution 28x28, 16-32": partial(_convolution, (28, 28, 1), (16, 32)),
        "prediction of one sample, 784-256-10": partial(_prediction, looped, 1),
        "prediction of 1,024 samples, 784-256-10": partial(_prediction, looped, 1024),
    }


def tuned_training(epochs: int, batch_size: int, lr: float, cap: float, seed: int) -> Any:
    """Return the settings that the benchmark trains dense networks with.

    At these tolerances the gradient keeps a cosine of 0.9995 with a tight estimate
    (docs/performance.md).
    """
    from engine import Adam, Relaxation, SpectralCap, Training

    return Training(
        epochs=epochs,
        batch_size=batch_size,
        free=Relaxation(20, 3e-2, "sweeps"),
        nudged=Relaxation(8, 1e-3, "sweeps"),
        optimizer=Adam(lr),
        # The kept vector follows the norm: measured, it strays as little as with every=10.
        cap=SpectralCap(cap, every=50, iterations=2),
        seed=seed,
    )


def _relaxation(width: int, batch: int) -> tuple[Callable[[], object], int]:
    """Relax for a fixed number of steps; a weak input leaves no sample settled before."""
    from engine import Relaxation, looped_mlp

    backend, (x, _) = _backend(looped_mlp(64, width, 10)), _samples(batch, 64, 10)
    clamped = backend.clamp(x[:, :64] * 0.1)
    return partial(backend.settle, clamped, relaxation=Relaxation(STEPS, 0.0)), 1


def _sweeps(batch: int) -> tuple[Callable[[], object], int]:
    from engine import Relaxation, layered

    backend, (x, _) = _backend(layered(SIZES)), _samples(batch, SIZES[0], 10)
    few = Relaxation(5, 0.0, "sweeps")
    return partial(backend.settle, backend.clamp(x), relaxation=few), 1


def _looped(sizes: tuple[int, int, int], tuned: bool = False) -> tuple[Callable[[], object], int]:
    from engine import looped_mlp

    return _epoch(looped_mlp(*sizes), tuned)


def _layered(sizes: tuple[int, ...], tuned: bool = False) -> tuple[Callable[[], object], int]:
    from engine import layered

    return _epoch(layered(sizes), tuned)


def _epoch(network: Any, tuned: bool) -> tuple[Callable[[], object], int]:
    """Train for an epoch by `fit`, as a user does; the work of the row is one of its batches."""
    from engine import Training, fit

    training = tuned_training(1, 128, 2.5e-3, 0.5, seed=0) if tuned else Training(epochs=1)
    batches = 16 if network.inputs > 64 else 4
    data = _samples(batches * training.batch_size, network.inputs, 10)
    return partial(fit, _backend(network), *data, training), batches


def _convolution(
    image: tuple[int, int, int], channels: tuple[int, ...]
) -> tuple[Callable[[], object], int]:
    """Train for an epoch of a few sweeps in each phase, from a calibrated start."""
    from engine import Relaxation, SpectralCap, Training, conv_net, fit
    from engine.learning.scale import calibrated

    network = conv_net(image, channels, 10)
    x, y = _samples(512, network.inputs, 10)
    backend = _backend(network)
    backend.load(calibrated(backend.params, x))
    way, cap = Relaxation(2, 0.0, "sweeps"), SpectralCap(0.95, iterations=1)
    training = Training(epochs=1, batch_size=64, free=way, nudged=way, cap=cap)
    return partial(fit, backend, x, y, training), 8


def _prediction(sizes: tuple[int, int, int], count: int) -> tuple[Callable[[], object], int]:
    from engine import Training, fit, looped_mlp, predict

    backend, (x, y) = _backend(looped_mlp(*sizes)), _samples(1024, sizes[0], 10)
    fit(backend, x[:256], y[:256], Training(epochs=1))
    return partial(predict, backend, x[:count]), 1


def _first_fit() -> tuple[Callable[[], object], int]:
    """Build a network and take one training step."""

    def begin() -> None:
        from engine import Training, fit, looped_mlp

        x, y = _samples(32, SIZES[0], 10)
        fit(_backend(looped_mlp(784, 256, 10)), x, y, Training(epochs=1))

    return begin, 1


def _backend(network: Any) -> Any:
    import numpy as np

    from engine import NumbaBackend, initial_params

    return NumbaBackend(network, initial_params(network, np.random.default_rng(0)))


def _samples(count: int, inputs: int, classes: int) -> tuple[Any, Any]:
    """Return inputs around one centre for each class, and labels."""
    import numpy as np

    rng = np.random.default_rng(1)
    labels = rng.integers(classes, size=count)
    centres = rng.standard_normal((classes, inputs))
    x = 0.2 * (centres[labels] + rng.standard_normal((count, inputs)))
    return x.astype(np.float32), labels


def serve(folder: str, answer: Callable[[dict[str, Any]], None]) -> None:
    """Import the engine of a folder, then answer every line of the input."""
    sys.path.insert(0, folder)
    # Another version may lack anything: whatever it raises is the answer to one question.
    try:
        cpu, wall = _seconds(_import_engine)
    except Exception as error:
        answer({"absent": _sentence(error)})
        return
    answer(
        {"cpu": cpu, "wall": wall, "folder": os.path.dirname(sys.modules["engine"].__file__ or "")}
    )
    known: dict[str, Case] = {FIRST_FIT: _first_fit, **cases(True), **cases(False)}
    prepared: dict[str, tuple[Callable[[], object], int]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name, calls = asked["case"], asked["calls"]
        try:
            if name not in prepared:
                prepared.clear()  # one case at a time holds memory
                prepared[name] = known[name]()
                if name not in FRESH:
                    prepared[name][0]()  # what it compiles and allocates once is not timed
            run, parts = prepared[name]
            cpu, wall = _seconds(run, calls)
            answer({"cpu": cpu / (calls * parts), "wall": wall / (calls * parts)})
        except Exception as error:
            answer({"absent": _sentence(error)})


def _import_engine() -> None:
    import engine  # noqa: F401


def _seconds(run: Callable[[], object], calls: int = 1) -> tuple[float, float]:
    """Return CPU and wall-clock seconds of some calls."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        run()
    return time.process_time() - cpu, time.perf_counter() - wall


def _sentence(error: Exception) -> str:
    """Return the first line of what went wrong."""
    said = str(error).splitlines()
    return f"{type(error).__name__}: {said[0] if said else 'no reason given'}"


if __name__ == "__main__":
    # Answers have a way of their own: what the engine prints must not come between them.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], lambda said: print(json.dumps(said), file=channel, flush=True))
