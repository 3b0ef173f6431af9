"""The reference is whole: what users set has words, and every page is in the contents."""

import ast
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from textwrap import dedent

import pytest

import engine
from adapters import sklearn_estimator

PAGES = Path(__file__).parents[2] / "docs"
ENDS = {"name", "layer", "source", "target"}
"""Of a coupling, a layer or a read-out: what each of them is stands in `Coupling`, once."""
PUBLIC = [getattr(engine, name) for name in engine.__all__]
RECORDS = [it for it in PUBLIC if inspect.isclass(it) and is_dataclass(it)]


def _documented(record: type) -> set[str]:
    """Fields that a string follows, here or in a class that it inherits from."""
    found: set[str] = set()
    for kind in record.__mro__:
        if not is_dataclass(kind):
            continue
        (body,) = ast.parse(dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if said and isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                found.add(field.target.id)
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_public_record_is_explained(record: type) -> None:
    told, text = _documented(record), inspect.getdoc(record) or ""
    silent = [
        field.name
        for field in fields(record)
        if field.name not in told | ENDS and f"`{field.name}`" not in text
    ]
    assert not silent


@pytest.mark.parametrize("name", engine.__all__)
def test_everything_public_has_a_docstring(name: str) -> None:
    assert (inspect.getdoc(getattr(engine, name)) or "").strip()


def test_the_estimators_explain_the_settings_that_scikit_learn_does_not_know() -> None:
    text = inspect.getdoc(sklearn_estimator.EqPropClassifier) or ""
    for name in ("free_steps", "nudged_steps", "tolerance", "cap", "beta", "channels"):
        assert f"`{name}`" in text


def test_the_reference_has_all_that_is_public() -> None:
    page = (PAGES / "api" / "engine.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(engine.__all__)


def test_every_page_is_in_the_contents_of_the_site() -> None:
    listed = (PAGES / "index.md").read_text(encoding="utf-8").split()
    pages = {str(path.relative_to(PAGES).with_suffix("")) for path in PAGES.rglob("*.md")}
    assert pages - {"index"} <= set(listed)


@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_with_contents_lists_all_of_its_sections(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    listed = re.findall(r"^- \[([^\]]+)\]\(#", text.partition("\n## ")[0], re.MULTILINE)
    assert listed in ([], sections)
