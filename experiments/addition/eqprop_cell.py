"""An adder by equilibrium propagation alone: one cell adds two digits and a carry.

The cell is a layered network of the engine with one output for each total from 0 to 19, which is a
digit and a carry. It learns its 200 cases by free and nudged phases, with no autograd anywhere, and
is chained from the least significant digit to the most: each carry it reads is one that it said
before. Every digit of every sum is a relaxation of its own.
"""

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.optimizer import Adam
from engine.learning.predict import predict_outputs
from engine.learning.run import Epoch
from engine.learning.spectral import SpectralCap
from engine.learning.training import Progress, Training, fit
from engine.model.builders import layered
from engine.model.params import initial_params
from experiments.addition.config import CELL_UPDATES
from experiments.addition.data import Numbers, Pairs
from experiments.addition.sums import DIGITS, SUM_DIGITS

BASE, CARRIES = 10, 2
INPUTS, OUTPUTS = 2 * BASE + CARRIES, BASE * CARRIES
CASES = BASE * BASE * CARRIES
BATCH = 1024


@dataclass(frozen=True)
class CellSettings:
    """The cell and how it learns; `updates` are full-batch steps over all cases."""

    hidden: tuple[int, ...] = (128, 64)
    updates: int = CELL_UPDATES
    lr: float = 0.02
    free: Relaxation = field(default_factory=lambda: Relaxation(30, 1e-3))
    nudged: Relaxation = field(default_factory=lambda: Relaxation(15, 1e-3))
    cap: float = 0.95


@dataclass(frozen=True)
class CellResult:
    """What one seed came to."""

    seed: int
    parameters: int
    right_cases: int
    """Of the 200 the cell was trained on."""
    exact: int
    total: int
    """Sums of ten digits, none of which the cell ever saw as a whole."""
    steps: float
    """Mean relaxation steps of a digit."""
    unsettled: float
    """Share of digits whose relaxation stopped before its tolerance."""


def all_cases() -> tuple[FloatArray, FloatArray]:
    """Return every input `(200, 22)` and the target `(200, 20)`: its total, one-hot."""
    cases = np.array(list(product(range(BASE), range(BASE), range(CARRIES))), np.int64)
    targets: FloatArray = np.eye(OUTPUTS, dtype=np.float32)[cases.sum(axis=1)]
    return one_hot(*cases.T), targets


def one_hot(a: Numbers, b: Numbers, carry: Numbers) -> FloatArray:
    """Return the input `(n, 22)` of digits and carries."""
    x = np.zeros((len(a), INPUTS), np.float32)
    rows = np.arange(len(a))
    x[rows, a] = x[rows, BASE + b] = x[rows, 2 * BASE + carry] = 1.0
    return x


def read(outputs: FloatArray) -> tuple[Numbers, Numbers]:
    """Return the digit and the carry that outputs `(n, 20)` say."""
    carry, digit = np.divmod(outputs.argmax(axis=1), BASE)
    return digit, carry


def train_cell(
    settings: CellSettings, seed: int, progress: Progress | None = None
) -> tuple[Backend, list[Epoch]]:
    """Train a cell by free and nudged phases on all its cases."""
    network = layered((INPUTS, *settings.hidden, OUTPUTS))
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(seed)))
    training = Training(
        epochs=settings.updates,
        batch_size=CASES,
        free=settings.free,
        nudged=settings.nudged,
        optimizer=Adam(settings.lr),
        cap=SpectralCap(settings.cap, every=5),
        seed=seed,
    )
    return backend, fit(backend, *all_cases(), training, progress=progress)


def count_right_cases(backend: Backend, relaxation: Relaxation) -> int:
    """Return how many of the cases have both digit and carry right."""
    x, targets = all_cases()
    said, meant = read(predict_outputs(backend, x, relaxation, BATCH)), read(targets)
    return int(((said[0] == meant[0]) & (said[1] == meant[1])).sum())


def add(backend: Backend, pairs: Pairs, relaxation: Relaxation) -> tuple[Numbers, float, float]:
    """Add by chaining the cell; return sums, mean steps of a digit, share that did not settle."""
    sums = np.zeros(len(pairs), np.int64)
    steps = unsettled = 0.0
    for first in range(0, len(pairs), BATCH):
        part = pairs[first : first + BATCH]
        carry = np.zeros(len(part), np.int64)
        for place in range(DIGITS):
            power = BASE**place
            x = one_hot(part.a // power % BASE, part.b // power % BASE, carry)
            settled = backend.settle(backend.clamp(x), relaxation=relaxation)
            digit, carry = read(backend.predict(settled))
            sums[first : first + BATCH] += digit * power
            steps += float(settled.steps.sum())
            unsettled += float((~settled.converged).sum())
        sums[first : first + BATCH] += carry * BASE ** (SUM_DIGITS - 1)
    count = len(pairs) * DIGITS
    return sums, steps / count, unsettled / count


def judge_cell(
    settings: CellSettings, seed: int, pairs: Pairs, progress: Progress | None = None
) -> CellResult:
    """Train the cell of a seed and let it add."""
    backend, _ = train_cell(settings, seed, progress)
    right = count_right_cases(backend, settings.free)
    sums, steps, unsettled = add(backend, pairs, settings.free)
    exact = int((sums == pairs.a + pairs.b).sum())
    parameters = backend.network.size
    return CellResult(seed, parameters, right, exact, len(pairs), steps, unsettled)
