"""What a trained network says: outputs, classes, and how well they fit."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, IntArray, checked_matrix, number, plain_array
from engine.backend import Backend
from engine.border import checked
from engine.compiled.threads import fitting_threads
from engine.equilibrium import Relaxation
from engine.errors import EngineError, check_count
from engine.model.network import Network


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


@checked
def predict_outputs(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> FloatArray:
    """Return the outputs at the free equilibrium, `(samples, outputs)`."""
    inputs = checked_matrix("x", x, backend.network.inputs, backend.dtype)
    check_count("batch_size", batch_size)
    outputs = np.empty((len(inputs), backend.network.outputs), backend.dtype)
    with fitting_threads(backend.network, batch_size):
        for first in range(0, len(inputs), batch_size):
            rows = slice(first, first + batch_size)
            settled = backend.settle(backend.clamp(inputs[rows]), relaxation=relaxation)
            outputs[rows] = backend.predict(settled)
    return outputs


@checked
def predict_proba(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> FloatArray:
    """Return class probabilities `(samples, classes)`."""
    reading = backend.network.reading
    if reading is None or reading.positions != 1:
        kind = type(backend.network.readout).__name__
        raise EngineError(f"the read-out {kind} has no probabilities; use predict_outputs.")
    return predict_outputs(backend, x, relaxation, batch_size)


@checked
def predict(
    backend: Backend,
    x: npt.ArrayLike,
    relaxation: Relaxation | None = None,
    batch_size: int = 1024,
) -> IntArray:
    """Return the class with the largest output, `(samples,)`."""
    classes: IntArray = predict_outputs(backend, x, relaxation, batch_size).argmax(axis=1)
    return classes


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
    with fitting_threads(network, batch_size):
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
