"""The command, on tracks that take no time: what it writes, prints and returns."""

import json
import sys

import pytest

from experiments.verify import command, tracks
from experiments.verify.__main__ import main

TRACK = """
from experiments.reporting.document import Table
from experiments.verify.track import Check, TrackSize, Finding, Size, Track

def verify(size):
    {body}
    judged = Check("measured by it", {value}, "<=", 1.0, {essential})
    checks = (judged, Check("sound", 0.0, "=", 0.0))
    table = Table("Its table", ("A", "B"), (("row", "1"),))
    return Finding("What it did.", checks, (table,), ("What it does not say.",),
                   measurements={{"value": {value}, "seeds": size.seeds}})

sizes = {{TrackSize.QUICK: Size(1, 1), TrackSize.DEFAULT: Size(3, 5), TrackSize.FULL: Size(5, 10)}}
TRACK = Track({number}, "{title}", "The claim of {title}.", "things", sizes, verify)
"""


@pytest.fixture
def given_tracks(tmp_path, monkeypatch):
    """Put tracks of one's own in place of the real ones: each is one file and nothing else."""
    folder = tmp_path / "tracks"
    folder.mkdir()
    monkeypatch.setattr(tracks, "__path__", [str(folder)])
    monkeypatch.setattr(command, "compile_kernels", lambda: None)
    monkeypatch.chdir(tmp_path)
    names = []

    def put(number, title, value="0.5", essential=True, body="pass"):
        given = {"number": number, "title": title, "value": value}
        text = TRACK.format(**given, essential=essential, body=body)
        (folder / f"case_{number}.py").write_text(text)
        names.append(f"{tracks.__name__}.case_{number}")

    yield put
    for name in names:
        sys.modules.pop(name, None)


def run(*arguments):
    return main([*arguments, "--workers", "1", "--out", "out"])


def report(kind, folder):
    return (folder / "out" / f"report.{kind}").read_text(encoding="utf-8")


def test_all_passed_is_zero_and_three_files(given_tracks, tmp_path, capsys):
    given_tracks(1, "First")
    given_tracks(5, "Second")
    assert run() == 0
    content = json.loads(report("json", tmp_path))
    assert content["summary"] | {"seconds": 0} == {
        "tracks": 2, "passed": 2, "partial": 0, "failed": 0, "average_score": 100.0,
        "smoke": 0, "intermediate": 2, "full": 0, "seconds": 0,
    }  # fmt: skip
    assert [t["number"] for t in content["tracks"]] == [1, 5]
    assert content["tracks"][0]["measurements"] == {"value": 0.5, "seeds": 3}
    for kind in ("md", "html"):
        text = report(kind, tmp_path)
        for said in ("Executive summary", "The claim of First.", "What it did.", "Its table"):
            assert said in text
        for said in ("What it does not say.", "measured by it", "3 seeds, 5 things"):
            assert said in text
    printed = capsys.readouterr().out
    assert "2 tracks verified: 2 passed, 0 partial, 0 failed. Average score 100.0" in printed
    assert printed.endswith("The whole report: out/report.html\n")


def test_a_failed_claim_is_printed_as_failed_and_is_one(given_tracks, tmp_path, capsys):
    given_tracks(1, "Fine")
    given_tracks(2, "Refuted", value="1.5")
    assert run("--quick") == 1
    printed = capsys.readouterr().out
    assert "Track 2, Refuted: failed" in printed
    assert "Failed: track 2 (Refuted)." in printed
    content = json.loads(report("json", tmp_path))
    assert [track["status"] for track in content["tracks"]] == ["passed", "failed"]
    assert [track["score"] for track in content["tracks"]] == [100.0, 0.0]
    assert [track["evidence"] for track in content["tracks"]] == ["smoke", "smoke"]
    assert "does not hold" in report("html", tmp_path)


def test_a_further_check_makes_a_track_partial(given_tracks, tmp_path):
    given_tracks(3, "Half", value="1.5", essential=False)
    assert run("--full") == 0
    (track,) = json.loads(report("json", tmp_path))["tracks"]
    assert (track["status"], track["score"], track["evidence"]) == ("partial", 50.0, "full")


def test_what_is_not_a_number_fails_and_is_null(given_tracks, tmp_path):
    given_tracks(3, "Empty", value="float('nan')")
    assert run() == 1
    (track,) = json.loads(report("json", tmp_path))["tracks"]
    assert track["measurements"]["value"] is None
    assert track["status"] == "failed"


def test_a_track_that_breaks_has_failed_and_the_others_report(given_tracks, tmp_path, capsys):
    given_tracks(1, "Fine")
    given_tracks(2, "Broken", body="raise ZeroDivisionError('no data')")
    assert run() == 1
    content = json.loads(report("json", tmp_path))
    assert [track["status"] for track in content["tracks"]] == ["passed", "failed"]
    sentence = "ZeroDivisionError in case_2.py, line 6: no data"
    assert content["tracks"][1]["error"] == sentence
    assert sentence in capsys.readouterr().out
    assert sentence in report("html", tmp_path)


def test_tracks_can_be_chosen_and_the_report_says_what_is_missing(given_tracks, tmp_path):
    for number in (1, 2, 3):
        given_tracks(number, f"Name{number}")
    assert run("--track", "3", "1") == 0
    content = json.loads(report("json", tmp_path))
    assert [track["number"] for track in content["tracks"]] == [1, 3]
    assert "Tracks that were not run: 2 (Name2)." in report("md", tmp_path)
    assert "experiments.verify --track 3 1" in report("md", tmp_path)


def test_an_unknown_track_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["--track", "2", "99"])
    assert stopped.value.code == 2
    printed, errors = capsys.readouterr()
    assert "error: argument --track: there is no track '99'; known: 1, 2, 3, " in errors
    assert printed == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given", [["--track", "x"], ["--track", "0"], ["--quick", "--full"], ["--workers", "0"]]
)
def test_senseless_options_are_refused(given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    assert "error: argument" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_found_before_the_work(given_tracks, tmp_path, capsys):
    given_tracks(1, "Never", body="raise AssertionError")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith("argument --out: out is no folder\n")


def test_stopping_writes_nothing(given_tracks, tmp_path, capsys):
    given_tracks(1, "Stopped", body="raise KeyboardInterrupt")
    assert run() == 130
    assert not (tmp_path / "out").exists()
    assert capsys.readouterr().out == "Stopped. No report was written.\n"


def test_help_lists_the_tracks(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for said in ("--track", "--quick", "--full", "--out", "--workers", "29  Controls"):
        assert said in text
