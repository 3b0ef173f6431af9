"""The site of the documents, which `make docs` builds: pages, tutorials and the reference."""

import re
from importlib.metadata import version as version_of
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

project = "Settle"
author = "the Settle developers"
release = version = version_of("settle")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
html_math_renderer = "mathml"
PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
root_doc = "index"
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"Settle {release}"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
default_role = "code"  # docstrings mark code with single backticks
suppress_warnings = ["misc.highlighting_failure"]  # a table of numbers has no colours

copybutton_exclude = ".linenos, .gp, .go"


def _stay_on_the_site(app: Any, page: str, text: list[str]) -> None:
    """Let what points to the README, which is not a page here, point to the first page."""
    text[0] = text[0].replace("](../README.md)", "](index.md)")


def _formulas_as_code(
    app: Any, kind: str, name: str, it: Any, options: Any, lines: list[str]
) -> None:
    """Show the indented formulas of a docstring as they stand."""
    shown: list[str] = []
    for k, line in enumerate(lines):
        starts = line.startswith("    ") and not (k and lines[k - 1].startswith("    "))
        if starts and k and not lines[k - 1].strip():
            shown += ["::", ""]
        shown.append(line)
    lines[:] = shown


def _formula(writer: Any, node: Any) -> None:
    """Write a formula as MathML: a page of the site needs no script and no network."""
    block = node.tagname == "math_block"
    text = convert(node.astext(), display="block" if block else "inline")
    # Most fonts have a prime that is raised already, and as an exponent it would be once more.
    text = PRIMED.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', text)
    writer.body.append(
        f'<div class="math" style="overflow: auto hidden">{text}</div>' if block else text
    )
    raise SkipNode


def setup(app: Any) -> None:
    """Register what changes docstrings."""
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
    app.connect("source-read", _stay_on_the_site)
    app.connect("autodoc-process-docstring", _formulas_as_code)
