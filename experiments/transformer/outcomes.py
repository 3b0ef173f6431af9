"""Do one run from beginning to end, and keep what it measured as one JSON file."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from experiments.records import write_text
from experiments.transformer.measures import (
    Answers,
    Moment,
    Multistability,
    attention_maps,
    examine,
    held_out,
    measure_multistability,
)
from experiments.transformer.sequences import TASKS
from experiments.transformer.training import TransformerJob, train


@dataclass(frozen=True)
class TransformerOutcome:
    """One network: what it was, how it learned, and what it answered."""

    task: str
    method: str
    seed: int
    settings: dict[str, Any]
    parameters: int
    settled: Answers
    """At equilibrium."""
    few: Answers
    """After 30 steps."""
    multistability: Multistability
    attention: tuple[tuple[tuple[float, ...], ...], ...]
    """Mean over test sequences, `heads x length x length`."""
    curve: tuple[Moment, ...]
    seconds: float
    """CPU time of training, without what was measured on the way."""

    @property
    def kind(self) -> tuple[str, int, int]:
        """Task, vocabulary and length."""
        return self.task, self.settings["vocabulary"], self.settings["length"]

    @property
    def least_cosine(self) -> float:
        """The lowest cosine with autograd that was seen in training; NaN if one is."""
        return float(np.min([moment.cosine for moment in self.curve]))

    @property
    def most_lopsided(self) -> float:
        """The largest share of sequences whose nudged states were not opposite."""
        return max(moment.lopsided for moment in self.curve)


def run_job(job: TransformerJob, watch: Callable[[int], None] | None = None) -> TransformerOutcome:
    """Train on one thread, then test on sequences that no update has seen."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        trained = train(job, watch)
        settings, backend = job.settings, trained.backend
        x = held_out(settings, job.seed)
        answers = TASKS[job.task].answer(x)
        restarted = x[: settings.restarted], answers[: settings.restarted]
        maps = attention_maps(backend, x, settings.settled)
        return TransformerOutcome(
            job.task,
            job.method,
            job.seed,
            settings.as_dict(),
            backend.network.size,
            settled=examine(backend, x, answers, settings.settled),
            few=examine(backend, x, answers, settings.few_steps),
            multistability=measure_multistability(backend, *restarted, settings, job.seed),
            attention=tuple(tuple(tuple(map(float, row)) for row in head) for head in maps),
            curve=trained.curve,
            seconds=trained.seconds,
        )


def save_outcome(folder: Path, key: str, outcome: TransformerOutcome) -> None:
    """Write an outcome as a whole or not at all."""
    write_text(folder / f"{key}.json", json.dumps(asdict(outcome), indent=1))


def load_outcome(path: Path) -> TransformerOutcome | None:
    """Read an outcome; `None` if the file is not there or not an outcome."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        for name in ("settled", "few"):
            fields[name]["steps"] = tuple(fields[name]["steps"])
            fields[name] = Answers(**fields[name])
        fields["multistability"] = Multistability(**fields["multistability"])
        fields["attention"] = tuple(tuple(map(tuple, head)) for head in fields["attention"])
        fields["curve"] = tuple(Moment(**moment) for moment in fields["curve"])
        return TransformerOutcome(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
