"""A private copy of the tree with a server in it: where mutants live, one at a time."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.mutants.errors import MutantsError
from experiments.mutants.mutant import Mutant

FOLDERS = ("engine", "hw_sim", "golden", "adapters", "experiments", "tests")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.part")
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = ("numpy", "numba", "scipy.stats", "hypothesis", "rich", "torch._dynamo")
"""Loaded once; the optimizers of torch load dynamo."""
GRACE_S = 30.0
"""Time to import and collect, beyond that of the tests."""


@dataclass(frozen=True)
class PytestRun:
    """How a run of tests ended, and the events that it wrote."""

    code: int | None
    events: list[dict[str, Any]]


class Workplace:
    """Runs tests in a copy of the tree, on mutants or on the code as it is."""

    def __init__(self, root: Path, compiled: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="settle-mutants-", ignore_cleanup_errors=True
        )
        self.root = Path(self._folder.name).resolve() / "tree"
        for name in FOLDERS:
            shutil.copytree(root / name, self.root / name, ignore=LEFT_OUT)
        shutil.copy2(root / "pyproject.toml", self.root)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "experiments.mutants.server", *LIBRARIES],
            cwd=self.root,
            env=self._environment(compiled),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command, which then closes this
        )

    def _environment(self, compiled: bool) -> dict[str, str]:
        fixed = {"NUMBA_DISABLE_JIT": "0" if compiled else "1", "PYTHONHASHSEED": "0"}
        fixed |= {"NUMBA_CACHE_DIR": str(self.root.parent / "numba"), "HYPOTHESIS_PROFILE": "ci"}
        return os.environ | fixed | dict.fromkeys(ONE_THREAD, "1")

    def measure(self, file: str, limit: float, skip: Sequence[str]) -> PytestRun:
        """Run a file of tests as it is, tracing what each enters, without those in `skip`."""
        job = {"limits": None, "limit": limit, "skip": list(skip), "files": [file]}
        return self._run(job | {"deadline": 3600.0})

    def warm(self, files: Sequence[str]) -> None:
        """Collect files of tests once, to write the bytecode that all runs read."""
        if files:
            self._run({"limits": {}, "files": list(files), "deadline": 600.0})

    def run(self, limits: Mapping[str, float], mutant: Mutant | None = None) -> PytestRun:
        """Run the tests that `limits` names, in that order, to the first that fails."""
        files = list(dict.fromkeys(name.partition("::")[0] for name in limits))
        job = {"limits": dict(limits), "files": files, "deadline": GRACE_S + sum(limits.values())}
        if mutant is None:
            return self._run(job)
        with self._planted(mutant):
            return self._run(job)

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        before, times = path.read_bytes(), path.stat()
        path.write_text(mutant.mutated, encoding="utf-8")
        later = times.st_mtime_ns + 10**10  # not that of the bytecode of the file as it is
        os.utime(path, ns=(later, later))
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _run(self, job: dict[str, Any]) -> PytestRun:
        events = self.root.parent / "events.jsonl"
        events.unlink(missing_ok=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            self._server.stdin.write(json.dumps(job | {"events": str(events)}) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        except (OSError, ValueError):
            answer = ""
        if not answer:
            raise MutantsError("the process that runs the tests ended by itself.")
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        return PytestRun(json.loads(answer), [json.loads(line) for line in lines])

    def close(self) -> None:
        """End the server, with what it runs, and remove the copy."""
        self._server.terminate()
        self._server.wait()
        self._folder.cleanup()
