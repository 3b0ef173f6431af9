"""The commands: every package with a `__main__.py` is one, under the name of its folder."""

import ast
from pathlib import Path

from settle.packages import ROOT

SHORT = {"benchmark": "bench"}
"""Commands that are called by another name than that of their folder."""


def commands(root: Path = ROOT) -> dict[str, str]:
    """Return the module of every command by the name to call it, in alphabetical order."""
    folders = [path.parent for path in (root / "experiments").glob("*/__main__.py")]
    folders += [path.parent for path in (root / "golden").glob("__main__.py")]
    modules = {
        SHORT.get(folder.name, folder.name): ".".join(folder.relative_to(root).parts)
        for folder in folders
    }
    return dict(sorted(modules.items()))


def summary(module: str, root: Path = ROOT) -> str:
    """Return the first line of what a command says of itself, without importing it."""
    path = root.joinpath(*module.split("."), "__main__.py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0]
