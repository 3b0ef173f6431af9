"""What a run measured, and the file that keeps it: one small JSON for each run."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EpochPoint:
    """One epoch of a run.

    `accuracy`, or another score (`Record.metric`), is on the test part: it is drawn, and decides
    nothing. `cosine` is that of the EqProp estimate with the autograd gradient on a fixed batch,
    where it was measured.
    """

    epoch: int
    cost: float
    accuracy: float
    seconds: float
    free_steps: float | None = None
    nudged_steps: float | None = None
    unsettled: float | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class Record:
    """One contestant on one task with one seed; accuracies are fractions of the test part."""

    task: str
    title: str
    contestant: str
    seed: int
    accuracy: float
    cost: float
    n_test: int
    majority_rate: float
    parameters: int
    settings: dict[str, Any]
    curve: tuple[EpochPoint, ...]
    returns: dict[str, list[float]] | None
    """Returns of the `clone`, the `expert` and a `random` policy, episode by episode."""
    seconds: float
    measures: dict[str, Any] = field(default_factory=dict)
    """What only some experiments look at, by name, as JSON can hold it."""
    metric: str = "accuracy"
    """What `accuracy` holds: that, or `r2` where a number is to be predicted."""
    p_chance: float | None = None
    """P-value of a run that is no better than the best constant answer, where `accuracy` and
    `n_test` do not tell it."""

    @property
    def key(self) -> str:
        """Name of the run, unique within an experiment."""
        return f"{self.task}-{self.contestant}-{self.seed}"


def save_record(path: Path, record: Record) -> None:
    """Write a record as a whole or not at all."""
    write_text(path, json.dumps(asdict(record), indent=1))


def load_record(path: Path) -> Record | None:
    """Read a record; `None` if the file is not there or not a record."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["curve"] = tuple(EpochPoint(**point) for point in fields["curve"])
        return Record(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with its folder."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def partial_path(path: Path) -> Path:
    """Return where a file is written until it is whole; the name tells which process does it."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")
