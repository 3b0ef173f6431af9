"""The folder of a run: its configuration, its metrics, its checkpoints and its summary."""

import csv
import io
import json
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from adapters.torch_arrays import torch
from engine.arrays import FloatArray
from experiments.addition.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from experiments.addition.config import AdditionError, ModelConfig, TrainConfig, as_table
from experiments.addition.data import Sampler, holdout
from experiments.addition.parameters import Blocks, start_values
from experiments.records import write_text

GROKKED = 0.99
"""Share of exact sums on the test part from which a run counts as having grokked."""


@dataclass(frozen=True)
class MetricRow:
    """One evaluation: a row of `metrics.csv`."""

    step: int
    train_loss: float
    val_exact: float
    val_token_acc: float
    lr: float
    elapsed_sec: float


class SeedRun:
    """One seed in training, and the files it leaves."""

    def __init__(
        self, folder: Path, model: ModelConfig, train: TrainConfig, device: str, *, fresh: bool
    ) -> None:
        self.folder, self.model, self.train, self.device = folder, model, train, device
        self.held_out = holdout(train.seed)
        self.sampler = Sampler(train.seed, self.held_out)
        self.flat: FloatArray
        self.frozen: Blocks
        self.flat, self.frozen = start_values(model, train)
        self.moments: FloatArray = np.zeros((2, *self.flat.shape), np.float32)
        self.step = 0
        """Number of updates that were made."""
        self.elapsed = 0.0
        self.metrics: list[MetricRow] = []
        if not fresh and self.last.is_file():
            self._take_up()

    @property
    def last(self) -> Path:
        """The checkpoint from which training goes on."""
        return self.folder / "checkpoints" / "last.pt"

    @property
    def best(self) -> Path:
        """The checkpoint with the best validation result."""
        return self.folder / "checkpoints" / "best.pt"

    @property
    def finished(self) -> bool:
        """Whether all steps were made, or enough evaluations in a row had no error."""
        patience = self.train.stop_after
        recent = self.metrics[-patience:] if patience else []
        solved = len(recent) == patience > 0 and all(row.val_exact == 1.0 for row in recent)
        return solved or self.step >= self.train.train_steps

    @property
    def best_metric(self) -> MetricRow:
        """The first of the evaluations with the most exact sums."""
        return max(self.metrics, key=lambda row: row.val_exact)

    def record(self, metric: MetricRow, flat: FloatArray, moments: FloatArray) -> None:
        """Keep an evaluation and write the files, each as a whole."""
        self.metrics.append(metric)
        self.step, self.elapsed = metric.step + 1, metric.elapsed_sec
        train = as_table(self.train)
        saved = Checkpoint(self.model, flat, self.frozen, metric.step, metric.val_exact, {})
        if self.best_metric is metric:
            save_checkpoint(self.best, saved, train)
        write_text(self.folder / "metrics.csv", self._table())
        training = {
            "moments": torch.tensor(moments),
            "rng": json.dumps(self.sampler.rng.bit_generator.state),
            "elapsed": self.elapsed,
            "config": json.dumps(train, sort_keys=True),
        }
        whole = Checkpoint(self.model, flat, self.frozen, metric.step, metric.val_exact, training)
        save_checkpoint(self.last, whole, train)

    def write_config(self) -> None:
        """Say what the run is."""
        content = {
            "model": as_table(self.model),
            "train": as_table(self.train),
            "device": self.device,
        }
        write_text(self.folder / "config.json", json.dumps(content, indent=1))

    def write_summary(self, test_exact: float) -> dict[str, Any]:
        """Say what came out; `test_exact` is that of the best checkpoint on the test part."""
        best = self.best_metric
        summary = {
            "run_name": self.folder.name,
            "seed": self.train.seed,
            "params": int(self.flat.size),
            "best_val_exact": best.val_exact,
            "best_step": best.step,
            "test_exact": test_exact,
            "grokked": test_exact >= GROKKED,
            "steps": self.step,
            "train_steps": self.train.train_steps,
            "elapsed_sec": self.elapsed,
            "ms_per_step": 1e3 * self.elapsed / self.step,
            "device": self.device,
            "model_config": as_table(self.model),
        }
        write_text(self.folder / "summary.json", json.dumps(summary, indent=1))
        return summary

    def _take_up(self) -> None:
        """Go on where the last checkpoint was written."""
        saved = load_checkpoint(self.last)
        wanted = json.dumps(as_table(self.train), sort_keys=True)
        if saved.config != self.model or saved.training.get("config") != wanted:
            raise AdditionError(
                f"{self.last} is from a run with other settings: choose another --run-name, or "
                "--fresh to train again."
            )
        try:
            moments = saved.training["moments"].numpy()
            self.sampler.rng.bit_generator.state = json.loads(saved.training["rng"])
            self.elapsed = float(saved.training["elapsed"])
            rows = read_metrics(self.folder / "metrics.csv")
            self.metrics = [row for row in rows if row.step <= saved.step]
        except (KeyError, ValueError, TypeError, AttributeError, OSError) as error:
            raise AdditionError(f"{self.last} cannot be taken up: {error}.") from None
        if not self.metrics:
            raise AdditionError(f"{self.last} cannot be taken up: its metrics.csv is empty.")
        if moments.shape != self.moments.shape or not np.isfinite(moments).all():
            raise AdditionError(f"{self.last} cannot be taken up: its moments do not fit.")
        self.flat, self.frozen, self.moments = saved.flat, saved.frozen, moments.copy()
        self.step = saved.step + 1

    def _table(self) -> str:
        file = io.StringIO()
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([field.name for field in fields(MetricRow)])
        rows.writerows(astuple(metric) for metric in self.metrics)
        return file.getvalue()


def read_metrics(path: Path) -> list[MetricRow]:
    """Read the evaluations of a run."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            MetricRow(int(row.pop("step")), **{name: float(value) for name, value in row.items()})
            for row in csv.DictReader(file)
        ]
