"""Run tracks, several at once, each on one thread; a track that breaks is a result too."""

import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from threadpoolctl import threadpool_limits

from adapters.torch_arrays import torch
from engine.errors import NudgeWarning
from experiments.pool import as_finished
from experiments.verify.registry import find_tracks
from experiments.verify.track import (
    Finding,
    Level,
    Size,
    Status,
    Track,
    TrackSize,
    score_of,
    status_of,
)


@dataclass(frozen=True)
class TrackOutcome:
    """A track that was run: its finding, or the error that stopped it."""

    number: int
    title: str
    claim: str
    unit: str
    size: Size
    level: Level
    seconds: float
    finding: Finding | None
    error: str = ""

    @property
    def status(self) -> Status:
        """What it showed."""
        return Status.FAILED if self.finding is None else status_of(self.finding.checks)

    @property
    def score(self) -> float:
        """From 0 to 100."""
        return 0.0 if self.finding is None else score_of(self.finding.checks)


def run_tracks(tracks: Sequence[Track], effort: TrackSize, workers: int) -> Iterator[TrackOutcome]:
    """Yield the outcome of each track as soon as there is one, in any order."""
    numbers = [track.number for track in tracks]
    for _, outcome in as_finished(partial(_run_number, effort), numbers, workers):
        yield outcome


def run_track(track: Track, effort: TrackSize) -> TrackOutcome:
    """Run one track on one thread."""
    began = time.perf_counter()
    finding, error = None, ""
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        # Where a large beta matters the track measures what it does, in place of a warning.
        warnings.simplefilter("ignore", NudgeWarning)
        try:
            finding = track.verify(track.sizes[effort])
        except Exception as stop:
            # Whatever it was: the claim is not verified, and the other tracks still report.
            error = _sentence(stop)
    return TrackOutcome(
        number=track.number,
        title=track.title,
        claim=track.claim,
        unit=track.unit,
        size=track.sizes[effort],
        level=track.level(effort),
        seconds=time.perf_counter() - began,
        finding=finding,
        error=error,
    )


def _run_number(effort: TrackSize, number: int) -> TrackOutcome:
    (track,) = find_tracks([number])  # a track is found again in the worker, not sent to it
    return run_track(track, effort)


def _sentence(stop: Exception) -> str:
    where = traceback.extract_tb(stop.__traceback__)[-1]
    place = f"{Path(where.filename).name}, line {where.lineno}"
    return f"{type(stop).__name__} in {place}: {stop}"
