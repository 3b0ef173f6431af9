"""Two versions in turns: rulings from synthetic times, and whole runs of small cases."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmark import command
from experiments.benchmark.__main__ import main
from experiments.benchmark.against import compare, versions
from experiments.benchmark.against.compare import Duel, Rounds, compare_versions, judge_rows
from experiments.benchmark.against.report import ComparisonResults, comparison_document
from experiments.benchmark.against.versions import (
    ROOT,
    Seconds,
    TimingProcess,
    Version,
    VersionError,
    checked_out,
)
from experiments.benchmark.against.worker import FIRST_FIT, IMPORT, cases
from experiments.reporting.html_page import render_html

SMALL = "relaxation, 64 units, batch 16"


def synthetic(rng, cases, rounds, ratio=1.0, noise=0.05, busy=0.5):
    """Times with a load that both share, and noise of their own."""
    made = {}
    for case in range(cases):
        load = 1.0 + rng.exponential(busy, rounds)
        old, new = (load * np.exp(rng.normal(0.0, noise, rounds)) for _ in range(2))
        made[f"case {case}"] = [
            (Seconds(a, 2 * a), Seconds(ratio * b, 3 * b)) for a, b in zip(old, new, strict=True)
        ]
    return made


def test_equal_versions_are_rarely_told_apart():
    rng = np.random.default_rng(0)
    runs = [judge_rows(synthetic(rng, 15, 12), by_cpu=True) for _ in range(60)]
    false = [any(row.verdict != "undecided" for row in rows) for rows in runs]
    assert np.mean(false) <= 0.05 + 2 * (0.05 * 0.95 / 60) ** 0.5


@pytest.mark.parametrize(("ratio", "verdict"), [(0.85, "faster"), (1.15, "slower")])
def test_a_real_difference_is_found_under_a_load_ten_times_as_large(ratio, verdict):
    rng = np.random.default_rng(1)
    rows = judge_rows(synthetic(rng, 15, 12, ratio), by_cpu=True)
    assert sum(row.verdict == verdict for row in rows) >= 14
    assert all(row.interval[0] < row.ratio < row.interval[1] for row in rows)
    inside = sum(row.interval[0] < ratio < row.interval[1] for row in rows)
    assert inside >= 12


def test_a_difference_within_the_margin_is_no_verdict_however_sure():
    rng = np.random.default_rng(2)
    for ratio in (0.985, 1.015):
        rows = judge_rows(synthetic(rng, 3, 12, ratio, noise=1e-4), by_cpu=True)
        assert all(row.p < 0.01 and row.verdict == "undecided" for row in rows)


def test_a_round_with_an_outlier_does_not_decide_and_equal_times_have_p_one():
    same = [(Seconds(1.0, 1.0), Seconds(1.0, 1.0))] * 11
    rows = judge_rows({"a": [*same, (Seconds(1.0, 1.0), Seconds(50.0, 1.0))], "b": same}, True)
    assert [row.verdict for row in rows] == ["undecided"] * 2
    assert rows[0].ratio == 1.0
    assert rows[1].p == 1.0


def test_the_clock_of_the_wall_decides_for_several_threads():
    rng = np.random.default_rng(3)
    times = synthetic(rng, 1, 12, noise=0.01)
    by_cpu, by_wall = (judge_rows(times, clock)[0] for clock in (True, False))
    assert by_cpu.verdict == "undecided"
    assert by_wall.verdict == "slower"
    assert by_cpu.other_ratio == by_wall.ratio == pytest.approx(1.5, rel=0.02)
    assert by_wall.new / by_wall.old == pytest.approx(1.5, rel=0.05)


def test_few_rounds_have_no_interval_and_no_verdict():
    pairs = [(Seconds(1.0, 1.0), Seconds(2.0 + 0.01 * k, 1.0)) for k in range(3)]
    (row,) = judge_rows({"a": pairs}, by_cpu=True)
    assert row.interval is None
    assert row.verdict == "undecided"
    assert row.ratio == pytest.approx(2.01)


def fake(folder: Path, source: str) -> Version:
    """Write an engine that is none."""
    (folder / "engine").mkdir(parents=True)
    (folder / "engine" / "__init__.py").write_text(source, encoding="utf-8")
    return Version(folder.name, folder)


def test_turns_alternate_within_and_between_rounds(monkeypatch):
    asked = []

    class Noted:
        imported = Seconds(1.0, 1.0)

        def __init__(self, version, threads):
            self.title = version.title
            asked.append(f"start {version.title}")

        def time(self, case, calls):
            asked.append(f"{self.title} {case} {calls}")
            return Seconds(0.02, 0.02)

        def close(self):
            asked.append("end")

    monkeypatch.setattr(compare, "TimingProcess", Noted)
    monkeypatch.setattr(compare, "cases", lambda quick: {"x": None})
    old, new = Version("A", Path()), Version("B", Path())
    notes = []
    rows = compare_versions(Duel(old, new, Rounds(2), 1, lambda *told: notes.append(told)))
    begin = [[f"start {v}", f"{v} {FIRST_FIT} 1", f"{v} x 1", "end"] for v in "AB"]
    first = ["start A", "start B", f"A {FIRST_FIT} 1", f"B {FIRST_FIT} 1"]
    second = ["start B", "start A", f"B {FIRST_FIT} 1", f"A {FIRST_FIT} 1"]
    turns = [["A x 3", "B x 3", "B x 3", "A x 3"], ["B x 3", "A x 3", "A x 3", "B x 3"]]
    ends = ["end", "end"]
    assert asked == [*begin[0], *begin[1], *first, *turns[0], *ends, *second, *turns[1], *ends]
    assert [row.case for row in rows] == [IMPORT, FIRST_FIT, "x"]
    assert notes[-1] == (1, 2, "x")


def test_the_command_compares_this_folder_with_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "QUICK_ROUNDS", Rounds(2, quick=True))
    monkeypatch.setattr(compare, "cases", lambda quick: {SMALL: cases(quick)[SMALL]})
    given = ["--against", str(ROOT), "--quick", "--threads", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    found = json.loads((tmp_path / "against.json").read_text(encoding="utf-8"))
    assert [row["case"] for row in found["rows"]] == [IMPORT, FIRST_FIT, SMALL]
    for row in found["rows"]:
        assert 0.1 < row["ratio"] < 10
        assert row["verdict"] == "undecided"
    assert 1e-5 < found["rows"][2]["new"] < 0.1  # a call, not a turn of many
    printed = capsys.readouterr().out
    assert "0 faster, 0 slower, 3 undecided" in printed
    assert "undecided" in (tmp_path / "against.html").read_text(encoding="utf-8")
    assert SMALL in (tmp_path / "against.md").read_text(encoding="utf-8")


def test_what_a_version_lacks_is_a_dash_and_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "cases", lambda quick: {SMALL: cases(quick)[SMALL]})
    old = fake(tmp_path / "old", "print('on the way of the answers?'); sum(range(10**7))")
    new = fake(tmp_path / "new", "")
    rows = compare_versions(Duel(old, new, Rounds(6), 1, lambda *_: None))
    assert [row.verdict for row in rows] == ["faster", None, None]
    assert rows[0].ratio < 0.5
    assert rows[2].note == (
        f"new has no '{SMALL}': ImportError: cannot import name 'Relaxation' from 'engine' "
        f"({new.folder}/engine/__init__.py)"
    )
    results = ComparisonResults("c", {}, "old", "new", 1, 6, rows)
    assert results.summary.endswith("1 faster, 0 slower, 0 undecided, 2 without a verdict.")
    page = render_html(comparison_document(results))
    assert page.count("cannot import name") == 2
    assert "Traceback" not in page


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise RuntimeError('broken\\nand more')", r"cannot be imported \(RuntimeError: broken\)"),
        ("import os; os._exit(3)", "ended in 'importing it': exit code 3"),
        ("import sys, os; print('why', file=sys.stderr); os._exit(3)", "'importing it': why"),
    ],
)
def test_an_engine_that_cannot_be_imported_is_one_sentence(source, sentence, tmp_path):
    with pytest.raises(VersionError, match=sentence):
        TimingProcess(fake(tmp_path / "bad", source), 1)


def test_no_version_is_ahead_by_bytecode_that_it_has_already(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    source = (
        "import os\n"
        "assert os.path.exists(__cached__), 'imported from source'\n"
        "assert not __cached__.startswith(os.path.dirname(__file__)), 'kept beside the source'"
    )
    TimingProcess(fake(tmp_path / "new", source), 1).close()
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_process_that_dies_in_the_middle_is_one_sentence(tmp_path):
    version = fake(tmp_path / "dying", "def __getattr__(name):\n    import os\n    os._exit(7)")
    process = TimingProcess(version, 1)
    with pytest.raises(VersionError, match=rf"of dying ended in '{SMALL}': exit code 7"):
        process.time(SMALL, 1)


def test_a_folder_without_an_engine_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--against", str(tmp_path), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "holds no engine/__init__.py" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_revision_is_unpacked_and_removed(tmp_path, monkeypatch):
    fake(tmp_path, "VERSION = 1\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    (tmp_path / "engine" / "__init__.py").write_text("VERSION = 2\n", encoding="utf-8")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    with checked_out("HEAD") as version:
        text = (version.folder / "engine" / "__init__.py").read_text(encoding="utf-8")
        assert text == "VERSION = 1\n"
        assert version.title.startswith("HEAD (")
    assert not version.folder.exists()
    for wrong in ("absent", "", "HEAD:engine", "x" * 300, "--help"):
        with pytest.raises(VersionError, match="neither a folder nor a revision"):
            checked_out(wrong).__enter__()
    for arguments in (["mv", "engine", "motor"], ["commit", "-q", "-a", "-m", "two"]):
        subprocess.run([*git, *arguments], check=True)
    with pytest.raises(VersionError, match="revision 'HEAD' has no folder engine"):
        checked_out("HEAD").__enter__()


def test_parts_and_versions_are_not_mixed(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--against", ".", "--part", "floor"])
    assert stopped.value.code == 2
    assert "give it or --part" in capsys.readouterr().err
