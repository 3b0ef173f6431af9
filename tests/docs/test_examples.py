"""The documents are true: their examples run, their diffs fit, and what they name exists."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from experiments import tree

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def _blocks(text: str, language: str) -> list[str]:
    return [dedent(body) for _, kind, body in FENCE.findall(text) if kind == language]


def _sections() -> dict[str, str]:
    """Text of every section that holds an example, under the name of its file and its heading."""
    sections = {}
    for path in DOCUMENTS:
        for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            if _blocks(section, "python"):
                sections[f"{path.name}: {section.splitlines()[0]}"] = section
    return sections


def _hunks() -> list[tuple[str, str]]:
    """Each hunk of each diff: the file it changes, and the lines it expects there."""
    hunks = []
    for path in DOCUMENTS:
        for diff in _blocks(path.read_text(encoding="utf-8"), "diff"):
            head, _, body = diff.partition("\n")
            for hunk in body.split("@@\n"):
                kept = [line[1:] for line in hunk.splitlines() if line[:1] in (" ", "-")]
                hunks.append((head.removeprefix("--- "), "\n".join(kept) + "\n"))
    return hunks


def _names(pattern: str) -> list[Any]:
    found = {name for path in DOCUMENTS for name in re.findall(pattern, path.read_text("utf-8"))}
    assert found
    return sorted(found)


@pytest.mark.parametrize("section", _sections().values(), ids=_sections())
def test_the_examples_of_a_section_run_in_order(section: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    for block in _blocks(section, "python"):
        exec(compile(block, "example", "exec"), names)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_from_its_top_to_its_end(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    for block in _blocks(page.read_text(encoding="utf-8"), "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize(("file", "expected"), _hunks())
def test_a_diff_fits_its_file_at_one_place(file: str, expected: str) -> None:
    assert (ROOT / file).read_text(encoding="utf-8").count(expected) == 1


@pytest.mark.parametrize("name", _names(r"`((?:\w+/)+\w+\.\w+)(?:::\w+)?`"))
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize(("file", "test"), _names(r"`(tests/[\w/]+\.py)::(\w+)`"))
def test_a_test_that_is_named_is_there(file: str, test: str) -> None:
    assert re.search(rf"^ *def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_tree_is_that_of_the_code() -> None:
    assert tree.PAGE.read_text(encoding="utf-8") == tree.page(), "run make tree"
