import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.records import load_record, save_record, write_bytes, write_text
from tests.experiments.parity.parity_records import make_record

RECORDS = [
    make_record("digits", "eqprop_looped", 42, 0.98),
    make_record("cartpole", "backprop_looped", 7, 1 / 3),
    replace(make_record("digits", "readout_only", 0, 0.1 + 0.2), curve=()),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.key)
def test_a_record_comes_back_as_it_was(record, tmp_path):
    save_record(tmp_path / "runs" / f"{record.key}.json", record)
    (path,) = (tmp_path / "runs").iterdir()
    assert path.name == f"{record.task}-{record.contestant}-{record.seed}.json"
    assert load_record(path) == record


def valid():
    record = make_record("digits", "eqprop_looped", 42, 0.98)
    return json.loads(json.dumps(record, default=lambda value: vars(value)))


def without(name):
    return {key: value for key, value in valid().items() if key != name}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        "{}",
        json.dumps(valid())[:-20],
        json.dumps(without("accuracy")),
        json.dumps(without("curve")),
        json.dumps(valid() | {"mood": "good"}),
        json.dumps(valid() | {"curve": 3}),
        json.dumps(valid() | {"curve": [{"epoch": 1}]}),
        json.dumps(valid() | {"curve": [7]}),
        b"\xff\xfe\x00",
        None,
    ],
)
def test_what_is_not_a_record_is_none(content, tmp_path):
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert load_record(path) is None


def test_the_example_of_the_corrupt_ones_is_a_record_itself(tmp_path):
    write_text(tmp_path / "run.json", json.dumps(valid()))
    assert load_record(tmp_path / "run.json").accuracy == 0.98


def test_a_folder_in_place_of_a_record_is_none(tmp_path):
    assert load_record(tmp_path) is None


def test_text_is_written_as_utf_8_with_its_folder(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    write_text(path, "± β\n")
    assert path.read_bytes() == "± β\n".encode()
    write_text(path, "again")
    assert path.read_text(encoding="utf-8") == "again"
    assert [entry.name for entry in path.parent.iterdir()] == ["c.txt"]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["write", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    failure, moment, tmp_path, monkeypatch
):
    path = tmp_path / "run.json"
    path.write_text("old")
    if moment == "write":
        write = Path.write_bytes

        def fail_half_way(self, content):
            write(self, content[: len(content) // 2])
            raise failure

        monkeypatch.setattr(Path, "write_bytes", fail_half_way)
    else:

        def fail(*_):
            raise failure

        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(failure)):
        write_bytes(path, b"brand new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    path, seen = tmp_path / "run.json", []
    path.write_text("old")
    replace_file = os.replace

    def spy(source, target):
        seen.append((path.read_text(), Path(source).read_text(), Path(source).parent))
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", spy)
    write_text(path, "new")
    assert seen == [("old", "new", tmp_path)]
    assert path.read_text() == "new"
