"""Whatever is in a NIR file, reading it ends: with what was written, or with one sentence."""

import os
import pickle
import sys
from pathlib import Path

import h5py
import nir
import numpy as np
import pytest
from joblib import Parallel, delayed

from adapters import nir_file
from adapters.nir_export import read_nir, to_nir, write_nir
from engine.errors import CheckpointError
from engine.model.builders import looped_mlp
from engine.model.params import Params, initial_params


def draw() -> Params:
    return initial_params(looped_mlp(2, 3, 2), np.random.default_rng(3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with its checksum."""
    write_nir(tmp_path / "net.nir", draw())
    return tmp_path / "net.nir"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """The same graph as another tool writes it."""
    nir.write(tmp_path / "foreign.nir", to_nir(draw()))
    return tmp_path / "foreign.nir"


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_nir(path)
    message = str(caught.value)
    assert message.startswith(f"{path} is not a NIR file: ")
    assert message.endswith(".")
    assert "\n" not in message
    return message


def no_child(*_: object, **__: object) -> None:
    raise AssertionError("a child process was started")


def test_other_tools_read_a_file_with_its_checksum(path: Path) -> None:
    theirs, ours = nir.read(path), to_nir(draw())
    assert theirs.nodes.keys() == ours.nodes.keys()
    np.testing.assert_array_equal(theirs.nodes["W_rec"].weight, ours.nodes["W_rec"].weight)


def test_a_file_with_its_checksum_needs_no_child(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.run", no_child)
    np.testing.assert_array_equal(read_nir(path)[0].theta, draw().theta)


def test_no_flipped_bit_changes_a_network_unnoticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No library sees the damage, so none can hang or crash on it."""
    monkeypatch.setattr("subprocess.run", no_child)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole) - nir_file._SEAL)] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        assert "it is damaged, its checksum differs" in refusal(path)


def test_a_damaged_checksum_is_refused_or_changes_nothing(path: Path) -> None:
    whole = path.read_bytes()
    start = len(whole) - nir_file._SEAL
    for place in (start, start + 20, len(whole) - 1):
        path.write_bytes(whole[:place] + b"?" + whole[place + 1 :])
        if place == start:  # no checksum at all: as from another tool
            np.testing.assert_array_equal(read_nir(path)[0].theta, draw().theta)
        else:
            assert "its checksum differs" in refusal(path)


def test_a_foreign_file_of_the_same_graph_is_the_same_network(foreign: Path) -> None:
    found, _ = read_nir(foreign)
    np.testing.assert_array_equal(found.theta, draw().theta)
    assert found.theta.dtype == draw().theta.dtype
    assert found.network == draw().network


def test_a_file_that_another_tool_edited_is_read(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["node/nodes/W_in/weight"][...] = 0.25
    assert (read_nir(path)[0]["W_in"] == 0.25).all()


def hanging(content: bytes) -> bytes:
    """Give the heap of texts another size: the HDF5 library, up to 2.0.0, searches it for ever."""
    place = content.index(b"GCOL") + 9
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def crashing(content: bytes) -> bytes:
    """Give texts of variable length another type: the HDF5 library reads where nothing is."""
    text = b"\x19\x01\x01\x00\x10\x00\x00\x00"
    return content.replace(text, b"\x19\x03" + text[2:])


def test_a_file_on_which_the_library_hangs_is_refused_in_time(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nir_file, "PATIENCE_S", 3.0)
    foreign.write_bytes(hanging(foreign.read_bytes()))
    assert "did not end within 3 s" in refusal(foreign)


def test_a_file_on_which_the_library_crashes_is_refused(foreign: Path) -> None:
    foreign.write_bytes(crashing(foreign.read_bytes()))
    refusal(foreign)


def test_the_guard_works_in_a_worker_process(foreign: Path) -> None:
    whole = foreign.read_bytes()
    foreign.write_bytes(whole[: len(whole) // 2])
    ((message, theta),) = Parallel(2, "loky")([delayed(_both_ways)(foreign, whole)])
    assert "is not a NIR file" in message
    np.testing.assert_array_equal(theta, draw().theta)


def _both_ways(path: Path, whole: bytes) -> tuple[str, object]:
    try:
        read_nir(path)
        message = "it was read"
    except CheckpointError as error:
        message = str(error)
    path.write_bytes(whole)
    return message, read_nir(path)[0].theta


def test_arrays_that_unpack_to_far_more_than_the_file_are_refused(foreign: Path) -> None:
    with h5py.File(foreign, "r+") as file:
        del file["node/nodes/W_in/weight"]
        file.create_dataset("node/nodes/W_in/weight", (1 << 20, 1 << 20), "f8", compression="gzip")
    assert "it unpacks to 8,796,093,0" in refusal(foreign)


def test_no_file_of_the_current_folder_is_taken_for_a_library(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign.parent)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (foreign.parent / "h5py.py").write_text("raise SystemExit('taken')")
    np.testing.assert_array_equal(read_nir(foreign)[0].theta, draw().theta)


@pytest.mark.parametrize(
    "content",
    [b"", b"import os; os.abort()", b"\x89HDF\r\n\x1a\n", pickle.dumps(os.getcwd)],
    ids=["empty", "text", "signature", "pickle"],
)
def test_what_is_no_hdf5_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.nir").write_bytes(content)
    refusal(tmp_path / "net.nir")


def test_a_missing_a_cut_and_a_foreign_graph_are_refused(path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no file"):
        read_nir(path.with_name("none.nir"))
    path.write_bytes(path.read_bytes()[:600])
    refusal(path)
    nir.write(path, nir.NIRGraph.from_list(nir.Linear(np.ones((2, 2)))))
    with pytest.raises(CheckpointError, match="no NIR graph of a Settle network"):
        read_nir(path)
