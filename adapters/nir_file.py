"""NIR graphs as bytes: sealed with their checksum, and read in a way that always ends.

A file ends with the checksum of what stands before it; readers of HDF5 ignore what follows their
own end. What fits its checksum is read here. What has none, because another tool wrote it, is
read by a child process within a time limit, and only the copy that it makes is read here.
"""

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.errors import CheckpointError, reason

try:
    import nir as nir
except ModuleNotFoundError as error:
    raise ImportError('the NIR adapter needs nir: pip install "settle[nir]".') from error

PATIENCE_S = 30.0
"""How long another tool's file may take to read, on top of a second for every `BYTES_A_SECOND`."""
BYTES_A_SECOND = 5e6
_MARK = b"\nsettle sha256 "
_SEAL = len(_MARK) + 2 * hashlib.sha256().digest_size + 1
_CHILD = Path(__file__).with_name("nir_copy.py")


def graph_bytes(graph: Any) -> bytes:
    """Return a graph as a whole file, with its checksum."""
    file = io.BytesIO()
    nir.write(file, graph)
    content = file.getvalue()
    return content + _seal(content)


def read_graph(path: Path) -> Any:
    """Read a graph, or refuse the file in one sentence."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}.")
    content = path.read_bytes()
    sealed = content[-_SEAL:].startswith(_MARK)
    if sealed and content[-_SEAL:] != _seal(content[:-_SEAL]):
        raise CheckpointError(f"{path} is not a NIR file: it is damaged, its checksum differs.")
    try:
        return nir.read(io.BytesIO(content if sealed else _copied(content)))
    except Exception as error:  # HDF5 and NIR refuse a file in many ways
        raise CheckpointError(f"{path} is not a NIR file: {reason(error)}.") from None


def _seal(content: bytes) -> bytes:
    return _MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def _copied(content: bytes) -> bytes:
    """Let a child process read a file and write it anew; say why if it does not succeed."""
    patience = PATIENCE_S + len(content) / BYTES_A_SECOND
    # -P: no file of the current folder is taken for a library.
    command = [sys.executable, "-P", str(_CHILD)]
    places = os.pathsep.join(filter(None, sys.path))
    try:
        child = subprocess.run(
            command,
            input=content,
            capture_output=True,
            timeout=patience,
            env=os.environ | {"PYTHONPATH": places},
        )
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"the HDF5 library did not end within {patience:.0f} s") from None
    if child.returncode == 1:
        raise CheckpointError(child.stderr.decode(errors="replace").strip())
    if child.returncode != 0:
        raise CheckpointError("the HDF5 library crashed on it")
    return child.stdout
