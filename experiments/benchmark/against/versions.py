"""Where a version lies, and the process that times it."""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from experiments.benchmark.against import worker
from experiments.pool import ONE_THREAD

ROOT = Path(__file__).parents[3]
CLOSING_SECONDS = 10.0
"""How long a process may take to end after its input has."""


class VersionError(ValueError):
    """A version that cannot be timed, as one sentence."""


@dataclass(frozen=True)
class Version:
    """A folder with an `engine`, and what it is called."""

    title: str
    folder: Path


@dataclass(frozen=True)
class Seconds:
    """What a case took of the processors, all threads together, and on the clock."""

    cpu: float
    wall: float


Answer: TypeAlias = Seconds | str
"""Times, or the reason why a version has none."""


def find_commit(given: str) -> str | None:
    """Return the commit of a git revision, `None` for a folder with an engine."""
    if os.path.isdir(given):
        if not Path(given, "engine", "__init__.py").is_file():
            raise VersionError(f"{given} holds no engine/__init__.py: it is no checkout of Settle.")
        return None
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{given}^{{commit}}")
    if found is None:
        raise VersionError(f"'{given}' is neither a folder nor a revision of this repository.")
    return found.decode("ascii").strip()


@contextmanager
def checked_out(given: str) -> Iterator[Version]:
    """Provide the version in a folder, or of a git revision in a folder that is then removed."""
    commit = find_commit(given)
    if commit is None:
        yield Version(given, Path(given).resolve())
        return
    packed = _git("archive", "--format=tar", commit, "engine")
    if packed is None:
        raise VersionError(f"revision '{given}' has no folder engine.")
    with tempfile.TemporaryDirectory(prefix="settle-") as place:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(place, filter="data")
        yield Version(f"{given} ({commit[:10]})", Path(place).resolve())


def _git(*arguments: str) -> bytes | None:
    """Return what git prints, `None` if it refuses."""
    try:
        ended = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    except FileNotFoundError:
        raise VersionError("to compare with a revision, git has to be installed.") from None
    return ended.stdout if ended.returncode == 0 else None


@cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """Return the folder for compiled Python of all versions, which is removed in the end.

    Else one that has run in its folder would be imported faster than one that was just unpacked.
    """
    return tempfile.TemporaryDirectory(prefix="settle-")


def _environment(threads: int) -> dict[str, str]:
    """Return the environment in which every version runs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return (
        kept | dict.fromkeys(ONE_THREAD, str(threads)) | {"PYTHONPYCACHEPREFIX": _bytecode().name}
    )


class TimingProcess:
    """A process that has imported the engine of a version and times what it is asked for."""

    def __init__(self, version: Version, threads: int) -> None:
        self._version = version
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  until `close`
        self._process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__, str(version.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(threads),
            text=True,
        )
        self._asked = cast(IO[str], self._process.stdin)
        self._told = cast(IO[str], self._process.stdout)
        said = self._answer("importing it")
        if "absent" in said:
            self.close()
            raise VersionError(f"{version.title} cannot be imported ({said['absent']}).")
        if Path(said["folder"]).resolve() != version.folder / "engine":
            self.close()
            raise VersionError(f"{version.title} was asked for, and {said['folder']} was imported.")
        self.imported = Seconds(said["cpu"], said["wall"])

    def time(self, case: str, calls: int) -> Answer:
        """Return the times of one call of a case, as the mean of some, or why there are none."""
        with suppress(BrokenPipeError):  # it has ended: then the answer is missing too
            self._asked.write(json.dumps({"case": case, "calls": calls}) + "\n")
            self._asked.flush()
        said = self._answer(case)
        return said["absent"] if "absent" in said else Seconds(said["cpu"], said["wall"])

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):
            self._asked.close()
        try:
            self._process.wait(CLOSING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._told.close()
        self._errors.close()

    def _answer(self, case: str) -> dict[str, Any]:
        line = self._told.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        self.close()
        reason = lines[-1] if lines else f"exit code {self._process.returncode}"
        raise VersionError(f"the process of {self._version.title} ended in '{case}': {reason}.")
