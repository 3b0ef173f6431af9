"""Copy a NIR graph from standard input to standard output: the child process of `nir_file`.

The HDF5 library can hang, crash or fill the memory on a damaged file, and holds Python's lock while
it does. It does so in here, where it can be ended from outside.
"""

import io
import sys

import h5py  # type: ignore[import-untyped]
import nir

MOST_UNPACKED = 100
"""How many times its own size a file may unpack to: only constants pack much better."""
SMALL = 1 << 24
"""Bytes to which any file may unpack."""


def copied(content: bytes) -> bytes:
    """Read a file and write its graph anew, without compression."""
    with h5py.File(io.BytesIO(content), "r") as file:
        _check_size(file, max(SMALL, MOST_UNPACKED * len(content)))
    copy = io.BytesIO()
    nir.write(copy, nir.read(io.BytesIO(content)), compression=None)
    return copy.getvalue()


def _check_size(file: h5py.File, most_bytes: int) -> None:
    """Add up what all arrays declare, before one of them is read."""
    sizes = [0]

    def add(_: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            sizes.append(item.size * item.dtype.itemsize)

    file.visititems(add)
    if sum(sizes) > most_bytes:
        raise ValueError(f"it unpacks to {sum(sizes):,} bytes, expected at most {most_bytes:,}")


if __name__ == "__main__":
    try:
        result = copied(sys.stdin.buffer.read())
    except Exception as error:  # HDF5 and NIR refuse a damaged file in many ways
        sys.exit(str(error).partition("\n")[0] or type(error).__name__)
    sys.stdout.buffer.write(result)
