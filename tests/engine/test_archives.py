"""An archive is refused in one sentence before it unpacks to more than it may, or unlike it was."""

import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from itertools import product
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from engine.archives import ArchiveError, read_archive, read_arrays

MEMBERS = {"folder/a": b"some bytes", "b": bytes(range(256)) * 40, "empty": b""}
ARRAYS = {
    "x": np.random.default_rng(0).normal(size=(6, 3)),
    "label": np.array(["cat", "eel"]),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "scalar": np.array(7),
    "nothing": np.zeros((0, 4), np.float32),
}


def _zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _refusal(path: Path, most_bytes: int | None = None) -> str:
    with pytest.raises(ArchiveError) as caught:
        read_archive(path, most_bytes)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_come_back_as_they_were(tmp_path: Path, method: int) -> None:
    path = _zip(tmp_path / "file", MEMBERS, method)
    assert read_archive(path, 1 << 20) == MEMBERS


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were(tmp_path: Path, save) -> None:
    path = tmp_path / "file.npz"
    save(path, **ARRAYS)
    found = read_arrays(path, 1 << 20)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, strict=True)
        assert found[name].flags.writeable


def test_what_was_stored_never_unpacks_to_more_than_its_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", **ARRAYS)
    assert read_arrays(tmp_path / "file.npz").keys() == ARRAYS.keys()
    path = _zip(tmp_path / "packed", MEMBERS, zipfile.ZIP_DEFLATED)
    size = sum(map(len, MEMBERS.values()))
    assert f"unpacks to {size:,} bytes, expected at most {path.stat().st_size:,}" in _refusal(path)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    path = _zip(tmp_path / "file", {"bomb": bytes(1 << 26)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        assert "unpacks to 67,108,864 bytes, expected at most 1,048,576" in _refusal(path, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_many_small_members_count_together(tmp_path: Path) -> None:
    path = _zip(tmp_path / "file", {str(k): bytes(1000) for k in range(60)}, zipfile.ZIP_DEFLATED)
    assert len(read_archive(path, 60_000)) == 60
    assert "unpacks to 60,000 bytes, expected at most 59,999" in _refusal(path, 59_999)


@pytest.mark.parametrize("declared", [10, 1 << 25])
def test_a_member_that_lies_about_its_size_is_refused_and_never_unpacked_beyond_it(
    tmp_path: Path, declared: int
) -> None:
    path = _zip(tmp_path / "file", {"a": bytes(1 << 24)}, zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    struct.pack_into("<L", raw, raw.index(b"PK\x01\x02") + 24, declared)
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        _refusal(path, 1 << 26)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * max(declared, 1 << 20)
    finally:
        tracemalloc.stop()


def test_a_member_that_lies_about_size_and_checksum_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "file", {"a": bytes(1000)}, zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"PK\x01\x02")
    struct.pack_into("<L", raw, entry + 16, zlib.crc32(bytes(1000)))
    struct.pack_into("<L", raw, entry + 24, 2000)
    path.write_bytes(raw)
    assert "'a' has 1,000 bytes, its entry says 2,000" in _refusal(path, 1 << 20)


def test_the_file_itself_is_bounded(tmp_path: Path) -> None:
    path = _zip(tmp_path / "file", MEMBERS)
    size = path.stat().st_size
    assert f"it has {size:,} bytes, expected at most {size - 1:,}" in _refusal(path, size - 1)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_without_a_limit_are_refused(tmp_path: Path, method: int) -> None:
    assert f"packed by method {method}" in _refusal(_zip(tmp_path / "file", MEMBERS, method), 99999)


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "file", {"a": b"1", "b": b"2"})
    path.write_bytes(path.read_bytes().replace(b"b2", b"a2").replace(b"bPK", b"aPK"))
    assert "holds 'a' twice" in _refusal(path)


@pytest.mark.parametrize("raw", [b"", b"PK", b"PK\x05\x06" + bytes(17), b"words" * 99])
def test_what_is_no_archive_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    assert "no whole archive" in _refusal(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in _refusal(tmp_path / "pipe")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_no_flipped_bit_changes_a_member_unnoticed(tmp_path: Path, method: int) -> None:
    path = _zip(tmp_path / "file", {"a": b"some bytes", "b": b"others", "none": b""}, method)
    whole, expected = path.read_bytes(), read_archive(path, 1000)
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
    start = 30 + len(first.filename)  # of the content of the first member, behind its header
    # A packed stream has bits that change nothing, such as the mark of its last block.
    content = range(start, start + first.file_size if method == zipfile.ZIP_STORED else start)
    with path.open("r+b", buffering=0) as file:
        for place, bit in product(range(len(whole)), range(8)):
            _put(file, place, whole[place] ^ 1 << bit)
            try:
                assert read_archive(path, 1000) == expected, (place, bit)
                assert place not in content
            except ArchiveError:
                pass
            _put(file, place, whole[place])


def _put(file: BinaryIO, place: int, value: int) -> None:
    file.seek(place)
    file.write(bytes([value]))


def _npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header.encode() + content


@pytest.mark.parametrize(
    "content",
    [
        b"no array",
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}", bytes(8)),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8)),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(9)),
        _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        _npy("(" * 9000),
        _npy("__import__('os').abort()"),
        _npy("{}", version=b"\x09\x00"),
    ],
)
def test_a_header_that_does_not_fit_its_bytes_is_refused(tmp_path: Path, content: bytes) -> None:
    path = _zip(tmp_path / "file", {"x.npy": content})
    with pytest.raises(ArchiveError, match=r"^'x\.npy' is no plain array: [^\n]+\.$"):
        read_arrays(path)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.array([None], dtype=object), allow_pickle=True)
    path = _zip(tmp_path / "file", {"x.npy": file.getvalue()})
    with pytest.raises(ArchiveError, match="holds Python objects"):
        read_arrays(path)
