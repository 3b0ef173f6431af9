"""Runs that are kept: what each measured in a file of its own, so that a command goes on later.

A run is that of a job if all that it depends on is the same: task and data, network and start,
learner, substrate, seed and settings.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.hardware.curve import Point
from experiments.hardware.job import AsLoaded, Job, Outcome, network_of
from experiments.records import write_text
from hw_sim.chips.crossbar import CROSSBAR
from hw_sim.chips.settling import Settling
from hw_sim.counts import WordCount

FORMAT = "settle hardware run 1"
RUN_FILE = "runs/eqprop-digital-00000000-000000000000.json"
"""As long a name as they get."""


@dataclass(frozen=True)
class Keep:
    """Where runs are kept, and whether those of earlier calls count."""

    folder: Path
    data: str = ""
    """Checksum of the user's data; empty for a task of the command."""
    fresh: bool = False

    def found(self, job: Job) -> Outcome | None:
        """Return what an earlier call measured of a job, if it did."""
        return None if self.fresh else load_run(self.path(job), self.mark(job), job.label)

    def save(self, job: Job, outcome: Outcome) -> None:
        """Write a run as a whole or not at all."""
        content = {"format": FORMAT, "mark": self.mark(job), "run": run_values(outcome)}
        write_text(self.path(job), json.dumps(content, separators=(",", ":")))

    def path(self, job: Job) -> Path:
        """Return the file of a job: a name to read, and what tells its settings apart."""
        digest = hashlib.sha256(json.dumps(self.mark(job), sort_keys=True).encode()).hexdigest()
        return self.folder / f"{job.learner}-{job.substrate}-{job.seed}-{digest[:12]}.json"

    def mark(self, job: Job) -> dict[str, Any]:
        """Return all that a run depends on, as JSON has it."""
        values = job.settings.chosen(job.learner, job.substrate, job.network).values()
        used = {**values, **dict.fromkeys(job.settings.chips), job.substrate: values[job.substrate]}
        device = values[CROSSBAR.name]["device"] if job.substrate == CROSSBAR.name else ""
        saved = job.own.saved if job.own is not None else None
        found = {
            "task": job.task.name,
            "data": self.data,
            "network": hashlib.sha256(repr(network_of(job)).encode()).hexdigest(),
            "start": "" if saved is None else hashlib.sha256(saved.theta.tobytes()).hexdigest(),
            "device": file_checksum(Path(device)) if device else "",
            "learner": job.learner,
            "substrate": job.substrate,
            "seed": job.seed,
            "settings": used,
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain


def file_checksum(path: Path) -> str:
    """Return the checksum of a file of the user, which may change under the same name."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_values(outcome: Outcome) -> dict[str, Any]:
    """Return a run with the counts of all looks by event: names would fill the file otherwise."""
    found = asdict(outcome)
    counted = [point.pop("counts") for point in found["curve"]]
    events: dict[tuple[str, ...], list[int]] = {tuple(row[:3]): [] for row in counted[-1]}
    for rows in counted:
        now = {tuple(row[:3]): row[3] for row in rows}
        for event, numbers in events.items():
            numbers.append(now.get(event, 0))
    found["counts"] = [[*event, numbers] for event, numbers in events.items()]
    return found


def run_from(values: dict[str, Any], label: str) -> Outcome:
    """Read what `run_values` returned."""
    fields = dict(values)
    counts, points = fields.pop("counts"), fields["curve"]
    looks = [
        [[*event, numbers[k]] for *event, numbers in counts if numbers[k]]
        for k in range(len(points))
    ]
    curve = tuple(Point(**point, counts=rows) for point, rows in zip(points, looks, strict=True))
    loaded, settling = fields["as_loaded"], fields["settling"]
    fields |= {"curve": curve, "memory": WordCount(**fields["memory"])}
    fields["as_loaded"] = None if loaded is None else AsLoaded(**loaded)
    fields["settling"] = None if settling is None else Settling(**settling)
    return replace(Outcome(**fields), label=label)


def load_run(path: Path, mark: dict[str, Any], label: str) -> Outcome | None:
    """Read a run; `None` if the file is not there, not whole, or another run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if (content["format"], content["mark"]) != (FORMAT, mark):
            return None
        return run_from(content["run"], label)
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None
