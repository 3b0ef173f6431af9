"""Files that others published: found here or downloaded, and never read before they are checked.

They are looked for in `$SETTLE_DATA/<name>/`, then in scikit-learn's data folder, to which they are
downloaded otherwise. Every file must have its official size and checksum.
"""

import hashlib
import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from experiments.records import write_bytes
from experiments.tasks.task import MissingDataError, TaskError

TIMEOUT_S = 60.0
"""How long a download may stand still."""


@dataclass(frozen=True)
class KnownFile:
    """What a published file is recognised by, before anything in it is read."""

    size: int
    checksum: str
    algorithm: str = "sha256"


@dataclass(frozen=True)
class PublishedFiles:
    """The files of a data set by name, and the address in front of their names."""

    name: str
    url: str
    files: dict[str, KnownFile]


def own_folder(name: str) -> Path | None:
    """Return where the user keeps a data set; `None` without `$SETTLE_DATA`."""
    data = os.environ.get("SETTLE_DATA")
    return Path(data, name) if data else None


def cache_folder(name: str) -> Path:
    """Return where a data set is downloaded to."""
    from sklearn.datasets import get_data_home  # late, as in `stratified_parts`

    return Path(get_data_home(), "settle", name)


def locate(archive: PublishedFiles, filename: str) -> Path:
    """Return the path of a file whose checksum is right, downloading it if need be."""
    known, own = archive.files[filename], own_folder(archive.name)
    if own is not None and (local := own / filename).exists():
        check_file(local, known)
        return local
    try:
        cached = cache_folder(archive.name) / filename
        if not cached.exists() or _fault(cached, known):
            _download(archive.url + filename, cached, known)
        return cached
    except (OSError, HTTPException) as error:
        raise MissingDataError(
            f"{archive.name}/{filename} is missing and its download failed ({error}): set "
            f"SETTLE_DATA to a folder that holds it, or connect to the network and run again."
        ) from None


def check_file(path: Path, known: KnownFile) -> None:
    """Refuse a file that is not the published one."""
    try:
        fault = _fault(path, known)
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}.") from None
    if fault:
        raise TaskError(f"{path} is corrupt ({fault}): replace it.")


def _fault(path: Path, known: KnownFile) -> str:
    """Say in what a file differs from the published one; nothing if it does not."""
    found = path.stat().st_size
    if found != known.size:
        return f"{found:,} bytes, expected {known.size:,}"
    with path.open("rb") as file:
        return _wrong(hashlib.file_digest(file, known.algorithm).hexdigest(), known)


def fault_of(content: bytes, known: KnownFile) -> str:
    """Say in what bytes differ from the published ones; nothing if they do not."""
    if len(content) != known.size:
        return f"{len(content):,} bytes, expected {known.size:,}"
    return _wrong(hashlib.new(known.algorithm, content).hexdigest(), known)


def _wrong(found: str, known: KnownFile) -> str:
    if found == known.checksum:
        return ""
    return f"{known.algorithm} {found[:12]}..., expected {known.checksum[:12]}..."


def _download(url: str, path: Path, known: KnownFile) -> None:
    """Fetch a file, no more of it than it is known to have, and keep it if it is the right one."""
    with urlopen(url, timeout=TIMEOUT_S) as answer:
        content = answer.read(known.size + 1)
    if len(content) > known.size:
        raise OSError(f"it has more than {known.size:,} bytes")
    fault = fault_of(content, known)
    if fault:
        raise OSError(fault)
    write_bytes(path, content)
