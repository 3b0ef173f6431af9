"""A file that is not a whole checkpoint is refused in one sentence, and runs no code."""

import io
import json
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.learning.checkpoint import load, save
from engine.learning.run import Epoch, Run
from engine.model.builders import looped_mlp
from engine.model.params import initial_params

NETWORK = looped_mlp(2, 3, 2)
PARAMS = initial_params(NETWORK, np.random.default_rng(0))


@cache
def _whole() -> bytes:
    """A checkpoint in which nothing is missing."""
    run = Run.start(NETWORK, 2, np.float32, seed=0)
    run.epoch, run.step, run.best_epoch, run.best_theta = 1, 5, 1, PARAMS.theta + 1
    run.history = [Epoch(1, 0.5, 3.0, 2.0, 0.0, 0.1, 0.4, 0.9)]
    run.memory += 0.5
    with TemporaryDirectory() as folder:
        save(Path(folder) / "whole", PARAMS, run, "settings")
        return (Path(folder) / "whole").read_bytes()


def _arrays() -> dict[str, Any]:
    with np.load(io.BytesIO(_whole())) as archive:
        return dict(archive)


def _packed(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _refusal(path: Path, data: bytes) -> str:
    """Return the sentence with which the file is refused; any other exception goes through."""
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    sentence = message.removeprefix(f"{path} ")
    assert sentence != message
    assert "\n" not in sentence
    assert ". " not in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    return message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no file .*/nothing\.$"):
        load(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="is not a whole Settle checkpoint"):
        load(tmp_path)


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, PARAMS.theta)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"not a checkpoint",
        np.random.default_rng(0).bytes(3000),
        b"PK\x03\x04" + np.random.default_rng(0).bytes(3000),
        b"\x93NUMPY" + np.random.default_rng(0).bytes(3000),
        pickle.dumps({"theta": PARAMS.theta}),
        _npy(),
        _packed({"a": np.ones(3), "b": np.zeros(2)}),
        _packed({}),
    ],
    ids=["empty", "two", "text", "noise", "zip", "npy-noise", "pickle", "npy", "npz", "no-arrays"],
)
def test_a_foreign_file_is_refused(data: bytes, tmp_path: Path) -> None:
    said = _refusal(tmp_path / "file", data)
    assert "is not a whole Settle checkpoint" in said or "is no Settle checkpoint" in said


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.99, 0.999])
def test_a_truncated_file_is_refused(share: float, tmp_path: Path) -> None:
    _refusal(tmp_path / "file", _whole()[: int(share * len(_whole()))])


@pytest.mark.parametrize("name", ["head", "theta", "memory", "vector W_rec", "best_theta"])
def test_a_file_without_one_of_its_arrays_is_refused(name: str, tmp_path: Path) -> None:
    arrays = _arrays()
    del arrays[name]
    _refusal(tmp_path / "file", _packed(arrays))


SIZE = NETWORK.size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theta", np.full(SIZE, np.nan, np.float32)),
        ("theta", np.full(SIZE, np.inf, np.float32)),
        ("theta", np.zeros(SIZE + 1, np.float32)),
        ("theta", np.zeros((SIZE, 1), np.float32)),
        ("theta", np.zeros(SIZE, np.int64)),
        ("theta", np.array("words")),
        ("theta", np.arange(SIZE, dtype=np.float32)),
        ("memory", np.zeros((2, SIZE - 1), np.float32)),
        ("memory", np.zeros((2, 1), np.float32)),
        ("memory", np.zeros(SIZE, np.float32)),
        ("memory", np.float32(0)),
        ("memory", np.full((2, SIZE), np.nan, np.float32)),
        ("vector W_rec", np.zeros(4)),
        ("vector W_rec", np.float64(1)),
        ("best_theta", np.zeros(3, np.float32)),
        ("best_theta", np.full(SIZE, np.nan, np.float32)),
        ("head", np.array("{}")),
        ("head", np.array("[]")),
        ("head", np.array("{")),
        ("head", np.zeros(3)),
    ],
)
def test_an_array_of_the_wrong_shape_type_or_value_is_refused(
    name: str, value: Any, tmp_path: Path
) -> None:
    _refusal(tmp_path / "file", _packed(_arrays() | {name: np.asarray(value)}))


def _at(*path: Any, value: Any) -> Callable[[Any], None]:
    """Change one entry of the head."""

    def change(head: Any) -> None:
        for key in path[:-1]:
            head = head[key]
        head[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_at("format", value="settle checkpoint 1"), "has format 'settle checkpoint 1', expected"),
        (_at("format", value=None), "has format 'None', expected"),
        (_at("network", "inputs", value=-2), "size -2"),
        (_at("network", "layers", value=[]), "at least one layer"),
        (
            _at("network", "layers", 0, "fields", "activation", value="gelu"),
            "unknown activation 'gelu'",
        ),
        (_at("network", "couplings", 0, "kind", value="System"), "System"),
        (_at("network", "couplings", 0, "kind", value="Layer"), ""),
        (_at("network", "readout", "fields", "command", value="rm"), "command"),
        (_at("run", "rng", value={"bit_generator": "MT19937"}), ""),
        (_at("run", "rng", "state", "state", value=-1), ""),
        (_at("run", "history", value=[{"number": 1}]), ""),
        (_at("run", "epoch", value="one"), ""),
        (_at("run", "step", value=-1), ""),
        (_at("run", "best_epoch", value=9), ""),
    ],
)
def test_a_head_that_describes_no_run_is_refused(
    change: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    arrays = _arrays()
    head = json.loads(str(arrays["head"]))
    change(head)
    assert message in _refusal(
        tmp_path / "file", _packed(arrays | {"head": np.array(json.dumps(head))})
    )


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("name", ["head", "theta", "memory", "best_theta", "another"])
def test_nothing_in_the_file_is_executed(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    armed = np.array([Bomb(trace)], dtype=object)
    data = _packed(_arrays() | {name: armed})
    _refusal(tmp_path / "file", data)
    _refusal(tmp_path / "file", pickle.dumps(Bomb(trace)))
    assert not trace.exists()
    np.load(io.BytesIO(data), allow_pickle=True)[name]
    assert trace.exists()


def _loads_as_it_was_or_is_refused(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        params, run, text = load(path)
    except CheckpointError:
        return True
    return (
        np.array_equal(params.theta, PARAMS.theta)
        and params.network == NETWORK
        and text == "settings"
        and np.array_equal(run.best_theta, PARAMS.theta + 1)
        and (run.memory == 0.5).all()
        and (run.epoch, run.step, run.best_epoch, len(run.history)) == (1, 5, 1, 1)
    )


def test_no_bit_of_the_table_of_contents_can_be_wrong_unnoticed(tmp_path: Path) -> None:
    start = _whole().index(b"PK\x01\x02")
    for place in range(start, len(_whole())):
        for bit in range(8):
            damaged = bytearray(_whole())
            damaged[place] ^= 1 << bit
            assert _loads_as_it_was_or_is_refused(tmp_path / "file", damaged), (place - start, bit)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(["flip", "replace", "cut", "insert"]))
def test_a_damaged_file_loads_as_it_was_or_is_refused(
    data: st.DataObject, kind: str, tmp_path: Path
) -> None:
    damaged = bytearray(_whole())
    place = data.draw(st.integers(0, len(damaged) - 1))
    if kind == "flip":
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "replace":
        damaged[place : place + 8] = data.draw(st.binary(min_size=1, max_size=8))
    elif kind == "cut":
        del damaged[place:]
    else:
        damaged[place:place] = data.draw(st.binary(min_size=1, max_size=8))
    assert _loads_as_it_was_or_is_refused(tmp_path / "file", damaged)
