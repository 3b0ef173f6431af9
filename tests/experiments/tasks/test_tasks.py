import gzip
import hashlib
import itertools
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

from experiments.tasks import (
    TASKS,
    Environment,
    TaskError,
    cloned_policy,
    control,
    expert_policy,
    find_task,
    images,
    normalised_split,
    policy_return,
    random_policy,
)

PARTS = ("train", "valid", "test")


def inputs(split):
    return [getattr(split, f"x_{part}") for part in PARTS]


def labels(split):
    return [getattr(split, f"y_{part}") for part in PARTS]


@pytest.fixture(scope="module")
def cartpole():
    return TASKS["cartpole"].load(1)


def test_every_task_survives_a_trip_to_another_process():
    for task in TASKS.values():
        assert pickle.loads(pickle.dumps(task)).name == task.name


def test_an_unknown_task_is_answered_with_the_known_ones():
    with pytest.raises(TaskError, match=r"no task 'mnsit'.*digits, mnist, fashion_mnist"):
        find_task("mnsit")


def test_digits_are_cut_by_class():
    task = find_task("digits")
    split = task.load(0)
    assert [len(x) for x in inputs(split)] == [1077, 360, 360]
    assert {x.shape[1] for x in inputs(split)} == {task.inputs}
    assert {x.dtype.name for x in inputs(split)} == {"float32"}
    assert {y.dtype.name for y in labels(split)} == {"int64"}
    for y in labels(split):
        assert np.bincount(y, minlength=10) == pytest.approx(np.full(10, len(y) / 10), rel=0.1)
    assert split.majority_rate == pytest.approx(0.1, abs=0.01)


def test_the_seed_is_the_split():
    load = find_task("digits").load
    np.testing.assert_array_equal(load(3).x_test, load(3).x_test)
    assert not np.array_equal(load(3).y_test, load(4).y_test)


def test_joining_adds_validation_to_training_and_touches_nothing_else():
    split = find_task("digits").load(0)
    joined = split.joined()
    np.testing.assert_array_equal(joined.x_train, np.concatenate([split.x_train, split.x_valid]))
    np.testing.assert_array_equal(joined.y_train, np.concatenate([split.y_train, split.y_valid]))
    assert (joined.x_valid.shape, joined.y_valid.shape) == ((0, 64), (0,))
    assert joined.x_test is split.x_test


@pytest.mark.parametrize("per_feature", [False, True])
def test_normalisation_knows_only_the_training_part(per_feature):
    rng = np.random.default_rng(0)
    train, valid, test = ((rng.normal(5, 3, (50, 4)), rng.integers(2, size=50)) for _ in PARTS)
    split, other = (
        normalised_split(train, (v * 9, y), (t * 9, y), per_feature=per_feature, description="")
        for v, t, y in ((valid[0], test[0], test[1]), (test[0], valid[0], valid[1]))
    )
    np.testing.assert_array_equal(split.x_train, other.x_train)
    axis = 0 if per_feature else None
    np.testing.assert_allclose(split.x_train.mean(axis), 0, atol=1e-6)
    np.testing.assert_allclose(split.x_train.std(axis), 1, rtol=1e-6)
    np.testing.assert_array_equal(split.normalise(test[0] * 9), split.x_test)


def test_a_constant_input_is_only_centred():
    part = np.array([[1e6, 1.0], [1e6, 2.0]]), np.array([0, 1])
    split = normalised_split(part, part, part, per_feature=True, description="")
    np.testing.assert_allclose(split.x_train, [[0, -1], [0, 1]])


def idx_gz(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Sixty random 3x3 images for the parser, in the place from which they are downloaded."""
    rng = np.random.default_rng(0)
    files = {}
    for prefix, count in (("train", 40), ("t10k", 20)):
        arrays = {
            f"{prefix}-images-idx3-ubyte.gz": rng.integers(256, size=(count, 3, 3), dtype=np.uint8),
            f"{prefix}-labels-idx1-ubyte.gz": np.arange(count, dtype=np.uint8) % 2,
        }
        for name, array in arrays.items():
            content = idx_gz(array)
            path = tmp_path / "site" / "tiny" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            files[name] = images.KnownFile(len(content), hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(images, "VALIDATION_IMAGES", 10)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("SETTLE_DATA", raising=False)
    return images.PublishedFiles("tiny", f"file://localhost{tmp_path}/site/tiny/", files)


def test_idx_files_are_parsed_in_order(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path / "site"))
    path = images.locate(archive, "train-images-idx3-ubyte.gz")
    expected = np.random.default_rng(0).integers(256, size=(40, 3, 3), dtype=np.uint8)
    np.testing.assert_array_equal(images.read_idx(path), expected)
    split = images.load_archive_split(archive, 0)
    assert [x.shape for x in inputs(split)] == [(30, 9), (10, 9), (20, 9)]
    np.testing.assert_array_equal(split.y_test, np.arange(20) % 2)
    restored = np.concatenate([split.x_train, split.x_valid]) * split.scale + split.mean
    assert sorted(restored.sum(1).round()) == sorted(expected.sum((1, 2)))


def test_a_subset_keeps_the_classes_and_the_whole_test_part(archive):
    whole, part = (images.load_archive_split(archive, 3, subset) for subset in (None, 20))
    assert [len(x) for x in inputs(part)] == [16, 4, 20]
    assert [np.bincount(y).tolist() for y in labels(part)] == [[8, 8], [2, 2], [10, 10]]
    np.testing.assert_array_equal(part.y_test, whole.y_test)
    drawn, known = (
        {tuple(row) for x in inputs(s)[:2] for row in (x * s.scale + s.mean).round()}
        for s in (part, whole)
    )
    assert drawn < known
    assert len(drawn) == 20
    other = images.load_archive_split(archive, 4, 20)
    assert not np.array_equal(other.x_train, part.x_train)


def test_a_download_is_kept(archive, tmp_path):
    first = images.load_archive_split(archive, 0)
    for path in (tmp_path / "site" / "tiny").iterdir():
        path.unlink()
    np.testing.assert_array_equal(images.load_archive_split(archive, 0).x_train, first.x_train)


def test_missing_data_says_what_to_do(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "site" / "tiny" / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(TaskError, match=r"tiny/train-images.*missing.*set SETTLE_DATA"):
        images.load_archive_split(archive, 0)


def test_a_corrupt_file_is_named(archive, tmp_path, monkeypatch):
    path = tmp_path / "site" / "tiny" / "t10k-labels-idx1-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path / "site"))
    with pytest.raises(TaskError, match=r"t10k-labels-idx1-ubyte.gz is corrupt \(sha256"):
        images.load_archive_split(archive, 0)
    monkeypatch.delenv("SETTLE_DATA")
    with pytest.raises(TaskError, match=r"t10k-labels.*download failed \(sha256"):
        images.load_archive_split(archive, 0)
    assert not [p for p in tmp_path.rglob("*t10k-labels*") if p != path]


def test_no_more_is_read_than_a_file_is_known_to_have(archive, tmp_path, monkeypatch):
    name = "train-images-idx3-ubyte.gz"
    path = tmp_path / "site" / "tiny" / name
    path.write_bytes(bytes(1 << 26))
    tracemalloc.start()
    try:
        with pytest.raises(TaskError, match=r"download failed \(it has more than [\d,]+ bytes\)"):
            images.locate(archive, name)
        monkeypatch.setenv("SETTLE_DATA", str(tmp_path / "site"))
        message = r"is corrupt \(67,108,864 bytes, expected \d+\)"
        with pytest.raises(TaskError, match=message):
            images.locate(archive, name)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_corrupt_file_in_the_cache_is_fetched_again(archive):
    name = "train-images-idx3-ubyte.gz"
    path = images.locate(archive, name)
    whole = path.read_bytes()
    path.write_bytes(whole[::-1])
    assert images.locate(archive, name).read_bytes() == whole


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes(1 << 26)), "more than 3 bytes"),
        (gzip.compress(bytes([0, 0, 8, 2, 0, 1, 0, 0, 0, 1, 0, 0])), r"4,294,967,296 bytes, at m"),
        (gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2])), "has 2 bytes, expected 3"),
        (gzip.compress(b"\0\0"), "no idx file"),
        (gzip.compress(bytes([0, 0, 8, 3, 0, 0, 0, 3])), "no idx file"),
        (gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3]))[:-6], "no idx file"),
        (b"no gzip", "no idx file"),
    ],
    ids=["too-long", "too-large", "too-short", "no-axes", "no-lengths", "cut", "text"],
)
def test_an_idx_file_is_read_as_far_as_its_own_header_says(tmp_path, content, message):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(TaskError, match=message):
            images.read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_no_episode_is_in_two_parts():
    parts = control.record_parts(TASKS["cartpole"].environment, seed=1)
    assert [len(part.actions) for part in parts] == [10_000, 2_000, 2_000]
    for first, second in itertools.combinations(parts, 2):
        assert not set(first.episodes.tolist()) & set(second.episodes.tolist())
        rows = {row.tobytes() for row in first.observations}
        assert not rows & {row.tobytes() for row in second.observations}


def test_behaviour_repeats_with_its_seed(cartpole):
    again, other = TASKS["cartpole"].load(1), TASKS["cartpole"].load(2)
    for x, same in zip(inputs(cartpole), inputs(again), strict=True):
        np.testing.assert_array_equal(x, same)
    assert not np.array_equal(cartpole.x_train, other.x_train)


def test_the_labels_are_the_experts_although_a_tenth_of_the_play_is_random():
    environment = TASKS["cartpole"].environment
    play = control.record(environment, 5_000, seed=1, first_episode=0)
    np.testing.assert_array_equal(play.actions, environment.expert(play.observations))
    # The cart's speed tells what was done; half of the random pushes agree with the expert.
    taken = np.diff(play.observations[:, 1]) > 0
    within = np.diff(play.episodes) == 0
    assert (taken != play.actions[:-1])[within].mean() == pytest.approx(0.05, abs=0.01)


def test_acrobot_keeps_the_action_that_its_expert_avoids():
    task = TASKS["acrobot"]
    recording = control.record(task.environment, 400, seed=0, first_episode=0)
    assert task.classes == 3
    assert recording.observations.shape == (400, task.inputs)
    assert set(recording.actions.tolist()) == {0, 2}


def test_the_cartpole_expert_is_perfect_and_chance_is_not():
    task = TASKS["cartpole"]
    assert policy_return(task, expert_policy(task), 20).tolist() == [500] * 20
    assert policy_return(task, random_policy(task), 20).mean() < 50


def test_the_acrobot_expert_swings_up():
    returns = policy_return(TASKS["acrobot"], expert_policy(TASKS["acrobot"]), 10)
    assert np.median(returns) > -120


def test_a_cloned_policy_acts_on_what_the_network_was_trained_on(cartpole):
    task = TASKS["cartpole"]
    batches = []

    def predict(x):
        batches.append(len(x))
        return expert_policy(task)(x * cartpole.scale + cartpole.mean)

    assert policy_return(task, cloned_policy(cartpole, predict), 20).mean() > 495
    assert batches[0] == 20
    assert len(batches) <= 500


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda x: np.full(len(x), 2), "chose action 2; CartPole-v1 has 2"),
        (lambda x: np.full(len(x), -1), "chose action -1"),
        (lambda x: np.zeros(len(x)), "float64"),
        (lambda x: np.zeros((len(x), 1), int), r"shape \(20, 1\)"),
    ],
)
def test_a_policy_with_impossible_actions_is_refused(policy, message):
    with pytest.raises(TaskError, match=message):
        policy_return(TASKS["cartpole"], policy, 20)


def test_a_return_needs_an_environment_and_an_episode():
    with pytest.raises(TaskError, match="'digits' has no environment"):
        policy_return(TASKS["digits"], len)
    with pytest.raises(TaskError, match="at least 1 episode"):
        policy_return(TASKS["cartpole"], len, episodes=0)


def test_control_without_gymnasium_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(TaskError, match=r'pip install "settle\[control\]"'):
        TASKS["cartpole"].load(0)


def test_a_new_environment_is_one_declaration():
    environment = Environment("MountainCar-v0", 3, lambda x: np.where(x[:, 1] > 0, 2, 0))
    recording = control.record(environment, 300, seed=0, first_episode=0)
    assert recording.observations.shape == (300, 2)
