"""The command: it measures, takes, enters, fills and checks, in a checkout of its own."""

import argparse
import os
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from experiments.tables import command, pages
from experiments.tables.__main__ import main
from experiments.tables.measurement import Measurement, PageTable, picture_table
from experiments.tables.pages import OLDER, picture_hash
from experiments.tables.readers.catalogue import READERS
from experiments.tables.stored import load_stored

PAGE = "<!-- table speed -->\n\n| what | time |\n|---|---:|\n| one | 7 s |\n\n<!-- end speed -->\n"
WRITER = """
import sys
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "time").write_text("1 s")
(folder / "plot.png").write_text("drawn")
sys.exit(int(sys.argv[1]))
"""


def _time(folder: Path, *_: object) -> tuple[tuple[str, ...], ...]:
    (found,) = folder.rglob("time")
    return (("one", found.read_text(encoding="utf-8")),)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one page, and commands that write a time."""
    (tmp_path / "engine.py").write_text("STEPS = 3\n", encoding="utf-8")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "speed.py").write_text(WRITER, encoding="utf-8")
    known = {
        "speed": Measurement("python -m speed 1", ("engine.py",), "time"),
        "broken": Measurement("python -m speed 2", ("engine.py",), "time"),
        "noted": Measurement("python -m speed 0", ("engine.py",)),
    }
    tables = {"speed": PageTable("page.md", (("speed", 1),), ("what", "time"))}
    for module in (command, pages):
        monkeypatch.setattr(module, "MEASUREMENTS", known)
        monkeypatch.setattr(module, "TABLES", tables)
    monkeypatch.setattr(command, "fill_pages", lambda root: pages.fill_pages(root, tables))
    monkeypatch.setattr(command, "faults", lambda root: pages.faults(root, tables))
    monkeypatch.setitem(READERS, "time", _time)
    return tmp_path


def run(place: Path, *names: str, **given: object) -> int:
    options = {"list": False, "check": False, "fill": False, "taken": None, "enter": False}
    options |= {"date": None, "names": list(names)} | given
    return command.run(argparse.Namespace(**options), place)


def test_a_measurement_is_run_stored_and_written(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "speed") == 0  # it ends with 1: a goal was missed
    stored = load_stored(place, "speed")
    assert (stored.command, stored.rows, stored.by_hand) == (
        "python -m speed 1",
        (("one", "1 s"),),
        False,
    )
    assert stored.code is not None
    assert "python" in stored.machine
    text = (place / "page.md").read_text(encoding="utf-8")
    assert "| one | 1 s |" in text
    assert OLDER not in text
    assert run(place, check=True) == 0
    assert run(place, list=True) == 0
    assert "this code)" in capfd.readouterr().out
    (place / "page.md").write_text(text.replace("1 s", "2 s"), encoding="utf-8")
    assert run(place, check=True) == 1
    assert run(place, fill=True) == 0
    assert run(place, check=True) == 0


def test_a_command_that_fails_stores_nothing(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "broken") == 2
    assert "the command of broken ended with exit code 2" in capfd.readouterr().out
    assert (place / "page.md").read_text(encoding="utf-8") == PAGE
    assert not (place / "docs").exists()


def test_one_run_is_read_for_its_rows_and_for_its_picture(place: Path) -> None:
    drawn = Measurement("python -m speed 1", ("engine.py",), picture="plot.png")
    command.MEASUREMENTS["drawn"] = drawn
    command.TABLES["drawn"] = picture_table("page.md", "drawn", "How fast", "speed.png")
    (place / "page.md").write_text(f"{PAGE}<!-- table drawn --><!-- end drawn -->", "utf-8")
    (place / "docs" / "images").mkdir(parents=True)
    assert run(place, "speed") == 0
    picture = place / "docs" / "images" / "speed.png"
    assert load_stored(place, "drawn").rows == (("docs/images/speed.png", picture_hash(picture)),)
    assert picture.read_text(encoding="utf-8") == "drawn"
    assert "![How fast](docs/images/speed.png)" in (place / "page.md").read_text(encoding="utf-8")
    picture.write_text("by another hand", encoding="utf-8")
    assert run(place, check=True) == 1


def test_commands_that_come_first_are_run_and_told(place: Path) -> None:
    (place / "prepare.py").write_text("open('ready', 'w').close()", encoding="utf-8")
    (place / "speed.py").write_text(f"open('ready').close()\n{WRITER}", encoding="utf-8")
    alone = command.MEASUREMENTS["speed"]
    command.MEASUREMENTS["speed"] = replace(alone, first=("python -m prepare",), out="inner")
    assert run(place, "speed") == 0
    assert load_stored(place, "speed").command == "python -m prepare && python -m speed 1"
    assert (place / "results" / "tables" / "speed" / "inner" / "time").is_file()


def test_runs_of_earlier_code_are_not_gone_on_with(place: Path) -> None:
    run_before = place / "results" / "tables" / "speed" / "runs" / "before.json"
    assert run(place, "speed") == 0
    run_before.parent.mkdir()
    run_before.touch()
    assert run(place, "speed") == 0
    assert run_before.is_file()
    (place / "engine.py").write_text("STEPS = 4\n", encoding="utf-8")
    assert run(place, "speed") == 0
    assert not run_before.exists()


def test_what_has_no_reader_says_what_to_do(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(place, "noted") == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "noted has no reader: run `python -m speed 0`, enter its rows" in said


@pytest.mark.parametrize(("later", "older"), [(False, False), (True, True)])
def test_output_that_is_taken_is_as_old_as_its_first_file(
    place: Path, later: bool, older: bool
) -> None:
    folder = place / "out"
    folder.mkdir()
    (folder / "time").write_text("3 s", encoding="utf-8")
    at = (folder / "time").stat().st_mtime + (10 if later else -10)
    os.utime(place / "engine.py", (at, at))
    assert run(place, "speed", taken=folder) == 0
    assert (load_stored(place, "speed").code is None) is older
    assert (OLDER in (place / "page.md").read_text(encoding="utf-8")) is older
    assert run(place, check=True) == 0


def test_rows_of_a_page_are_stored_as_entered_by_hand(place: Path) -> None:
    assert run(place, "speed", enter=True, date=date(2026, 11, 16)) == 0
    stored = load_stored(place, "speed")
    assert (stored.rows, stored.by_hand, stored.code) == ((("one", "7 s"),), True, None)
    assert run(place, fill=True) == 0
    text = (place / "page.md").read_text(encoding="utf-8")
    assert f"(2026-11-16, {OLDER}, entered by hand)" in text
    assert run(place, "speed", enter=True) == 0
    assert load_stored(place, "speed").code is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["sped"], "did you mean speed?"),
        (["--date", "today"], "'today' is no day such as 2026-11-18"),
        (["--check", "--fill"], "not allowed with"),
    ],
)
def test_a_typo_is_one_sentence(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_one_folder_is_of_one_measurement(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(place, "speed", "noted", taken=place) == 2
    assert "one measurement is expected, not 2" in capfd.readouterr().out
    (place / "empty").mkdir()
    assert run(place, "speed", taken=place / "empty") == 2
    assert "holds no output of `python -m speed 1`" in capfd.readouterr().out
