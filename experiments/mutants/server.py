"""A process that has loaded what takes long to load, and forks for every run of tests.

It lives in a private copy of the tree and must not import what may be mutated. It reads one job a
line, as JSON, and answers with the exit code of pytest, or null if the process had to be killed.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from experiments.mutants.inside import run_tests

PAUSE_S = 0.01


def main() -> None:
    """Load the libraries that the arguments name, and serve jobs until the input ends."""
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):  # torch is optional
            importlib.import_module(name)
    gc.freeze()  # forked processes share what is loaded
    for line in sys.stdin:
        code = _serve(json.loads(line))
        try:
            print(json.dumps(code), flush=True)
        except BrokenPipeError:  # the command is gone
            os._exit(1)


def _serve(job: dict[str, Any]) -> int | None:
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            code = run_tests(job, Path.cwd())
        finally:
            os._exit(code)
    signal.signal(signal.SIGTERM, lambda *_: _kill(process, leave=True))
    deadline = time.monotonic() + job["deadline"]
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else None
        time.sleep(PAUSE_S)
    _kill(process, leave=False)
    os.waitpid(process, 0)
    return None


def _kill(process: int, leave: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    if leave:
        os._exit(0)


if __name__ == "__main__":
    main()
