"""Formulas of the site are MathML, which no script or network has to draw."""
# ruff: noqa: RUF001
# Signs of formulas look like letters.

import importlib.util
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("mathml", ROOT / "docs" / "site" / "mathml.py")
assert SPEC is not None
assert SPEC.loader is not None
formulas = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(formulas)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
BLOCK, INLINE = re.compile(r"\$\$(.+?)\$\$", re.DOTALL), re.compile(r"\$([^$\n]+?)\$")


def _body(tex: str, *, block: bool = False) -> str:
    """The drawing alone: no name space, no spaces, no source."""
    text = formulas.mathml(tex, block=block)
    ET.fromstring(text)
    inside = text.split("<semantics>")[1].split("<annotation")[0]
    return re.sub(r' (?:lspace|rspace|stretchy|movablelimits)="[^"]*"', "", inside)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.stem)
def test_every_formula_of_the_documents_is_read(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for tex in BLOCK.findall(text):
        ET.fromstring(formulas.mathml(tex, block=True))
    for tex in INLINE.findall(BLOCK.sub("", text)):
        ET.fromstring(formulas.mathml(tex, block=False))


@pytest.mark.parametrize(
    ("tex", "drawn"),
    [
        ("s_u^{12}", "<msubsup><mi>s</mi><mi>u</mi><mrow><mn>12</mn></mrow></msubsup>"),
        (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"\tfrac{a}{10.5}",
         "<mfrac><mrow><mi>a</mi></mrow><mrow><mn>10.5</mn></mrow></mfrac>"),
        ("W_q' s", "<msub><mrow><mi>W</mi><mo>′</mo></mrow><mi>q</mi></msub><mi>s</mi>"),
        (r"-\beta \le 1", "<mo>−</mo><mi>β</mi><mo>≤</mo><mn>1</mn>"),
        (r"\text{two words}_i", "<msub><mtext>two words</mtext><mi>i</mi></msub>"),
        (r"\left( x \right.", "<mrow><mo>(</mo><mrow><mi>x</mi></mrow></mrow>"),
        (r"\hat g", '<mover accent="true"><mi>g</mi><mo>^</mo></mover>'),
        (r"\mathcal L", "<mi>ℒ</mi>"),
    ],
)  # fmt: skip
def test_a_formula_is_drawn_as_it_is_meant(tex: str, drawn: str) -> None:
    assert _body(tex) == f"<mrow>{drawn}</mrow>"


def test_limits_stand_below_where_there_is_room() -> None:
    assert "<munder>" in _body(r"\sum_i x_i", block=True)
    assert "<munder>" not in _body(r"\sum_i x_i")


@pytest.mark.parametrize("tex", [r"\unknown", "{x", r"\frac1", r"\left( x", r"\mathcal x"])
def test_what_it_cannot_read_is_refused(tex: str) -> None:
    with pytest.raises(formulas.FormulaError, match=r"^the formula .*\.$"):
        formulas.mathml(tex, block=False)
