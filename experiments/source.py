"""What a file of code says of itself, read without importing it: an import may take seconds."""

import ast
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring; empty if it has none."""
    return (ast.get_docstring(parsed(path)) or "").split("\n")[0]


def literal(node: ast.expr) -> object:
    """Return what an expression is, where it is written out; `None` where it is computed."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
