"""Zip archives from outside: how much they unpack to is checked first, then every checksum.

`.npz` files and torch's `.pt` files are such archives. Members are handed out as bytes that have
passed their checksum, so whoever parses them does not read the archive a second time, and
differently.
"""

import io
import math
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError, reason

_END = struct.Struct("<4s4H2LH")
"""The last record of an archive without a comment; zipfile does not use the count in it."""
_COUNTED_ELSEWHERE = 0xFFFF
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy and torch write; the readers of the others unpack without a limit."""


class ArchiveError(EngineError):
    """An archive that is damaged or too large, as one sentence; the caller names the file."""


def read_archive(path: Path, most_bytes: int | None = None) -> dict[str, bytes]:
    """Return every member of an archive by name, or refuse it before anything is unpacked.

    `most_bytes` bounds the file, and all it unpacks to. None is the size of the file itself, which
    is enough for what was written without compression, as by `np.savez` and `torch.save`.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # to open a pipe is to wait for its writer
        raise ArchiveError("it is no regular file.")
    most_bytes = found.st_size if most_bytes is None else most_bytes
    if found.st_size > most_bytes:
        raise ArchiveError(f"it has {found.st_size:,} bytes, expected at most {most_bytes:,}.")
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = _checked_members(archive, most_bytes)
            _check_count(file, len(members))
            return {info.filename: _checked_content(archive, info) for info in members}
    except (ArchiveError, PermissionError):
        raise
    except Exception as error:  # damaged bytes fail in as many ways as zipfile has lines
        raise ArchiveError(f"it is no whole archive: {reason(error)}.") from None


def read_arrays(path: Path, most_bytes: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an `.npz` by name; objects, which would need pickle, are refused."""
    members = read_archive(path, most_bytes)
    arrays = {}
    for name in list(members):
        # The bytes are let go one by one: at most one array is held twice.
        arrays[name.removesuffix(".npy")] = _array(name, members.pop(name))
    return arrays


def _checked_members(archive: zipfile.ZipFile, most_bytes: int) -> list[zipfile.ZipInfo]:
    """Return the table of contents, of which every declared size has been added up."""
    members = archive.infolist()
    total = sum(info.file_size for info in members)
    if total > most_bytes:
        raise ArchiveError(
            f"it unpacks to {total:,} bytes, expected at most {most_bytes:,} or an archive "
            "without compression."
        )
    names = set()
    for info in members:
        if info.filename in names:
            raise ArchiveError(f"it holds {info.filename!r} twice.")
        if info.compress_type not in _METHODS:
            raise ArchiveError(f"{info.filename!r} is packed by method {info.compress_type}.")
        names.add(info.filename)
    return members


def _check_count(file: BinaryIO, found: int) -> None:
    """Compare the number of members with the one declared: a damaged entry can hide the next."""
    file.seek(-_END.size, io.SEEK_END)
    signature, _, _, _, count, *_ = _END.unpack(file.read(_END.size))
    if signature != b"PK\x05\x06":
        raise ArchiveError("it does not end with its table of contents.")
    if count not in (found, _COUNTED_ELSEWHERE):
        raise ArchiveError(f"it has {found:,} members, expected {count:,}.")


def _checked_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Unpack one member: zipfile stops at the declared size, and compares the checksum there."""
    with archive.open(info) as file:
        content = file.read(info.file_size)
    if len(content) != info.file_size:
        raise ArchiveError(
            f"{info.filename!r} has {len(content):,} bytes, its entry says {info.file_size:,}."
        )
    return content


def _array(name: str, content: bytes) -> npt.NDArray[Any]:
    """Read an `.npy`, whose header has to announce as many bytes as follow."""
    file = io.BytesIO(content)
    npy: Any = np.lib.format  # numpy has no types for it
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        shape, _, dtype = headers[npy.read_magic(file)](file)
        announced = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise ValueError("it holds Python objects, not numbers or text (`.astype(str)`)")
        if announced != len(content) - file.tell():
            raise ValueError(f"its header announces {announced:,} bytes")
        file.seek(0)
        array: npt.NDArray[Any] = npy.read_array(file, allow_pickle=False)
    except Exception as error:  # the header is text that numpy parses
        raise ArchiveError(f"{name!r} is no plain array: {reason(error)}.") from None
    return array
