"""Tables in pages: filled from what is stored, and any difference is found."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.tables import pages, registry
from experiments.tables.code import code_files, code_fingerprint
from experiments.tables.measurement import Measurement, PageTable
from experiments.tables.pages import OLDER, faults, fill_pages, picture_hash, rows_in_page
from experiments.tables.registry import MEASUREMENTS, TABLES
from experiments.tables.stored import FOLDER, Stored, TablesError, load_stored, save_stored

ROOT = Path(__file__).parents[3]
SPEED = Measurement("python -m speed", ("engine.py",))
TABLE = PageTable("page.md", (("speed", 2),), ("what", "time"))
PAGE = "# Page\n\nBefore.\n\n<!-- table speed -->\n<!-- end speed -->\n\nAfter.\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one page, one table and one measurement of the code that is there."""
    (tmp_path / "engine.py").write_text("STEPS = 3\n", encoding="utf-8")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(pages, "MEASUREMENTS", {"speed": SPEED})
    code = code_fingerprint(SPEED.depends, tmp_path)
    rows = (("one", "1 s"), ("two", "2 s"))
    save_stored(
        tmp_path, "speed", Stored(SPEED.command, "2026-11-19", code, False, {"cores": "2"}, rows)
    )
    return tmp_path


def test_a_filled_page_shows_rows_command_and_date(place: Path) -> None:
    assert fill_pages(place, {"speed": TABLE}) == ["page.md"]
    text = (place / "page.md").read_text(encoding="utf-8")
    assert text == (
        "# Page\n\nBefore.\n\n<!-- table speed -->\n\n"
        "| what | time |\n|---|---:|\n| one | 1 s |\n| two | 2 s |\n\n"
        "*Measured by `python -m speed` (2026-11-19).*\n\n"
        "<!-- end speed -->\n\nAfter.\n"
    )
    assert faults(place, {"speed": TABLE}) == []
    assert fill_pages(place, {"speed": TABLE}) == []
    assert rows_in_page(place, "speed", TABLE, "speed") == (("one", "1 s"), ("two", "2 s"))


def test_a_number_that_is_changed_by_hand_is_found(place: Path) -> None:
    fill_pages(place, {"speed": TABLE})
    page = place / "page.md"
    page.write_text(page.read_text(encoding="utf-8").replace("2 s", "1.5 s"), encoding="utf-8")
    (sentence,) = faults(place, {"speed": TABLE})
    assert sentence.startswith("page.md: table speed is not what is stored")


def test_results_of_earlier_code_have_to_be_marked(place: Path) -> None:
    fill_pages(place, {"speed": TABLE})
    (place / "engine.py").write_text("STEPS = 4\n", encoding="utf-8")
    (sentence,) = faults(place, {"speed": TABLE})
    assert "table speed is older than the code that speed depends on, and not marked" in sentence
    fill_pages(place, {"speed": TABLE})
    assert f"(2026-11-19, {OLDER}).*" in (place / "page.md").read_text(encoding="utf-8")
    assert faults(place, {"speed": TABLE}) == []


def test_another_command_or_no_fingerprint_counts_as_earlier_code(place: Path) -> None:
    stored = load_stored(place, "speed")
    assert not stored.is_older(SPEED, place)
    assert replace(stored, code=None).is_older(SPEED, place)
    assert stored.is_older(replace(SPEED, command="python -m speed --quick"), place)


def test_a_list_has_the_words_of_its_line(place: Path) -> None:
    listed = replace(TABLE, header=(), line="{0} takes {1}")
    fill_pages(place, {"speed": listed})
    assert "\n- one takes 1 s\n- two takes 2 s\n" in (place / "page.md").read_text("utf-8")


def test_a_picture_that_is_exchanged_is_found(place: Path) -> None:
    picture = place / "plot.png"
    picture.write_bytes(b"first")
    stored = replace(load_stored(place, "speed"), rows=(("plot.png", picture_hash(picture)),))
    save_stored(place, "speed", stored)
    table = PageTable("page.md", (("speed", 1),), ("How fast",), picture="plot.png")
    fill_pages(place, {"speed": table})
    assert "\n![How fast](plot.png)\n" in (place / "page.md").read_text(encoding="utf-8")
    assert faults(place, {"speed": table}) == []
    (place / "docs" / "page.md").write_text(PAGE, encoding="utf-8")
    fill_pages(place, {"speed": replace(table, page="docs/page.md")})
    assert "\n![How fast](../plot.png)\n" in (place / "docs" / "page.md").read_text("utf-8")
    picture.write_bytes(b"second")
    assert faults(place, {"speed": table}) == [
        "page.md: plot.png is not the picture that is stored as speed."
    ]


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("no markers", "page.md has not one '<!-- table speed -->'"),
        ("<!-- end speed --><!-- table speed -->", "page.md has not one"),
        (PAGE + PAGE, "page.md has not one"),
    ],
)
def test_a_page_without_its_markers_is_one_sentence(place: Path, page: str, said: str) -> None:
    (place / "page.md").write_text(page, encoding="utf-8")
    (sentence,) = faults(place, {"speed": TABLE})
    assert sentence.startswith(said)
    with pytest.raises(TablesError, match="has not one"):
        fill_pages(place, {"speed": TABLE})


def test_what_is_not_stored_or_damaged_is_one_sentence(place: Path) -> None:
    path = place / FOLDER / "speed.json"
    for text, said in (("{", "is no stored result"), ('{"rows": []}', "is no stored result")):
        path.write_text(text, encoding="utf-8")
        (sentence,) = faults(place, {"speed": TABLE})
        assert said in sentence
    path.unlink()
    (sentence,) = faults(place, {"speed": TABLE})
    assert sentence.startswith("nothing is stored of speed: run")
    (place / "page.md").unlink()
    with pytest.raises(TablesError, match="tables are written in a checkout of Settle"):
        fill_pages(place, {"speed": TABLE})


def test_rows_that_are_missing_are_found(place: Path) -> None:
    longer = replace(TABLE, parts=(("speed", 3),))
    (sentence,) = faults(place, {"speed": longer})
    assert sentence == "speed has 2 stored rows, the table expects 3."
    fill_pages(place, {"speed": TABLE})
    with pytest.raises(TablesError, match=r"table speed of page\.md has 2 rows, expected 3"):
        rows_in_page(place, "speed", longer, "speed")


def test_the_pages_of_this_checkout_show_what_is_stored() -> None:
    assert faults(ROOT) == []


def test_stored_results_have_owners_and_name_no_place_of_a_machine() -> None:
    files = {path.stem: path.read_text("utf-8") for path in (ROOT / FOLDER).glob("*.json")}
    assert set(files) == set(MEASUREMENTS)
    for name, text in files.items():
        assert set(json.loads(text)) == set(Stored.__dataclass_fields__), name
        assert not re.search(r"[\"\s](/\w+){2}", text), name  # an absolute path


def test_every_measurement_is_shown_and_depends_on_code_that_is_there() -> None:
    shown = {part for table in TABLES.values() for part, _ in table.parts}
    assert shown == set(MEASUREMENTS)
    for measurement in MEASUREMENTS.values():
        for pattern in measurement.depends:
            assert list(ROOT.glob(pattern)), pattern
        files = code_files(measurement.depends, ROOT)
        assert not [path for path in files if "__pycache__" in path.parts]
    for table in registry.TABLES.values():
        assert table.header or table.line
