"""Settings that a user gives: on the command line, or in the file that `--tune` wrote."""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import EngineError
from experiments.assignments import assigned, split_assignment
from experiments.contest.choices import FIXED
from experiments.contest.jobs import JobSettings, TrainingJob

LARGEST_FILE = 1 << 24

Settings = TypeVar("Settings", bound=JobSettings)


@dataclass(frozen=True)
class GivenSettings:
    """What a user changes: `chosen` and `given` come from a file, `assignments` from `--set`."""

    assignments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that options of their own name; they come last."""
    chosen: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By task and contestant, as `--tune` found it."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What was given to that tuning."""
    best_baseline: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def apply(self, settings: Settings, task: str, contestant: str, usual: str = "") -> Settings:
        """Return the settings of a contestant; one that was not tuned has those of `usual`."""
        tuned = self.chosen.get(task)
        if tuned is not None:
            row = {**self.given, **tuned.get(contestant, tuned.get(usual, {}))}
            for name, value in row.items():
                said = f"{self.source}: {name}"
                settings = assigned(settings, name, str(value), said, fixed=FIXED)
        for assignment in self.assignments:
            key, text = split_assignment(assignment)
            settings = assigned(settings, key, text, f"--set {key}", fixed=FIXED)
        for name, value in self.options.items():
            settings = assigned(settings, name, str(value), f"--{name}")
        return settings

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Refuse settings that something else decides."""
        for key, _ in map(split_assignment, self.assignments):
            if key in names:
                raise EngineError(f"--set {key}: {why}.")

    def check_tasks(self, tasks: Sequence[str]) -> None:
        """Refuse a file with settings of other tasks only."""
        if self.source and not set(tasks) & set(self.chosen):
            raise EngineError(
                f"{self.source} has settings for {', '.join(self.chosen) or 'no task'}, none for "
                f"{', '.join(tasks)}."
            )

    def as_given(self) -> dict[str, Any]:
        """Return what `--set` and other options say, as a file of settings keeps it."""
        return {**dict(map(split_assignment, self.assignments)), **self.options}


def read_settings(path: Path) -> GivenSettings:
    """Read `tuning.json`, as `--tune` wrote it."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        chosen: dict[str, dict[str, dict[str, Any]]] = {}
        for row in content["chosen"]:
            chosen.setdefault(row["task"], {})[row["contestant"]] = dict(row["chosen"])
        best, given = dict(content.get("best_baseline", {})), dict(content.get("given", {}))
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EngineError(
            f"{path} is no file of settings that --tune wrote ({type(error).__name__}: {error})."
        ) from None
    return GivenSettings(chosen=chosen, given=given, best_baseline=best, source=str(path))


def check_jobs(jobs: Iterable[TrainingJob]) -> None:
    """Refuse settings that no network or training can have, before anything is trained."""
    for job in {(job.task.name, job.contestant, job.label): job for job in jobs}.values():
        job.check()


def given_settings(
    options: argparse.Namespace, named: Mapping[str, Any], tuned: Iterable[str]
) -> GivenSettings:
    """Return what a call changes: `--settings`, `--set`, and other options as settings `named`.

    A call that tunes chooses the settings `tuned` itself.
    """
    there = {name: value for name, value in named.items() if value is not None}
    given = replace(
        read_settings(options.settings) if options.settings else GivenSettings(),
        assignments=tuple(options.set or ()),
        options=there,
    )
    for key, _ in map(split_assignment, given.assignments):
        if key in there:
            raise EngineError(f"--set {key} and --{key} say the same: leave one of them out.")
    if not options.data:
        for name in ("label", "target", "margin"):
            if getattr(options, name, None) is not None:
                raise EngineError(f"--{name} is about your own data: name the file by --data.")
    if options.tune:
        if options.save_weights:
            raise EngineError("--save-weights and --tune: tuning keeps no network.")
        if options.seeds:
            raise EngineError("--seeds and --tune: tuning has seeds of its own, never reported.")
        if options.settings:
            raise EngineError("--settings and --tune: one uses settings, the other chooses them.")
        given.refuse(tuned, "--tune chooses it")
    return given
