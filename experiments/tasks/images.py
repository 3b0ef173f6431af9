"""Image tasks: scikit-learn's digits, MNIST and Fashion-MNIST.

The two MNISTs are read from `$SETTLE_DATA/<name>/`, else from the cache in scikit-learn's data
folder, else downloaded to it. Every file must match its official checksum.
"""

import gzip
import hashlib
import math
import os
import struct
import zlib
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt
from sklearn.datasets import get_data_home, load_digits
from sklearn.model_selection import train_test_split

from experiments.records import write_bytes
from experiments.tasks.task import (
    Part,
    Split,
    Task,
    TaskError,
    normalised_split,
    stratified_parts,
)

VALIDATION_IMAGES = 5_000
"""How many of the official training images are held out for tuning."""

LARGEST_IDX = 60_000 * 28 * 28
"""Bytes in the largest of the files, unpacked."""

TIMEOUT_S = 60.0
"""How long a download may stand still."""


@dataclass(frozen=True)
class KnownFile:
    """What a published file is recognised by, before anything in it is read."""

    size: int
    sha256: str


@dataclass(frozen=True)
class ImageArchive:
    """Four gzipped idx files, and where they come from."""

    name: str
    url: str
    files: dict[str, KnownFile]


MNIST_FILES = ImageArchive(
    name="mnist",
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    files={
        "train-images-idx3-ubyte.gz": KnownFile(
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        "train-labels-idx1-ubyte.gz": KnownFile(
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        "t10k-images-idx3-ubyte.gz": KnownFile(
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        "t10k-labels-idx1-ubyte.gz": KnownFile(
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    },
)

FASHION_MNIST_FILES = ImageArchive(
    name="fashion_mnist",
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    files={
        "train-images-idx3-ubyte.gz": KnownFile(
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        "train-labels-idx1-ubyte.gz": KnownFile(
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        "t10k-images-idx3-ubyte.gz": KnownFile(
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        "t10k-labels-idx1-ubyte.gz": KnownFile(
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    },
)


def load_digits_split(seed: int) -> Split:
    """Cut scikit-learn's 1,797 digits into stratified parts; the seed moves the test part too."""
    x, y = load_digits(return_X_y=True)
    return normalised_split(
        *stratified_parts(x, y, seed),
        per_feature=False,
        description="1,797 digits of 8x8 pixels, stratified 60/20/20",
    )


def load_archive_split(archive: ImageArchive, seed: int) -> Split:
    """Return the official training and test images; the seed chooses those held out."""
    x, y = _read_part(archive, "train")
    x_train, x_valid, y_train, y_valid = train_test_split(
        x, y, test_size=VALIDATION_IMAGES, stratify=y, random_state=seed
    )
    return normalised_split(
        (x_train, y_train),
        (x_valid, y_valid),
        _read_part(archive, "t10k"),
        per_feature=False,
        description=f"official parts, {VALIDATION_IMAGES:,} training images held out",
    )


def _read_part(archive: ImageArchive, prefix: str) -> Part:
    images = read_idx(locate(archive, f"{prefix}-images-idx3-ubyte.gz"))
    labels = read_idx(locate(archive, f"{prefix}-labels-idx1-ubyte.gz"))
    return images.reshape(len(images), -1), labels.astype(np.int64)


def locate(archive: ImageArchive, filename: str) -> Path:
    """Return the path of a file whose checksum is right, downloading it if need be."""
    known = archive.files[filename]
    data = os.environ.get("SETTLE_DATA")
    if data and (local := Path(data, archive.name, filename)).exists():
        try:
            fault = _fault(local, known)
        except OSError as error:
            raise TaskError(f"{local} cannot be read: {error.strerror}.") from None
        if fault:
            raise TaskError(f"{local} is corrupt ({fault}): replace it.")
        return local
    try:
        cached = Path(get_data_home(), "settle", archive.name, filename)
        if not cached.exists() or _fault(cached, known):
            _download(archive.url + filename, cached, known)
        return cached
    except (OSError, HTTPException) as error:
        raise TaskError(
            f"{archive.name}/{filename} is missing and its download failed ({error}): set "
            f"SETTLE_DATA to a folder that holds it, or connect to the network and run again."
        ) from None


def _fault(path: Path, known: KnownFile) -> str:
    """Say in what a file differs from the published one; nothing if it does not."""
    found = path.stat().st_size
    if found != known.size:
        return f"{found:,} bytes, expected {known.size:,}"
    with path.open("rb") as file:
        return _wrong_checksum(hashlib.file_digest(file, "sha256").hexdigest(), known)


def _wrong_checksum(found: str, known: KnownFile) -> str:
    if found == known.sha256:
        return ""
    return f"sha256 {found[:12]}..., expected {known.sha256[:12]}..."


def _download(url: str, path: Path, known: KnownFile) -> None:
    """Fetch a file, no more of it than it is known to have, and keep it if it is the right one."""
    with urlopen(url, timeout=TIMEOUT_S) as answer:
        content = answer.read(known.size + 1)
    if len(content) > known.size:
        raise OSError(f"it has more than {known.size:,} bytes")
    fault = _wrong_checksum(hashlib.sha256(content).hexdigest(), known)
    if fault:
        raise OSError(fault)
    write_bytes(path, content)


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read a gzipped idx file of bytes, no more of it than its own header announces.

    Two zeros, a type code and the number of axes `n`; then `n` big-endian lengths; then the bytes.
    """
    try:
        with gzip.open(path) as file:
            axes = file.read(4)[3]
            shape = struct.unpack(f">{axes}I", file.read(4 * axes))
            size = math.prod(shape)
            if size > LARGEST_IDX:
                raise TaskError(f"{path} announces {size:,} bytes, at most {LARGEST_IDX:,} fit.")
            content = file.read(size + 1)
    except (OSError, EOFError, IndexError, struct.error, zlib.error) as error:
        raise TaskError(f"{path} is no idx file of bytes: {error}.") from None
    if len(content) != size:
        found = f"{len(content):,}" if len(content) < size else f"more than {size:,}"
        raise TaskError(f"{path} has {found} bytes, expected {size:,}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


DIGITS = Task("digits", "Digits 8x8", inputs=64, classes=10, load=load_digits_split)
MNIST = Task(
    "mnist", "MNIST", inputs=784, classes=10, load=partial(load_archive_split, MNIST_FILES)
)
FASHION_MNIST = Task(
    "fashion_mnist",
    "Fashion-MNIST",
    inputs=784,
    classes=10,
    load=partial(load_archive_split, FASHION_MNIST_FILES),
)
