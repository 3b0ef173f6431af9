"""Formulas of the site are MathML, which no script or network has to draw."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from latex2mathml.converter import convert

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
BLOCK, INLINE = re.compile(r"\$\$(.+?)\$\$", re.DOTALL), re.compile(r"\$([^$\n]+?)\$")
ALLOWED = re.compile(r"[^\\{}&]*|[{}]")
"""What may be drawn: a command that is not known would be drawn as it is written."""


def _formulas(page: Path) -> list[str]:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return BLOCK.findall(text) + INLINE.findall(BLOCK.sub("", text))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.stem)
def test_every_formula_of_the_documents_is_read(page: Path) -> None:
    for tex in _formulas(page):
        for sign in ET.fromstring(convert(tex)).iter():
            assert ALLOWED.fullmatch((sign.text or "").strip()), tex


def test_a_command_that_is_not_known_is_seen() -> None:
    drawn = [sign.text or "" for sign in ET.fromstring(convert(r"\unheardof x")).iter()]
    assert not all(ALLOWED.fullmatch(text) for text in drawn)
