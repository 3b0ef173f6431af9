"""CIFAR-10 in its original binary version: one archive, or the six batches that are in it.

A batch is 10,000 times a label and the red, green and blue planes of an image of 32x32 pixels.
"""

import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.tasks.images import official_split
from experiments.tasks.published import (
    KnownFile,
    PublishedFiles,
    cache_folder,
    check_file,
    fault_of,
    locate,
    own_folder,
)
from experiments.tasks.task import Part, Split, Task, TaskError

SIDE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIDE * SIDE
"""Bytes of a label and its image."""
BATCH_BYTES = 10_000 * RECORD
INNER = "cifar-10-batches-bin"
"""Folder of the batches, in the archive and where it was unpacked."""
MOST_MEMBERS = 20
"""More than the archive has: six batches, and a few words about them."""

ARCHIVE = "cifar-10-binary.tar.gz"
CIFAR10_ARCHIVE = PublishedFiles(
    name="cifar10",
    url="https://www.cs.toronto.edu/~kriz/",
    files={ARCHIVE: KnownFile(170_052_171, "c32a1d4ab5d03f1284b67883e8d87530", "md5")},
)
BATCHES = {
    name: KnownFile(BATCH_BYTES, checksum)
    for name, checksum in {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }.items()
}
OBJECTS = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def load_cifar10(seed: int) -> Split:
    """Return the official training and test images; the seed chooses those held out."""
    found = _batches()
    train = [decode(content) for name, content in found.items() if name.startswith("data")]
    x, y = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
    return official_split((x, y), decode(found["test_batch.bin"]), seed)


def decode(batch: bytes) -> Part:
    """Return images `(samples, height width channels)`, the channel first to change, and labels."""
    records = np.frombuffer(batch, np.uint8).reshape(-1, RECORD)
    planes = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    x: npt.NDArray[np.uint8] = planes.transpose(0, 2, 3, 1).reshape(len(records), -1)
    return x, records[:, 0].astype(np.int64)


def _batches() -> dict[str, bytes]:
    """Return the checked bytes of every batch, in their order."""
    for folder in filter(None, (own_folder(CIFAR10_ARCHIVE.name), _cache())):
        for place in (folder, folder / INNER):
            if all((place / name).exists() for name in BATCHES):
                return {name: _read_batch(place / name) for name in BATCHES}
    return read_batches(locate(CIFAR10_ARCHIVE, ARCHIVE), BATCHES)


def _cache() -> Path | None:
    try:
        return cache_folder(CIFAR10_ARCHIVE.name)
    except OSError:
        return None  # a home that cannot be: `locate` says it better


def _read_batch(path: Path) -> bytes:
    check_file(path, BATCHES[path.name])
    return path.read_bytes()


def read_batches(path: Path, batches: Mapping[str, KnownFile]) -> dict[str, bytes]:
    """Read the batches from an archive; no path in it is used, and no more read than is known."""
    found: dict[str, bytes] = {}
    most = max(known.size for known in batches.values())
    try:
        with tarfile.open(path, "r|gz") as archive:
            for count, member in enumerate(archive):
                if count == MOST_MEMBERS or member.size > most:
                    raise TaskError(f"{path} holds more than the batches of CIFAR-10.")
                name = member.name.rpartition("/")[2]
                file = archive.extractfile(member) if member.isreg() and name in batches else None
                if file is not None:
                    found[name] = file.read(most)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise TaskError(f"{path} is no readable archive: {error}.") from None
    for name, known in batches.items():
        fault = fault_of(found[name], known) if name in found else "it is not there"
        if fault:
            raise TaskError(f"{path} has a wrong {name} ({fault}): replace the archive.")
    return {name: found[name] for name in batches}


CIFAR10 = Task(
    "cifar10",
    "CIFAR-10",
    inputs=SIDE * SIDE * CHANNELS,
    classes=10,
    load=load_cifar10,
    image=(SIDE, SIDE, CHANNELS),
    names=OBJECTS,
)
