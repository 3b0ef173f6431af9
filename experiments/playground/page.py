"""The page put together from its parts: style, scripts, words and numbers."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = (
    *("numbers", "network", "knobs", "relaxation", "agreement"),
    *("views", "drawing", "main"),
)
"""In the order in which they stand; a script uses only what stands above it when it starts."""


@dataclass(frozen=True)
class Words:
    """What the page says of its network."""

    about: str
    made: str


def render_page(described: Mapping[str, Any], words: Words, size: int) -> str:
    """Return the page; the browser is told to run its own script and to load nothing."""
    script = f'"use strict";\n(() => {{\n{"".join(map(_script, SCRIPTS))}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    parts = {
        "policy": escape(policy),
        "style": _part("page.css"),
        "about": escape(words.about),
        "made": escape(words.made),
        "size": str(size),
        "described": json.dumps(described, allow_nan=False).replace("<", "\\u003c"),
        "script": script,
    }
    page = _part("page.html")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    return page


def _script(name: str) -> str:
    return f"\n// {name}.js\n{_part(f'{name}.js')}"


def _part(name: str) -> str:
    return files("experiments.playground").joinpath("page", name).read_text(encoding="utf-8")
