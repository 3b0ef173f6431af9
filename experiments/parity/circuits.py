"""The contestant that is a circuit: resistors and diodes, trained by EqProp (`--circuits`).

It is not in the default runs: on images it takes minutes, and it is compared with baselines of
another size. Its settings are those of `experiments.circuit`.
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.predict import evaluate
from engine.learning.run import Epoch
from engine.learning.training import fit
from engine.model.params import initial_params
from experiments.circuit import recipe
from experiments.contest.jobs import Watch
from experiments.contest.result_tables import accuracy_text, gap_text, goal_badge, verdict_badge
from experiments.contest.summary import ContestSummary, TaskSummary
from experiments.contest.weights import save_weights
from experiments.parity.roster import CIRCUIT, SHORT
from experiments.records import EpochPoint, Record
from experiments.reporting.document import Badge, Cell, Table
from experiments.reporting.number_text import NONE, percent, setting
from experiments.statistics import ROUNDING
from experiments.tasks import Task

SETTLED = Relaxation(max_steps=100, solver="sweeps")
"""How the free equilibrium is found when a circuit is judged."""
GOALS = {"mnist": 0.98, "fashion_mnist": 0.885}
"""What a circuit is to reach, as fractions."""


@dataclass(frozen=True)
class CircuitSettings:
    """Everything that a run of a circuit depends on, apart from task and seed."""

    hidden: tuple[int, ...] = (64,)
    epochs: int = 20
    batch_size: int = 32
    lr: float = recipe.RATE
    input_amplification: float = recipe.INPUT_AMPLIFICATION
    total: float = recipe.TOTAL
    data: str = ""
    """Checksum of a user's file."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, as JSON gives them back."""
        return asdict(self) | {"hidden": list(self.hidden)}


CHOSEN = {
    "digits": CircuitSettings((128,)),
    "mnist": CircuitSettings((512,), epochs=10),
    "fashion_mnist": CircuitSettings((512, 256), epochs=8),
}
"""Of other tasks it is what `CircuitSettings` has."""


@dataclass(frozen=True)
class CircuitJob:
    """One training of a circuit to do, scored on the test part."""

    task: Task
    seed: int
    settings: CircuitSettings
    contestant: str = CIRCUIT
    label: str = ""
    weights: Path | None = None
    """The file in which the trained network is kept, if it is."""

    @property
    def key(self) -> str:
        """Name of the run, unique within an experiment."""
        return f"{self.task.name}-{self.contestant}-{self.seed}"

    def check(self) -> None:
        """Refuse a task or settings that no circuit or training can have."""
        if self.task.continuous:
            raise EngineError(
                f"{self.task.name} has numbers to be predicted, but circuits learn classes: leave "
                "--circuits out."
            )
        chosen = self.settings
        network = recipe.circuit(self.task.inputs, chosen.hidden, self.task.classes)
        params = initial_params(network, np.random.default_rng(0))
        recipe.settings(params, chosen.epochs, chosen.batch_size, self.seed, chosen.lr)

    def run(self, watch: Watch | None = None) -> Record:
        """Train on training and validation together, and measure on the test part."""
        with threadpool_limits(1):
            return _run(self, watch or (lambda point: None))


def circuit_job(task: Task, seed: int, epochs: int | None) -> CircuitJob:
    """Return the run of a circuit on a task; `epochs` in place of its own if it is not `None`."""
    settings = CHOSEN.get(task.name, CircuitSettings())
    return CircuitJob(task, seed, settings if epochs is None else replace(settings, epochs=epochs))


def _run(job: CircuitJob, watch: Watch) -> Record:
    began, task, chosen = time.perf_counter(), job.task, job.settings
    split = task.load(job.seed).joined()
    network = recipe.circuit(task.inputs, chosen.hidden, task.classes)
    params = initial_params(network, np.random.default_rng(job.seed))
    training = recipe.settings(params, chosen.epochs, chosen.batch_size, job.seed, chosen.lr)
    backend = NumbaBackend(network, params)
    curve: list[EpochPoint] = []

    def on_epoch(epoch: Epoch) -> None:
        found = evaluate(backend, split.x_test, split.y_test, SETTLED)
        point = EpochPoint(
            epoch=epoch.number,
            cost=epoch.cost,
            accuracy=float(found.accuracy or 0.0),
            seconds=epoch.seconds,
            free_steps=epoch.free_steps,
            nudged_steps=epoch.nudged_steps,
            unsettled=epoch.unsettled,
        )
        curve.append(point)
        watch(point)

    fit(backend, split.x_train, split.y_train, training, on_epoch=on_epoch)
    judged = evaluate(backend, split.x_test, split.y_test, SETTLED)
    save_weights(job, backend.params, split)
    return Record(
        task=task.name,
        title=task.title,
        contestant=job.contestant,
        seed=job.seed,
        accuracy=float(judged.accuracy or 0.0),
        cost=float(judged.cost),
        n_test=len(split.y_test),
        majority_rate=split.majority_rate,
        parameters=network.size,
        settings=chosen.as_dict(),
        curve=tuple(curve),
        returns=None,
        seconds=time.perf_counter() - began,
    )


def circuits_table(summary: ContestSummary) -> Table | None:
    """Put circuits beside the best baseline of each task; `None` if there is no run of any."""
    rows = tuple(_row(task) for task in summary.tasks if CIRCUIT in task.results)
    if not rows:
        return None
    header = (
        *("Task", "Hidden\nnodes", "Parameters", "EqProp\n(circuit)", "Goal", "Reached?"),
        *("Best\nbaseline", "Gap\n(95 % CI)", "Verdict"),
    )
    return Table(
        "EqProp on circuits of resistors and diodes",
        header,
        rows,
        caption="Percent of the test part, mean ± standard deviation over seeds. The gap is that "
        "of the circuit to the best backprop baseline, in percentage points, paired by seed, with "
        "the tests that the other networks have. The baseline has another number of parameters.",
    )


def _row(task: TaskSummary) -> tuple[Cell, ...]:
    found, judged, goal = task.results[CIRCUIT], task.judgements.get(CIRCUIT), GOALS.get(task.name)
    baseline = "not run"
    if task.baseline is not None:
        name = SHORT.get(task.baseline, task.baseline)
        baseline = f"{accuracy_text(task, task.baseline)}\n({name})"
    return (
        task.title,
        setting(found.settings["hidden"]).strip("[]"),
        " / ".join(f"{count:,}" for count in found.parameters),
        accuracy_text(task, CIRCUIT),
        NONE if goal is None else f"at least {percent(goal)}",
        NONE if goal is None else goal_badge(found.mean >= goal - ROUNDING),
        baseline,
        gap_text(judged.comparison) if judged else NONE,
        verdict_badge(judged.verdict) if judged else Badge("not compared", "open"),
    )
