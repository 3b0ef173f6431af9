"""What is refused, and what survives a file."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.checkpoint import load, save
from engine.learning.estimator import centered, symmetric
from engine.learning.optimizer import SGD, Adam
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap
from engine.learning.training import Training, train_step
from engine.model.builders import layered, looped_mlp
from engine.model.network import Layer
from engine.model.params import initial_params
from experiments.fuzz.strategies import Case, wild_cases
from experiments.fuzz.theory import theory

NUMBERS = st.integers(-3, 40) | st.floats() | st.sampled_from([0, 1, 1e-300, 1e300])
WORDS = st.sampled_from(["tanh", "hard_sigmoid", "softmax", "anderson", "exact", "input", "", "é"])
ANYTHING = NUMBERS | WORDS | st.none() | st.booleans()

BUILDERS: dict[str, Callable[..., object]] = {
    "Layer": Layer,
    "looped_mlp": looped_mlp,
    "layered": lambda *values: layered(values[:-2], *values[-2:]),
    "Relaxation": Relaxation,
    "SpectralCap": SpectralCap,
    "Adam": Adam,
    "SGD": SGD,
    "centered": centered,
    "symmetric": symmetric,
    "Training": Training,
    "relax": lambda beta, *rows: _relax_small(beta, rows),
}
ARGUMENTS = {"Layer": 3, "looped_mlp": 3, "Relaxation": 6, "SGD": 2, "centered": 1, "symmetric": 2}


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the name of something to build and its arguments, most of them nonsense."""
    name = draw(st.sampled_from(sorted(BUILDERS)))
    count = ARGUMENTS.get(name, 4)
    return {"build": name, "values": draw(st.lists(ANYTHING, min_size=count, max_size=count))}


@theory("Everything can be built, or is refused with an EngineError.", descriptions())
def nonsense_is_refused(description: dict[str, Any]) -> None:
    """Never with another exception, whatever the types of its arguments."""
    with suppress(EngineError):
        BUILDERS[description["build"]](*description["values"])


@theory(
    "What is saved and loaded is the same, bit for bit, and goes on as if it had not been.",
    wild_cases() | wild_cases(dtype=np.float32),
)
def files_keep_everything(case: Case) -> None:
    """The parameters, and so the equilibrium; the run, and so the next update."""
    backend, training = type(case.backend)(case.network, case.params), Training(epochs=1)
    run = Run.start(case.network, training.optimizer.moments, backend.dtype, case.seed)
    train_step(backend, case.x, case.y, training, run, 5)
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, "net.npz"), case.params)
        save(Path(folder, "run.npz"), backend.params, run, "settings")
        found, _, _ = load(Path(folder, "net.npz"))
        stopped, again, settings = load(Path(folder, "run.npz"))
    assert settings == "settings"
    assert again is not None
    resumed = type(backend)(case.network, stopped)
    for part, state in ((backend, run), (resumed, again)):
        train_step(part, case.x, case.y, training, state, 5)
    np.testing.assert_array_equal(resumed.params.theta, backend.params.theta)
    assert (again.step, again.rng.random()) == (run.step, run.rng.random())
    assert found.network == case.network
    np.testing.assert_array_equal(found.theta, case.params.theta)
    backend = NumbaBackend(found.network, found)
    relaxed = backend.settle(backend.clamp(case.x, case.y), case.beta).state
    expected = case.backend.settle(case.clamped, case.beta).state
    np.testing.assert_array_equal(relaxed, expected)


def _relax_small(beta: Any, rows: Any) -> None:
    network = looped_mlp(3, 2, 2)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(0)))
    with np.errstate(all="ignore"):
        backend.settle(backend.clamp([rows], [[0.0, 1.0]]), beta)
