"""Commands in processes of their own: start one, wait for something, see what is still alive."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Found = TypeVar("Found")
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds until a command has begun, on a machine that does other things too."""


def start(module: str, *given: object) -> subprocess.Popen:
    """Start a module in a session of its own, as a terminal would."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, given)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(
    happened: Callable[[], Found],
    process: subprocess.Popen | None = None,
    seconds: float = PATIENCE,
) -> Found:
    """Return what `happened` returns as soon as that is true; `process` must live until then."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        if process is not None and process.poll() is not None:
            pytest.fail(f"it ended by itself: {process.communicate()}")
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def family_of(process: subprocess.Popen) -> list[int]:
    """Return the living processes that a command started, and itself: they share its session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # gone in the meantime
        if int(session) == process.pid and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def is_gone(process: subprocess.Popen, seconds: float = 5.0) -> bool:
    """Wait until nothing is left of a command."""
    return wait_until(lambda: not family_of(process), seconds=seconds)
