"""A command that works without end: `python -m tests.experiments.pool_command FOLDER JOBS`."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from experiments.pool import as_finished
from experiments.shell import guarded, make_console


def work(folder: Path, job: int) -> int:
    """Finish the first job at once, and none of the others; leave a note named after the worker."""
    if job == 0:
        return job
    (folder / f"{os.getpid()}.note").touch()
    while True:
        time.sleep(0.01)


def main(folder: Path) -> int:
    """Keep the result of every job that is done."""

    def run() -> int:
        for number, result in as_finished(partial(work, folder), range(10), workers=2):
            (folder / f"{number}.result").write_text(str(result))
        return 0

    return guarded(run, make_console(), (), "Results are kept.")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
