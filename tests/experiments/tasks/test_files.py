import pickle
import sys
import tracemalloc
from types import SimpleNamespace

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
        ("a.txt", "", "neither .npz nor .csv nor .parquet"),
        ("a.npz", None, "cannot be read: No such file"),
        ("a.csv", None, "cannot be read: No such file"),
        ("a.npz", b"PK\x03\x04 and then nothing", "not a readable .npz"),
        ("a.npz", b"", "not a readable .npz"),
        ("a.npz", {"x": X}, "no array 'y'; its named arrays: x"),
        ("a.npz", {"x": X, "y": Y.astype(object)}, "holds Python objects, not numbers or text"),
        ("a.npz", {"x": X[0], "y": Y}, r"inputs of shape \(3,\)"),
        ("a.npz", {"x": X.astype(str), "y": Y}, "type <U"),
        ("a.npz", {"x": X[:0], "y": Y[:0]}, "holds no samples"),
        ("a.npz", {"x": X, "y": Y[1:]}, r"labels of shape \(29,\), expected \(30,\)"),
        ("a.npz", {"x": X, "y": X[:, 0]}, "labels of 30 different values, which are numbers"),
        ("a.npz", {"x": X, "y": np.arange(30)}, "30 different whole numbers as labels"),
        ("a.npz", {"x": X, "y": np.where(Y, Y / 2, np.nan)}, "no label for sample 1"),
        ("a.npz", {"x": X, "y": Y, "x_test": X}, "has x_test without y_test"),
        ("a.npz", {"x": X, "y": Y, "x_test": X[:, :2], "y_test": Y}, r"x_test of shape \(30, 2\)"),
        ("a.npz", {"x": X, "y": Y, "x_test": X, "y_test": Y + 1}, "class 3 in its test part only"),
        ("a.npz", {"x": X, "y": Y, "x_test": HOLED, "y_test": Y}, "nan at test sample 3, input 2"),
        ("a.npz", {"x": HOLED, "y": Y}, "holds nan at sample 3, input 2"),
        ("a.npz", {"x": X * 1e39, "y": Y}, r"holds 6\.4.*e\+38 at sample 1, input 3"),
        ("a.npz", {"x": X, "y": Y * 0}, "only the class 0"),
        ("a.npz", {"x": X[:14], "y": Y[:14]}, "4 samples of class 2, at least 5"),
        ("a.npz", {"x": X, "y": np.array(["cat", "", "eel"])[Y]}, "no label for sample 2"),
        ("a.csv", "", "holds no samples"),
        ("a.csv", "length,label\n", "holds no samples"),
        ("a.csv", "1\n2\n", "has one column, expected inputs and a label"),
        ("a.csv", csv_text() + "1,2,0\n", "3 columns in line 31, expected 4"),
        ("a.csv", csv_text() + "1,two,3,0\n", "holds 'two' in line 31, column 2"),
        ("a.csv", csv_text(x=HOLED), "has no number in line 3, column 2: fill such cells"),
        ("a.csv", csv_text(x=np.where(X > 1, np.nan, X)), r"line 3, column 1 \(nor in 7 more"),
        ("a.csv", "a;b;y\n1;;0\n", r"no number in line 2, column 2 \('b'\)"),
        ("a.csv", csv_text(["a", "b", "NaN"]), "no label for sample 3"),
        ("a.csv", csv_text(["a", "a", "a"]), "only the class a"),
        ("a.csv", b"\xff\xfe\x00\x01", "byte 0xff at 0 is no text in UTF-8"),
        ("a.csv", '"' + csv_text(), "up to line 30, a quotation mark is opened and not closed"),
        ("a.csv", csv_text() + "1\n", "1 column in line 31, expected 4"),
        ("a.csv", csv_text(header="a,b,b,y\n"), "2 columns called 'b', columns 2, 3"),
        ("a.csv", csv_text(x=X * 0), "the same inputs in every sample"),
        ("a.csv", csv_text(header="a,b,c,y\n") + "red,1,2,0\n", "label is taken from column 4"),
        ("a.npz", {"x": X, "y": np.where(Y, Y, np.inf)}, "label inf for sample 1"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_name(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(TaskError, match=message) as caught:
        task_from_file(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("y", "target", "message"),
    [
        (np.full(30, 0.5), None, "only the class 0.5"),
        (np.linspace(0, 1e300, 30), "regression", "label 3.4.*e.298 for sample 2, expected at mo"),
        (np.eye(30)[3], "regression", "targets of the .* part with seed 0 are 0, so R² says noth"),
        (np.linspace(0, 1e-60, 30), "regression", None),
    ],
)
def test_a_target_that_cannot_be_scored_is_one_sentence(tmp_path, y, target, message):
    path = write(tmp_path / "a.npz", {"x": X, "y": y})
    if message is None:
        assert np.ptp(task_from_file(path, target=target).load(0).y_test) > 0.1
        return
    with pytest.raises(TaskError, match=message):
        task_from_file(path, target=target).load(0)


def test_whole_numbers_with_samples_enough_are_classes(tmp_path):
    y = np.repeat(np.arange(25), 6)
    x = np.random.default_rng(0).normal(size=(len(y), 2))
    assert task_from_file(write(tmp_path / "a.npz", {"x": x, "y": y}), target=None).classes == 25


def test_a_column_of_truths_is_zeros_and_ones(tmp_path):
    x = np.column_stack([IN_ORDER[:, 0], np.arange(30) % 2])
    words = [f"{a:.6f},{('False', 'TRUE')[int(b)]},{y}" for (a, b), y in zip(x, Y, strict=True)]
    task, found, _ = read(tmp_path, "\n".join(["size,wet,kind", *words]))
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)
    assert "label 'kind'" in task.note
    turned = [",".join(line.split(",")[1::-1]) for line in words]
    with pytest.raises(TaskError, match=r"label, column 2 \('size'\) or column 1 \('wet'\): name"):
        read(tmp_path, "\n".join(["wet,size", *turned]))
    task, *_ = read(tmp_path, "\n".join(["size,wet", *(line[:-2] for line in words)]))
    assert task.names == ("False", "TRUE")


def read(tmp_path, text, name="a.csv", **options):
    """Return what a file gives: its task, and its inputs in the order in which they were."""
    task = task_from_file(write(tmp_path / name, text), **options)
    split = task.load(0)
    raw = np.concatenate(parts(split, "x")) * split.scale + split.mean
    order = np.argsort(raw[:, 0])
    return task, raw[order], np.concatenate(parts(split, "y"))[order]


IN_ORDER = np.sort(X, axis=0)
"""Inputs whose first column tells the samples apart."""


def table_text(separator=",", header=(), number="{}", index=None, names="012", first=False):
    """Return the samples as a file: the label last, or first."""
    lines = [separator.join(header)] if header else []
    for k, (row, label) in enumerate(zip(IN_ORDER, Y, strict=True)):
        cells = [number.format(value) for value in row]
        cells = [names[label], *cells] if first else [*cells, names[label]]
        lines.append(separator.join(cells if index is None else [str(k + index), *cells]))
    return "\n".join(lines) + "\n"


GERMAN = table_text(";", ("a", "b", "c", "art"), names=("x", "y", "z")).replace(".", ",")


@pytest.mark.parametrize(
    ("text", "name", "label"),
    [
        (table_text(";"), "a.csv", "column 4"),
        (table_text("\t"), "a.tsv", "column 4"),
        (GERMAN, "a.csv", "art"),
        (table_text(",", ("", "0", "1", "2", "3"), index=0), "a.csv", "3"),
        (table_text(",", ("id", "a", "b", "c", "kind"), index=1), "a.csv", "kind"),
        (table_text(",", ("id", "a", "b", "c", "kind"), index=501), "a.csv", "kind"),
        (table_text(";", index=0), "a.csv", "column 5"),
        (table_text(",", ("Class", "a", "b", "c"), first=True), "a.csv", "Class"),
        (table_text(",", ("kind", "a", "b", "c"), names="uvw", first=True), "a.csv", "kind"),
        (table_text(",", ("0", "1", "2", "kind")), "a.csv", "kind"),
    ],
)
def test_separator_header_index_and_label_are_found_out(tmp_path, text, name, label):
    task, x, y = read(tmp_path, text, name)
    assert (task.inputs, task.classes) == (3, 3)
    np.testing.assert_allclose(x, IN_ORDER, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y, Y)
    assert f"label '{label}' of 3 classes" in task.note


def test_an_index_that_is_left_out_is_said_and_another_first_column_stays(tmp_path):
    task, *_ = read(tmp_path, table_text(",", ("id", "a", "b", "c", "kind"), index=1))
    assert "column 1 ('id') left out" in task.note
    task, *_ = read(tmp_path, table_text(",", ("hour", "a", "b", "c", "kind"), index=1))
    assert task.inputs == 4
    assert "left out" not in task.note


@pytest.mark.parametrize("label", ["b", "B", "2"])
def test_a_label_is_named_or_numbered(tmp_path, label):
    rows = [f"{x:.3f},{y},{z:.3f}" for (x, _, z), y in zip(IN_ORDER, Y, strict=True)]
    task, x, y = read(tmp_path, "\n".join(["a,b,c", *rows]), label=label)
    assert task.inputs == 2
    np.testing.assert_allclose(x, IN_ORDER[:, [0, 2]], atol=1e-3)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(
    ("header", "label", "message"),
    [
        (
            "size,kind,cost",
            "kin",
            "no column 'kin'; its columns: size, kind, cost; did you mean kind\\?$",
        ),
        ("", "kind", "no column 'kind' and no names, expected a number from 1 to 3"),
        ("size,kind,cost", None, r"label, column 3 \('cost'\) or column 2 \('kind'\): name it by"),
    ],
)
def test_a_label_that_is_not_clear_is_asked_for(tmp_path, header, label, message):
    rows = [f"{x:.3f},{y},{z:.3f}" for (x, _, z), y in zip(X, Y, strict=True)]
    path = write(tmp_path / "a.csv", "\n".join([header, *rows]))
    with pytest.raises(TaskError, match=message):
        task_from_file(path, label=label)


def test_a_table_of_pandas_is_read_as_csv_is(tmp_path, monkeypatch):
    class Frame:
        columns = ("a", "b", "kind")

        def itertuples(self, index):
            assert not index
            return [(float(x[0]), bool(y), "uvw"[y]) for x, y in zip(IN_ORDER, Y, strict=True)]

    pandas = SimpleNamespace(read_parquet=lambda path: Frame())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", pandas)
        task = task_from_file(write(tmp_path / "a.parquet", b""))
    assert (task.inputs, task.names) == (2, ("u", "v", "w"))
    split = task.load(0)
    raw = np.concatenate(parts(split, "x")) * split.scale + split.mean
    order = np.argsort(raw[:, 0])
    expected = np.column_stack([IN_ORDER[:, 0], Y > 0])
    np.testing.assert_allclose(raw[order], expected, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate(parts(split, "y"))[order], Y)


def test_a_real_parquet_file_is_read_and_a_torn_one_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(IN_ORDER, columns=["a", "b", "c"])
    frame["kind"] = pandas.Categorical.from_codes(Y, ["u", "v", "w"])
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    task = task_from_file(path)
    assert (task.inputs, task.names) == (3, ("u", "v", "w"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TaskError, match=r"a\.parquet is not readable Parquet: .*[^.]\.$") as caught:
        task_from_file(path)
    assert "\n" not in str(caught.value)


def test_parquet_without_pandas_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    path = write(tmp_path / "a.parquet", b"PAR1")
    with pytest.raises(TaskError, match=r'needs pandas: pip install "settle\[pandas\]"\.$'):
        task_from_file(path)


@pytest.mark.parametrize("names", [("X", "y"), ("x", "y"), ("X", "Y")])
def test_an_official_test_part_stays_whole(tmp_path, names):
    x_test, y_test = X[:9] + 5.0, Y[:9]
    arrays = dict(zip(names, (X, Y), strict=True)) | {"x_test": x_test, "y_test": y_test}
    task = task_from_file(write(tmp_path / "a.npz", arrays))
    for seed in (0, 1):
        split = task.load(seed)
        assert [len(x) for x in parts(split, "x")] == [24, 6, 9]
        np.testing.assert_allclose(split.x_test * split.scale + split.mean, x_test, rtol=1e-5)
        np.testing.assert_array_equal(split.y_test, y_test)
        np.testing.assert_allclose(split.mean, X.mean(axis=0), atol=0.5)
    assert "9 test samples of its own" in task.note


def test_numbers_to_be_predicted_are_normalised_and_kept(tmp_path):
    y = 100.0 + 7.0 * X[:, 0]
    task = task_from_file(write(tmp_path / "a.npz", {"x": X, "y": y}), target=None)
    assert (task.continuous, task.classes, task.names) == (True, 1, ())
    split = pickle.loads(pickle.dumps(task)).load(0)
    assert split.y_train.shape == (18, 1)
    assert split.y_train.dtype == np.float32
    assert split.y_train.mean() == pytest.approx(0.0, abs=1e-6)
    assert split.y_train.std() == pytest.approx(1.0, rel=1e-6)
    raw = np.concatenate(parts(split, "x")) * split.scale + split.mean
    found = np.concatenate(parts(split, "y"))[:, 0] * split.y_scale + split.y_mean
    np.testing.assert_allclose(found, 100.0 + 7.0 * raw[:, 0], rtol=1e-5)
    assert split.majority_rate == 0.0


WHOLE = np.repeat(np.arange(10.0), 3)
MANY = np.arange(30) % 25


@pytest.mark.parametrize(
    ("y", "target", "continuous"),
    [
        (WHOLE[::-1] % 3, None, False),
        (X[:, 0], None, True),
        (np.round(100 * X[:, 0]), None, True),  # whole, but written as fractions, and many
        (Y, None, False),
        (Y, "regression", True),
        (MANY, "regression", True),
        (Y / 2, "classes", False),
        (Y / 2, "regression", True),
    ],
)
def test_a_target_is_classes_or_numbers(tmp_path, y, target, continuous):
    task = task_from_file(write(tmp_path / "a.npz", {"x": X, "y": y}), target=target)
    assert task.continuous is continuous


@pytest.mark.parametrize(
    ("y", "target", "message"),
    [
        (Y / 2, None, "labels of 3 different fractions, such as 0: are they classes or numbers"),
        (np.array(["a", "b", "c"])[Y], "regression", "has the label 'a', not a number"),
        (0.0 * Y, "regression", "only the target 0: nothing varies"),
        (MANY, None, "25 different whole numbers, such as 0: .* Say --target classes or --target"),
        (MANY, "classes", "25 different whole numbers as labels"),
    ],
)
def test_a_target_that_is_neither_is_one_sentence(tmp_path, y, target, message):
    path = write(tmp_path / "a.npz", {"x": X, "y": y})
    with pytest.raises(TaskError, match=message):
        task_from_file(path, target=target)


def test_images_are_rows_with_a_shape_for_networks_that_take_rows(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 4, 5))
    task = task_from_file(write(tmp_path / "a.npz", {"X": x, "y": Y}))
    assert (task.image, task.inputs) == ((4, 5, 1), 20)
    assert task.load(0).mean.shape == ()


def test_a_single_array_is_not_a_task(tmp_path):
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(TaskError, match=r"a\.npz is not a readable .npz .* not a zip file\.$"):
        task_from_file(path)


def packed_zeros(path, samples):
    """An archive of inputs that are all but constant, which packs them to a thousandth."""
    x, y = np.zeros((samples, 1000)), np.arange(samples) % 2
    x[0, 0] = 1.0  # inputs that are all alike are refused
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
