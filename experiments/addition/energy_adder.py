"""Research: an energy transformer that adds numbers of a few digits end to end.

A row is the digits of both operands, the least significant first, and a blank. The tokens relax
together; in the end those of the second operand and the blank say the digits of the sum, those of
the first operand their own digit. EqProp and backprop train the same energy from the same start on
the same sums. Which sums are for testing is settled by a hash, so that none was ever trained on.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from adapters.torch_autograd import bptt_gradient
from engine.arrays import IntArray
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.learning.optimizer import Adam, scheduled
from engine.learning.run import Run
from engine.learning.training import Training, descend, train_step
from engine.model.builders import energy_transformer
from engine.model.network import Network
from engine.model.params import initial_params
from experiments.addition.config import ENERGY_UPDATES
from experiments.reporting.document import Table
from experiments.reporting.number_text import percent
from experiments.transformer.parts import decay_rates, readout_of
from experiments.transformer.sequences import TEST, TRAINING, VALIDATION, draw_sequences
from experiments.transformer.training import EQPROP, METHODS

BASE = 10
BLANK = BASE
BATCH = 500
LOOKS = 8
"""How often the sums of the validation part are counted during training."""
VALIDATED = 500


@dataclass(frozen=True)
class EnergySettings:
    """The network and how it learns; the recipe is that of `experiments/transformer`."""

    digits: int
    updates: int = ENERGY_UPDATES
    width: int = 64
    heads: int = 2
    memories: int = 0
    batch: int = 64
    lr: float = 1e-2
    last_rate: float = 0.1
    decay: float = 5.0
    beta: float = 0.2
    damping: float = 0.5
    free_steps: int = 60
    nudged_steps: int = 20
    unrolled_steps: int = 30
    """Steps that backprop differentiates through."""
    tolerance: float = 1e-4
    tested: int = 2000

    @property
    def network(self) -> Network:
        """One token for each digit of the operands, and the blank."""
        length = 2 * self.digits + 1
        return energy_transformer(
            BASE + 1, length, self.width, self.heads, memories=self.memories, outputs=BASE
        )

    @property
    def free(self) -> Relaxation:
        """The free phase, in training and in testing."""
        return Relaxation(self.free_steps, self.tolerance, damping=self.damping)


@dataclass(frozen=True)
class EnergyResult:
    """What one training came to, on sums that were held out."""

    digits: int
    method: str
    seed: int
    parameters: int
    exact: int
    total: int
    right_digits: float
    """Share of the digits of the sums."""
    unsettled: float
    curve: tuple[tuple[int, float], ...]
    """Updates made, and the share of exact sums on the validation part."""
    seconds: float


def draw_sums(
    rng: np.random.Generator, part: str, count: int, digits: int
) -> tuple[IntArray, IntArray]:
    """Return rows `(count, 2 digits + 1)` of a part, and what the tokens have to say."""
    operands = draw_sequences(rng, part, count, BASE, 2 * digits)
    rows = np.hstack([operands, np.full((count, 1), BLANK)])
    return rows, answers_to(rows)


def answers_to(rows: IntArray) -> IntArray:
    """Return the digits of `a`, then those of `a + b`, one more than an operand has."""
    digits = rows.shape[1] // 2
    powers = BASE ** np.arange(digits + 1)
    a, b = rows[:, :digits], rows[:, digits : 2 * digits]
    total = (a + b) @ powers[:digits]
    return np.hstack([a, total[:, None] // powers % BASE])


def count_exact(
    backend: NumbaBackend, settings: EnergySettings, rows: IntArray, answers: IntArray
) -> tuple[int, float, float]:
    """Return exact sums, the share of right digits of sums, and the share that did not settle."""
    readout = readout_of(backend.network)
    said, unsettled = [], 0
    for first in range(0, len(rows), BATCH):
        clamped = backend.clamp(rows[first : first + BATCH])
        settled = backend.settle(clamped, relaxation=settings.free)
        said.append(readout.read(backend.predict(settled)))
        unsettled += int((~settled.converged).sum())
    right = (np.concatenate(said) == answers)[:, settings.digits :]
    return int(right.all(axis=1).sum()), float(right.mean()), unsettled / len(rows)


def train_adder(settings: EnergySettings, method: str, seed: int) -> EnergyResult:
    """Train on sums drawn anew for each update, and test on those held out."""
    network = settings.network
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(seed)))
    training = Training(
        beta=settings.beta,
        free=settings.free,
        nudged=replace(settings.free, max_steps=settings.nudged_steps),
        schedule="constant",
        cap=None,
        decay=decay_rates(network, settings.decay),
    )
    run = Run.start(network, Adam.moments, backend.dtype, seed)
    rng = np.random.default_rng([seed, 1])
    seen = draw_sums(np.random.default_rng([seed, 3]), VALIDATION, VALIDATED, settings.digits)
    curve, seconds = [], 0.0
    looks = {round(k * settings.updates / LOOKS) for k in range(1, LOOKS + 1)}
    for update in range(settings.updates):
        rows, answers = draw_sums(rng, TRAINING, settings.batch, settings.digits)
        share = scheduled("cosine", update, settings.updates, settings.last_rate)
        now = replace(training, optimizer=Adam(settings.lr * share))
        x, y = rows.astype(np.float32), readout_of(network).targets(answers)
        began = time.perf_counter()
        if method == EQPROP:
            train_step(backend, x, y, now, run, 1)
        else:
            steps, damping = settings.unrolled_steps, settings.damping
            run.gradient[:] = bptt_gradient(network, backend.params, x, y, steps, None, damping)
            descend(backend, now, run, 1)
        seconds += time.perf_counter() - began
        if update + 1 in looks:
            exact, _, _ = count_exact(backend, settings, *seen)
            curve.append((update + 1, exact / VALIDATED))
    tested = draw_sums(np.random.default_rng([seed, 2]), TEST, settings.tested, settings.digits)
    exact, right, unsettled = count_exact(backend, settings, *tested)
    return EnergyResult(
        settings.digits, method, seed, network.size, exact, settings.tested, right, unsettled,
        tuple(curve), seconds,
    )  # fmt: skip


def result_table(results: list[EnergyResult]) -> Table:
    """Return a row for each training."""
    rows = tuple(
        (
            str(r.digits),
            METHODS[r.method],
            str(r.seed),
            f"{r.exact:,} of {r.total:,}",
            percent(r.right_digits),
            percent(r.unsettled),
            f"{r.seconds:.0f}",
        )
        for r in results
    )
    return Table(
        "Energy transformer that adds end to end",
        ("digits", "method", "seed", "exact sums", "right digits (%)", "not settled (%)", "s"),
        rows,
        "On sums that were held out. Of random guesses one digit in ten is right.",
        text_columns=2,
    )
