import pickle
import tracemalloc

import numpy as np
import pytest

from experiments.tasks import TaskError, images_from_file, task_from_file

X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.arange(30) % 3


def parts(split, letter):
    return [getattr(split, f"{letter}_{part}") for part in ("train", "valid", "test")]


def write(path, content):
    if isinstance(content, dict):
        np.savez(path, **content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


def csv_text(names="012", header="", x=X):
    rows = [",".join([*map(str, row), names[y]]) for row, y in zip(x, Y, strict=True)]
    return header + "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npz", {"x": X, "y": Y}),
        ("a.npz", {"x": X.astype(np.float32), "y": np.array(["cat", "dog", "eel"])[Y]}),
        ("a.csv", csv_text()),
        ("a.csv", csv_text(["2", "10", "11"])),
        ("a.CSV", csv_text(["cat", "dog", "eel"], header="\ufefflength,width,height,animal\n")),
    ],
)
def test_a_file_is_a_task(tmp_path, name, content):
    task = task_from_file(write(tmp_path / name, content))
    assert (task.name, task.inputs, task.classes) == (name, 3, 3)
    split = pickle.loads(pickle.dumps(task)).load(0)
    assert [len(x) for x in parts(split, "x")] == [18, 6, 6]
    raw = np.concatenate(parts(split, "x")) * split.scale + split.mean
    order = np.argsort(raw[:, 0])
    expected = np.argsort(X[:, 0])
    np.testing.assert_allclose(raw[order], X[expected], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.concatenate(parts(split, "y"))[order], Y[expected])


HOLED = np.where(np.arange(90).reshape(30, 3) == 7, np.nan, X)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "neither .npz nor .csv"),
        ("a.npz", None, "cannot be read: No such file"),
        ("a.csv", None, "cannot be read: No such file"),
        ("a.npz", b"PK\x03\x04 and then nothing", "not a readable .npz"),
        ("a.npz", b"", "not a readable .npz"),
        ("a.npz", {"x": X}, "no array 'y'; its named arrays: x"),
        ("a.npz", {"x": X, "y": Y.astype(object)}, "not a readable .npz of plain arrays"),
        ("a.npz", {"x": X[0], "y": Y}, r"inputs of shape \(3,\)"),
        ("a.npz", {"x": X.astype(str), "y": Y}, "type <U"),
        ("a.npz", {"x": X[:0], "y": Y[:0]}, "holds no samples"),
        ("a.npz", {"x": X, "y": Y[1:]}, r"labels of shape \(29,\), expected \(30,\)"),
        ("a.npz", {"x": X, "y": Y / 2}, "labels of type float64"),
        ("a.npz", {"x": HOLED, "y": Y}, "holds nan at sample 3, input 2"),
        ("a.npz", {"x": X * 1e39, "y": Y}, r"holds 6\.4.*e\+38 at sample 1, input 3"),
        ("a.npz", {"x": X, "y": Y * 0}, "only the class 0"),
        ("a.npz", {"x": X[:14], "y": Y[:14]}, "4 samples of class 2, at least 5"),
        ("a.npz", {"x": X, "y": np.array(["cat", "", "eel"])[Y]}, "no label for sample 2"),
        ("a.csv", "", "holds no samples"),
        ("a.csv", "length,label\n", "holds no samples"),
        ("a.csv", "1\n2\n", r"inputs of shape \(1, 0\)"),
        ("a.csv", csv_text() + "1,2,0\n", "3 columns in line 31, expected 4"),
        ("a.csv", csv_text() + "1,two,3,0\n", "holds 'two' in line 31, column 2"),
        ("a.csv", csv_text(x=HOLED), "holds nan at sample 3, input 2"),
        ("a.csv", csv_text(["a", "b", "NaN"]), "no label for sample 3"),
        ("a.csv", csv_text(["a", "a", "a"]), "only the class a"),
        ("a.csv", b"\xff\xfe\x00\x01", "not readable CSV"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_name(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(TaskError, match=message) as caught:
        task_from_file(path)
    assert str(path) in str(caught.value)


def test_a_single_array_is_not_a_task(tmp_path):
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(TaskError, match=r"a\.npz is not a readable .npz .* not a zip file\.$"):
        task_from_file(path)


def packed_zeros(path, samples):
    """An archive of constant inputs, which packs them to a thousandth."""
    x, y = np.zeros((samples, 1000)), np.arange(samples) % 2
    np.savez_compressed(path, x=x, y=y)
    return x.nbytes


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused_unread(tmp_path):
    path = tmp_path / "a.npz"
    size = packed_zeros(path, 5000)
    assert size > 500 * path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(TaskError, match=r"unpacks to 40,0.* bytes, .*without compression\.$"):
            task_from_file(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_data_that_packs_well_is_taken_if_it_is_small_or_was_not_packed_that_well(tmp_path):
    path = tmp_path / "a.npz"
    packed_zeros(path, 1000)
    assert task_from_file(path).inputs == 1000
    x = np.zeros((5000, 1000))
    x[:, ::40] = np.random.default_rng(0).normal(size=(5000, 25))
    np.savez_compressed(path, x=x, y=np.arange(5000) % 2)
    assert task_from_file(path).inputs == 1000


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path):
    path = write(tmp_path / "a.npz", {"x": X, "y": Y})
    whole, expected = path.read_bytes(), task_from_file(path).load(0)
    draw, refused = np.random.default_rng(0), 0
    for start in range(0, len(whole) - 4, 4):
        damaged = bytearray(whole)
        damaged[start + draw.integers(4)] ^= 1 << draw.integers(8)
        try:
            split = task_from_file(write(path, bytes(damaged))).load(0)
        except TaskError:
            refused += 1
            continue
        for letter in "xy":
            for found, kept in zip(parts(split, letter), parts(expected, letter), strict=True):
                assert found.tobytes() == kept.tobytes(), start
    assert refused > (X.nbytes + Y.nbytes) / 4 - 1


@pytest.mark.parametrize(("shape", "image"), [((4, 5), (4, 5, 1)), ((4, 5, 3), (4, 5, 3))])
def test_images_keep_their_shape_and_are_normalised_alike(shape, image, tmp_path):
    x = np.random.default_rng(0).normal(7.0, 3.0, size=(30, *shape))
    names = np.array(["cat", "dog", "eel"])[Y]
    task = images_from_file(write(tmp_path / "a.npz", {"x": x, "y": names}))
    assert (task.image, task.inputs, task.classes) == (image, np.prod(image), 3)
    assert task.names == ("cat", "dog", "eel")
    split = pickle.loads(pickle.dumps(task)).load(0)
    assert split.mean.shape == split.scale.shape == ()
    raw = np.concatenate(parts(split, "x")) * split.scale + split.mean
    order, expected = np.argsort(raw[:, 0]), np.argsort(x.reshape(30, -1)[:, 0])
    np.testing.assert_allclose(raw[order], x.reshape(30, -1)[expected], rtol=1e-4, atol=1e-5)
