"""The files of a command: found writable before the work, and free of what a kill left behind."""

import os
import re
from contextlib import suppress
from pathlib import Path

from experiments.records import partial_path

LEFT_OVER = re.compile(
    r".+\.(?:cir|csv|hex|html|json|md|npz|png|pt|py|svg|toml|v)\.([1-9]\d*)\.part"
)
"""What `partial_path` names a file, for the kinds of files that commands write."""


class OutputError(ValueError):
    """A file that cannot be written, as one sentence."""


def prepare_output(folder: Path, *names: str) -> None:
    """Refuse a folder in which the files `names` cannot be written; leave it as it is.

    Only an attempt tells: each is begun as it will be written, and removed with every folder that
    was made for it. Torn files of processes that are gone are removed for good.
    """
    for path in [folder / name for name in names]:
        try:
            _attempt(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise OutputError(f"{path} cannot be written: {reason or error}.") from None
    for place in {(folder / name).parent for name in names}:
        _remove_left_over(place)


def _attempt(path: Path) -> None:
    if path.is_dir():
        raise ValueError("it is a folder")
    missing = [parent for parent in path.parents if not parent.exists()]
    above = path.parents[len(missing)]
    if not above.is_dir():
        raise ValueError(f"{above} is no folder")
    partial = partial_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(b"\n")
    finally:
        with suppress(OSError):  # the attempt has the better reason
            partial.unlink()
        for made in missing:
            if made.is_dir() and not any(made.iterdir()):
                made.rmdir()


def _remove_left_over(folder: Path) -> None:
    """Remove the torn files in a folder whose writers are gone."""
    if os.name != "posix" or not folder.is_dir():  # elsewhere a process cannot be asked for
        return
    for path in folder.iterdir():
        found = LEFT_OVER.fullmatch(path.name)
        if found and path.is_file() and not _runs(int(found[1])):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is someone else's, or no process at all
        return True
    try:  # a dead process has its number until its parent takes note
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return True
    return not state.lstrip().startswith(("Z", "X"))
