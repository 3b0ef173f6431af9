import hashlib
import io
import tarfile

import numpy as np
import pytest

from experiments.tasks import IMAGE_TASKS, MissingDataError, TaskError, cifar10, images
from experiments.tasks.published import KnownFile, PublishedFiles

IMAGES = 30


@pytest.fixture
def batches(monkeypatch):
    """Six small batches of random images, known by their own checksums."""
    rng = np.random.default_rng(0)
    made = {}
    for name in cifar10.BATCHES:
        records = rng.integers(256, size=(IMAGES, cifar10.RECORD), dtype=np.uint8)
        records[:, 0] = np.arange(IMAGES) % 10
        made[name] = records.tobytes()
    known = {name: KnownFile(len(b), hashlib.sha256(b).hexdigest()) for name, b in made.items()}
    monkeypatch.setattr(cifar10, "BATCHES", known)
    monkeypatch.setattr(images, "VALIDATION_IMAGES", 50)
    return made


def pack(members):
    """Return a `.tar.gz` of `(name, content)`; a name may occur twice."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Put an archive where it is downloaded from, and let it be known."""

    def place(members):
        content = pack(members)
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        (site / cifar10.ARCHIVE).write_bytes(content)
        known = KnownFile(len(content), hashlib.md5(content).hexdigest(), "md5")
        files = PublishedFiles("cifar10", f"file://localhost{site}/", {cifar10.ARCHIVE: known})
        monkeypatch.setattr(cifar10, "CIFAR10_ARCHIVE", files)
        return site / cifar10.ARCHIVE

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("SETTLE_DATA", raising=False)
    return place


def inner(batches):
    return [(f"{cifar10.INNER}/{name}", content) for name, content in batches.items()]


def check(split, batches):
    assert [len(split.x_train), len(split.x_valid), len(split.x_test)] == [100, 50, 30]
    assert {x.shape[1] for x in (split.x_train, split.x_test)} == {3072}
    np.testing.assert_array_equal(split.y_test, np.arange(IMAGES) % 10)
    raw = (split.x_test * split.scale + split.mean).reshape(IMAGES, 32, 32, 3)
    planes = np.frombuffer(batches["test_batch.bin"], np.uint8).reshape(IMAGES, -1)[:, 1:]
    green = planes[:, 1024:2048].reshape(IMAGES, 32, 32)
    np.testing.assert_allclose(raw[..., 1], green, atol=1e-3)


def test_the_archive_is_downloaded_once_and_read_without_unpacking(batches, publish, tmp_path):
    path = publish([("cifar-10-batches-bin/readme.html", b"words"), *inner(batches)])
    check(cifar10.load_cifar10(0), batches)
    path.unlink()
    check(cifar10.load_cifar10(0), batches)
    kept = [p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert kept == [cifar10.ARCHIVE]


@pytest.mark.parametrize("folder", ["cifar10", f"cifar10/{cifar10.INNER}"])
def test_extracted_batches_are_read_where_they_lie(folder, batches, tmp_path, monkeypatch):
    place = tmp_path / folder
    place.mkdir(parents=True)
    for name, content in batches.items():
        (place / name).write_bytes(content)
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path))
    check(cifar10.load_cifar10(0), batches)
    torn = place / "data_batch_3.bin"
    torn.write_bytes(torn.read_bytes()[:-1] + b"?")
    with pytest.raises(TaskError, match=r"data_batch_3.bin is corrupt \(sha256"):
        cifar10.load_cifar10(0)


def test_the_archive_of_a_user_is_read(batches, publish, tmp_path, monkeypatch):
    (tmp_path / "cifar10").mkdir()
    publish(inner(batches)).rename(tmp_path / "cifar10" / cifar10.ARCHIVE)
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path))
    check(cifar10.load_cifar10(0), batches)
    (tmp_path / "cifar10" / cifar10.ARCHIVE).write_bytes(b"short")
    with pytest.raises(TaskError, match=r"corrupt \(5 bytes, expected"):
        cifar10.load_cifar10(0)


def test_missing_data_says_what_to_do(batches, publish):
    publish(inner(batches)).unlink()
    with pytest.raises(MissingDataError, match=r"cifar10/cifar-10-binary.tar.gz is missing.*set S"):
        cifar10.load_cifar10(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members[:-1], r"wrong test_batch.bin \(it is not there\)"),
        (lambda m: [*m[:-1], (m[-1][0], b"?" * len(m[-1][1]))], r"wrong test_batch.bin \(sha256"),
        (lambda members: [("bomb", bytes(1 << 20)), *members], "more than the batches"),
        (lambda members: [*members, *[("x", b"")] * 40], "more than the batches"),
        (lambda m: [*m, (m[0][0], b"later")], r"wrong data_batch_1.bin \(5 bytes"),
    ],
)  # fmt: skip
def test_an_archive_with_other_contents_is_refused(change, message, batches, publish):
    """Its checksum may be right: md5 is not what one would choose."""
    publish(change(inner(batches)))
    with pytest.raises(TaskError, match=message):
        cifar10.load_cifar10(0)


def test_a_path_in_the_archive_is_not_followed(batches, publish, tmp_path):
    publish([(f"../../{tmp_path}/{name}", content) for name, content in batches.items()])
    check(cifar10.load_cifar10(0), batches)
    assert not list(tmp_path.rglob("*.bin"))


def test_what_is_no_archive_is_one_sentence(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"no gzip")
    with pytest.raises(TaskError, match="is no readable archive"):
        cifar10.read_batches(tmp_path / "a.tar.gz", cifar10.BATCHES)


def test_every_image_task_knows_its_image():
    for task in IMAGE_TASKS.values():
        assert np.prod(task.image) == task.inputs
        assert len(task.names) in (0, task.classes)
