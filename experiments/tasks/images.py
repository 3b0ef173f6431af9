"""Image tasks: scikit-learn's digits, MNIST and Fashion-MNIST."""

import gzip
import math
import struct
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.tasks.published import KnownFile, PublishedFiles, locate
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

MNIST_FILES = PublishedFiles(
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

FASHION_MNIST_FILES = PublishedFiles(
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
    from sklearn.datasets import load_digits  # late, as in `stratified_parts`

    x, y = load_digits(return_X_y=True)
    return normalised_split(
        *stratified_parts(x, y, seed),
        per_feature=False,
        description="1,797 digits of 8x8 pixels, stratified 60/20/20",
    )


def load_archive_split(archive: PublishedFiles, seed: int, subset: int | None = None) -> Split:
    """Return the official training and test images; the seed chooses those held out.

    With `subset` it also chooses so many training images, a fifth of which are held out.
    """
    return official_split(_read_part(archive, "train"), _read_part(archive, "t10k"), seed, subset)


def official_split(train: Part, test: Part, seed: int, subset: int | None = None) -> Split:
    """Hold images of the official training part out for tuning, class by class."""
    from sklearn.model_selection import train_test_split  # late, as in `stratified_parts`

    x, y = train
    chosen = "official parts"
    if subset is not None:
        x, _, y, _ = train_test_split(x, y, train_size=subset, stratify=y, random_state=seed)
        chosen = f"{subset:,} official training images and the whole test part"
    held_out = VALIDATION_IMAGES if subset is None else subset // 5
    x_train, x_valid, y_train, y_valid = train_test_split(
        x, y, test_size=held_out, stratify=y, random_state=seed
    )
    return normalised_split(
        (x_train, y_train),
        (x_valid, y_valid),
        test,
        per_feature=False,
        description=f"{chosen}, {held_out:,} training images held out",
    )


def _read_part(archive: PublishedFiles, prefix: str) -> Part:
    images = read_idx(locate(archive, f"{prefix}-images-idx3-ubyte.gz"))
    labels = read_idx(locate(archive, f"{prefix}-labels-idx1-ubyte.gz"))
    return images.reshape(len(images), -1), labels.astype(np.int64)


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


CLOTHES = (
    *("T-shirt", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SUBSET = 10_000
"""Training images of a task that is done in minutes."""

DIGITS = Task(
    "digits", "Digits 8x8", inputs=64, classes=10, load=load_digits_split, image=(8, 8, 1)
)
MNIST = Task(
    "mnist",
    "MNIST",
    inputs=784,
    classes=10,
    load=partial(load_archive_split, MNIST_FILES),
    image=(28, 28, 1),
)
FASHION_MNIST = Task(
    "fashion_mnist",
    "Fashion-MNIST",
    inputs=784,
    classes=10,
    load=partial(load_archive_split, FASHION_MNIST_FILES),
    image=(28, 28, 1),
    names=CLOTHES,
)
FASHION_MNIST_10K = replace(
    FASHION_MNIST,
    name="fashion_mnist_10k",
    title="Fashion-MNIST 10k",
    load=partial(load_archive_split, FASHION_MNIST_FILES, subset=SUBSET),
)
