"""What specimens of a circuit get right: trained ideally and loaded, and trained in place."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine import Network, Params, Relaxation, Training, evaluate, fit, initial_params
from engine.backend import Backend
from experiments.circuit.mismatch import Mismatch, MismatchedCircuit, draw_mismatch
from experiments.circuit.recipe import TOTAL, circuit, settings
from experiments.tasks import Split, Task

LARGEST = 5.0
"""Largest conductance of a device, as a multiple of the mean at the start where that is largest."""
SETTLED = Relaxation(max_steps=100, solver="sweeps")

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Design:
    """What is trained, and on what: all that the specimens of a study have in common."""

    task: str
    hidden: tuple[int, ...]
    epochs: int
    batch_size: int
    samples: int | None
    window: float
    """Largest conductance of a device over its smallest."""
    judged_by: str
    """The part of the data, `test` or `validation`."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON gives it back."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def largest(self, task: Task) -> float:
        """Return the largest conductance of a device, in siemens."""
        return LARGEST * TOTAL / min(2 * task.inputs, *self.hidden)

    def network(self, task: Task) -> Network:
        """Return the circuit, with the smallest conductance of its devices."""
        least = self.largest(task) / self.window
        return circuit(task.inputs, self.hidden, task.classes, g_min=least)


@dataclass(frozen=True)
class Specimen:
    """One circuit: spread of its devices, spread of its diodes, which draw, and the seed."""

    device: float
    diode: float
    draw: int
    seed: int


@dataclass(frozen=True)
class Tried:
    """What a specimen gets right, as fractions of the held-out part."""

    specimen: Specimen
    loaded: float
    in_place: float
    unsettled: float
    """Largest share of relaxations that did not settle, in training or when judged."""


class Study:
    """All specimens of one seed: the data, the start and the ideal training are the same."""

    def __init__(self, design: Design, task: Task, seed: int) -> None:
        split: Split = task.load(seed)
        self._judged = split.x_valid, split.y_valid
        if design.judged_by == "test":
            self._judged = split.x_test, split.y_test
            split = split.joined()
        self._data = split.x_train[: design.samples], split.y_train[: design.samples]
        self.seed, self._most = seed, design.largest(task)
        self.network = design.network(task)
        self._start = initial_params(self.network, np.random.default_rng(seed))
        self._training: Training = settings(self._start, design.epochs, design.batch_size, seed)
        self.ideal: Params | None = None

    def train_ideally(self, watch: Watch | None = None) -> None:
        """Train the circuit as it was designed; its devices have the same limits."""
        backend = self._make(self._start, Mismatch.none(self.network, self._most))
        fit(backend, *self._data, self._training, progress=watch)
        self.ideal = backend.params

    def try_out(self, specimen: Specimen, watch: Watch | None = None) -> Tried:
        """Load a specimen with what was trained ideally; and train another just like it."""
        assert self.ideal is not None, "train ideally first"
        # The draws of one seed are the same at every spread: only their size differs.
        mismatch = draw_mismatch(
            self.network,
            np.random.default_rng((specimen.seed, specimen.draw)),
            device=specimen.device,
            diode=specimen.diode,
            most=self._most,
        )
        loaded = self._judge(self._make(self.ideal, mismatch))
        backend = self._make(self._start, mismatch)
        epochs = fit(backend, *self._data, self._training, progress=watch)
        in_place = self._judge(backend)
        late = max(loaded[1], in_place[1], *(epoch.unsettled for epoch in epochs))
        return Tried(specimen, loaded[0], in_place[0], late)

    def _make(self, words: Params, mismatch: Mismatch) -> MismatchedCircuit:
        return MismatchedCircuit(self.network, words, mismatch)

    def _judge(self, backend: Backend) -> tuple[float, float]:
        found = evaluate(backend, *self._judged, SETTLED)
        return float(found.accuracy or 0.0), float(found.unsettled)
