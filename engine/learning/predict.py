"""What a trained network says: outputs, classes, and how well they fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray, checked_matrix, number, plain_array
from engine.backend import Backend, Reader
from engine.border import checked
from engine.compiled.threads import fitting_threads
from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count
from engine.model.network import Network

_DEFAULT = Relaxation()


@dataclass(frozen=True)
class Evaluation:
    """Result on a data set; `accuracy` is there when the targets are class labels."""

    cost: float
    accuracy: float | None
    steps: float
    """Mean number of relaxation steps."""
    unsettled: float
    """Share of samples that did not reach the tolerance."""


@checked
def targets_of(network: Network, y: npt.ArrayLike, dtype: npt.DTypeLike) -> FloatArray:
    """Return targets `(samples, outputs)`; class labels `(samples,)` become one-hot rows."""
    labels = plain_array("y", y)
    if labels.ndim != 1:
        return checked_matrix("y", labels, network.outputs, dtype)
    if labels.dtype.kind not in "iu":
        raise EngineError(f"class labels are {labels.dtype}, expected whole numbers.")
    for label in (labels.min(initial=0), labels.max(initial=0)):
        if not 0 <= label < network.outputs:
            raise EngineError(f"label {label} is outside the {network.outputs} outputs, 0 first.")
    rows: FloatArray = np.eye(network.outputs, dtype=dtype)[labels]
    return rows


@checked
def checked_data(
    backend: Backend, x: npt.ArrayLike, y: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return inputs and targets as the backend takes them, or refuse them."""
    inputs = checked_matrix("x", x, backend.network.inputs, backend.dtype)
    backend.network.check_inputs(inputs)
    targets = targets_of(backend.network, y, backend.dtype)
    if len(targets) != len(inputs) or len(inputs) == 0:
        raise EngineError(f"y has {len(targets)} samples, x has {len(inputs)}; need some of both.")
    backend.network.readout.check(targets)
    return inputs, targets


class Predictor:
    """Says what the network of a backend says, call after call: what it needs is prepared once.

    That is done anew when `Backend.apply` or `load` has changed the parameters, or another
    `relaxation` is asked for. Threads may share a predictor, but not with one that trains.
    """

    @checked
    def __init__(self, backend: Backend, batch_size: int = 1024) -> None:
        check_count("batch_size", batch_size)
        self.backend, self.batch_size = backend, batch_size
        self._prepared: tuple[int, Relaxation, Reader | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What is prepared holds addresses of this process.
        return vars(self) | {"_prepared": None}

    def predict_outputs(self, x: npt.ArrayLike, relaxation: Relaxation | None = None) -> FloatArray:
        """Return the outputs at the free equilibrium, `(samples, outputs)`."""
        inputs, how = self._checked(x), relaxation or _DEFAULT
        reader = self._reader(how)
        if reader is not None and len(inputs) == 1:
            return reader.outputs(inputs)
        outputs = np.empty((len(inputs), self.backend.network.outputs), self.backend.dtype)
        if reader is None:
            size = self.batch_size
            with fitting_threads(self.backend.network, size), self.backend.fitting_threads(size):
                for rows in self._batches(inputs):
                    settled = self.backend.settle(self.backend.clamp(inputs[rows]), relaxation=how)
                    outputs[rows] = self.backend.predict(settled)
            return outputs
        for rows in self._batches(inputs):
            outputs[rows] = reader.outputs(inputs[rows])
        return outputs

    def predict_proba(self, x: npt.ArrayLike, relaxation: Relaxation | None = None) -> FloatArray:
        """Return class probabilities, `(samples, classes)`."""
        reading = self.backend.network.reading
        if reading is None or reading.positions != 1:
            kind = type(self.backend.network.readout).__name__
            raise EngineError(f"the read-out {kind} has no probabilities; use predict_outputs.")
        return self.predict_outputs(x, relaxation)

    def predict(self, x: npt.ArrayLike, relaxation: Relaxation | None = None) -> IntArray:
        """Return the class with the largest output, `(samples,)`."""
        reader = self._reader(relaxation or _DEFAULT)
        if reader is None:
            classes: IntArray = self.predict_outputs(x, relaxation).argmax(axis=1)
            return classes
        inputs = self._checked(x)
        found = np.empty(len(inputs), np.int64)
        for rows in self._batches(inputs):
            found[rows] = reader.classes(inputs[rows])
        return found

    def _checked(self, x: npt.ArrayLike) -> FloatArray:
        inputs = checked_matrix("x", x, self.backend.network.inputs, self.backend.dtype)
        self.backend.network.check_inputs(inputs)
        return inputs

    def _reader(self, relaxation: Relaxation) -> Reader | None:
        """Return the reader of the parameters as they are."""
        kept, version = self._prepared, self.backend.version
        if kept is None or kept[:2] != (version, relaxation):
            kept = version, relaxation, self.backend.reader(relaxation)
            self._prepared = kept
        return kept[2]

    def _batches(self, inputs: FloatArray) -> Iterator[slice]:
        """Yield the rows of each batch."""
        for first in range(0, len(inputs), self.batch_size):
            yield slice(first, first + self.batch_size)


@checked
def predict_outputs(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> FloatArray:
    """Return the outputs at the free equilibrium, `(samples, outputs)`."""
    return Predictor(backend, batch_size).predict_outputs(x, relaxation)


@checked
def predict_proba(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> FloatArray:
    """Return class probabilities `(samples, classes)`."""
    return Predictor(backend, batch_size).predict_proba(x, relaxation)


@checked
def predict(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> IntArray:
    """Return the class with the largest output, `(samples,)`."""
    return Predictor(backend, batch_size).predict(x, relaxation)


@checked
def evaluate(
    backend: Backend,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> Evaluation:
    """Measure mean cost, and accuracy where `y` holds class labels, at the free equilibrium."""
    network = backend.network
    inputs, targets = checked_data(backend, x, y)
    check_count("batch_size", batch_size)
    cost = steps = unsettled = right = 0.0
    with fitting_threads(network, batch_size), backend.fitting_threads(batch_size):
        for first in range(0, len(inputs), batch_size):
            rows = slice(first, first + batch_size)
            goal = backend.own(targets[rows])
            settled = backend.settle(
                backend.clamp(backend.own(inputs[rows])), relaxation=relaxation
            )
            read = network.of(network.readout.layer, settled.state)
            cost += number(network.readout.cost(backend.blocks, read, goal).sum())
            guess = backend.predict(settled).argmax(axis=1)
            right += number((guess == goal.argmax(axis=1)).sum())
            steps += number(settled.steps.sum())
            unsettled += number((~settled.converged).sum())
    backend.check_finite()
    count = len(inputs)
    cost, steps, unsettled, right = map(float, (cost, steps, unsettled, right))
    accuracy = right / count if np.ndim(y) == 1 else None
    return Evaluation(cost / count, accuracy, steps / count, unsettled / count)
