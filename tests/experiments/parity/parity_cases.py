"""A tiny real classification problem, and trainings of it that take a fraction of a second."""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.parity.contestants import ParityJob
from experiments.parity.settings import ParitySettings
from experiments.records import Record
from experiments.tasks import Task
from experiments.tasks.files import NumberTable, load_table

INPUTS, CLASSES = 3, 2
QUICK = ParitySettings(hidden=8, batch_size=16, epochs=2)


def make_table(samples: int = 80, seed: int = 0) -> NumberTable:
    """Return points, half of them on the inner side of a bent surface."""
    x = np.random.default_rng(seed).normal(size=(samples, INPUTS))
    height = x[:, 0] + x[:, 1] * x[:, 2]
    y = (height > np.median(height)).astype(np.int64)
    return NumberTable(x, y, ("below", "above"))


def write_csv(path: Path, samples: int = 80, seed: int = 0) -> Path:
    """Write the table as a user would."""
    table = make_table(samples, seed)
    rows = np.column_stack([table.x, table.y])
    lines = [",".join([*map(str, row[:-1]), str(int(row[-1]))]) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def make_job(contestant: str, seed: int = 42, load=None, **changes) -> ParityJob:
    """Return a quick training; `changes` are of the settings, or `final`."""
    final = changes.pop("final", True)
    task = Task("tiny", "Tiny", INPUTS, CLASSES, load or partial(load_table, make_table()))
    return ParityJob(task, contestant, seed, replace(QUICK, **changes), final)


def timeless(record: Record) -> dict:
    """Return what a record holds, apart from how long it took."""
    fields = asdict(record) | {"seconds": None}
    fields["curve"] = [point | {"seconds": None} for point in fields["curve"]]
    return fields
