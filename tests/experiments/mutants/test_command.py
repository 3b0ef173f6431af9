"""The command on a tree of its own: baseline, a weak test, lists, what is kept, what is left."""

import json
import os
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from experiments.mutants import command
from experiments.mutants.__main__ import _parser, main
from experiments.mutants.report import MutantCounts, tally

ROOT = Path(__file__).parents[3]
CODE = """
    def area(width, height):
        total = 0
        while width > 0:
            total += height
            width -= 1
        return total

    def is_large(size):
        return size > 10
"""
TESTS = """
    from engine.shape import area, is_large

    def test_area():
        assert area(3, 5) == 15

    def test_large():
        assert is_large(20)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.mutants.workplace.LIBRARIES", ("hypothesis",))
    monkeypatch.setattr("experiments.mutants.campaign.SPARE_S", 0.3)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one module, its tests, and empty lists."""
    root = tmp_path / "tree"
    for name in ("engine", "hw_sim", "golden", "adapters", "tests/engine"):
        (root / name).mkdir(parents=True)
    (root / "engine/shape.py").write_text(dedent(CODE))
    (root / "tests/engine/test_shape.py").write_text(dedent(TESTS))
    (root / "experiments").mkdir()
    shutil.copy(ROOT / "experiments/__init__.py", root / "experiments")
    shutil.copytree(ROOT / "experiments/mutants", root / "experiments/mutants")
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = "--import-mode=importlib"\n'
    )
    for name in ("equivalent.toml", "compiler.toml"):
        (root / name).write_text("")
    return root


def run(tree: Path, *arguments: str) -> int:
    fixed = ["--workers", "1", "--out", str(tree / "out")]
    return main([*fixed, *arguments], tree, tree)


def verdicts(tree: Path) -> dict[str, str]:
    report = json.loads((tree / "out/report.json").read_text())
    return {entry["id"]: entry["status"] for entry in report["verdicts"]}


def test_a_weak_test_lets_a_mutant_through_and_a_better_one_does_not(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (tree / "engine/shape.py").read_bytes()
    assert run(tree) == 1
    found = verdicts(tree)
    assert found["engine/shape.py:is_large:compare:1"] == "survived"
    assert found["engine/shape.py:area:arithmetic:2"] == "killed"  # it never ends
    assert found["engine/shape.py:area:arithmetic:1"] == "killed"
    assert "is missed" in capsys.readouterr().out
    survivors = (tree / "out/survivors.txt").read_text()
    assert "-    return size > 10\n+    return size >= 10" in survivors
    assert (tree / "engine/shape.py").read_bytes() == before

    better = dedent(TESTS) + "    assert not is_large(10)\n    assert is_large(11)\n"
    (tree / "tests/engine/test_shape.py").write_text(better)
    assert run(tree) == 0
    assert set(verdicts(tree).values()) == {"killed"}
    assert not list((tree / "engine").glob("__pycache__"))


def test_what_is_called_to_collect_tests_concerns_all_of_them(tree: Path) -> None:
    text = dedent(TESTS).replace("assert is_large(20)", "assert not LARGE")
    (tree / "tests/engine/test_shape.py").write_text(f"{text}\nLARGE = is_large(10)\n")
    assert run(tree, "--only", "engine/shape.py:is_large:compare:1") == 0


def test_a_case_that_the_fault_renames_is_run_all_the_same(tree: Path) -> None:
    text = """
        import pytest
        from engine.shape import is_large

        @pytest.mark.parametrize("large", [is_large(10)], ids=str)
        def test_ten(large):
            assert not large
    """
    (tree / "tests/engine/test_shape.py").write_text(dedent(text))
    assert run(tree, "--only", "engine/shape.py:is_large:compare:1") == 0


def test_what_is_done_is_not_done_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tree) == 1
    first, lines = verdicts(tree), (tree / "out/verdicts.jsonl").read_text()

    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("experiments.mutants.campaign.Workplace", refuse)
    assert run(tree) == 1
    assert verdicts(tree) == first
    assert (tree / "out/verdicts.jsonl").read_text() == lines


def test_a_test_that_fails_on_the_code_as_it_is_stops_the_command(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = dedent(TESTS).replace("== 15", "== 16")
    (tree / "tests/engine/test_shape.py").write_text(wrong)
    assert run(tree) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "1 tests fail on the code as it is" in said
    assert "test_shape.py::test_area" in said
    assert not (tree / "out/verdicts.jsonl").exists()


def listed(change: str, name: str = "engine/shape.py:is_large:compare:1") -> str:
    return f'[[equivalent]]\nid = "{name}"\nchange = "{change}"\nreason = "none is 10"\n'


TRUE_CHANGE = "return size > 10 -> return size >= 10"


def test_a_listed_equivalent_is_counted_apart(tree: Path) -> None:
    (tree / "equivalent.toml").write_text(listed(TRUE_CHANGE))
    constant = "engine/shape.py:is_large:constant:1"
    assert run(tree, "--only", "engine/shape.py:is_large:compare:1", constant) == 1
    report = json.loads((tree / "out/report.json").read_text())
    assert report["equivalent"] == {"engine/shape.py:is_large:compare:1": "none is 10"}
    assert verdicts(tree) == {constant: "survived"}


def test_an_equivalent_that_a_test_kills_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = "engine/shape.py:area:arithmetic:1"
    change = "total += height -> total -= height"
    (tree / "equivalent.toml").write_text(listed(TRUE_CHANGE) + listed(change, killed))
    assert run(tree, "--equivalents") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"{killed} is listed as equivalent, but tests/engine/test_shape.py::test_area" in said


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (listed("a -> b", "engine/shape.py:gone:compare:1"), "gone:compare:1 is listed but does"),
        (listed("return size > 9 -> return size >= 9"), "judge it again"),
        (listed(TRUE_CHANGE).replace("none is 10", " "), "without a reason"),
        ("[[equivalent]]\nid = 'a'\n", "an entry of ['id'], not ['change', 'id', 'reason']"),
        ("[[equivalent", "is not TOML"),
    ],
)
def test_a_list_that_does_not_fit_the_code_is_refused(
    tree: Path, capsys: pytest.CaptureFixture[str], entry: str, message: str
) -> None:
    (tree / "equivalent.toml").write_text(entry)
    assert run(tree, "--list") == 2
    assert message in " ".join(capsys.readouterr().out.split())


def test_a_sample_is_the_same_each_time_and_another_with_another_seed(tree: Path) -> None:
    everything = {mutant.id: mutant for mutant in command._all_mutants(tree, command.FILES)}
    lists = command.load_lists(everything, tree)

    def sample(*arguments: str) -> list[str]:
        options = _parser().parse_args(["--sample", "4", *arguments])
        return [mutant.id for mutant in command._asked(options, tree, everything, lists)]

    assert sample() == sample("--seed", "0")
    assert set(sample()) != set(sample("--seed", "1"))
    assert len(set(sample())) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "engine/shape.py:f:compare:1"], "no mutant engine/shape.py:f:compare:1"),
        (["--files", "engine/none.py"], "no mutants in engine/none.py"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(
    tree: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(tree, *arguments) == 2
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (tree / "out").exists()


def test_no_copy_is_left_behind(
    tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", os.fspath(scratch))
    assert run(tree, "--only", "engine/shape.py:is_large:constant:1") == 1
    assert not list(scratch.iterdir())


def test_the_share_leaves_out_what_is_equivalent_and_what_was_not_run() -> None:
    assert MutantCounts(killed=19, survived=1, equivalent=5, not_run=7).share == 0.95
    assert tally([], {}, {}).share is None


def test_the_lists_of_the_project_fit_its_code() -> None:
    everything = {mutant.id: mutant for mutant in command._all_mutants(ROOT, command.FILES)}
    lists = command.load_lists(everything)
    assert set(lists.equivalent) <= set(everything)
    for tests in lists.compiled.values():
        for test in tests:
            file, *names = test.split("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert all(name in text for name in names)
