"""What a file of code says of itself, read without importing it: an import may take seconds."""

import ast
from pathlib import Path


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring; empty if it has none."""
    return (ast.get_docstring(parsed(path)) or "").split("\n")[0]


def field_names(path: Path, owner: str) -> list[str]:
    """Return the fields of a dataclass, in the order in which its file declares them."""
    (found,) = (n for n in parsed(path).body if isinstance(n, ast.ClassDef) and n.name == owner)
    places = [node.target for node in found.body if isinstance(node, ast.AnnAssign)]
    return [place.id for place in places if isinstance(place, ast.Name)]


def literal(node: ast.expr) -> object:
    """Return what an expression is, where it is written out; `None` where it is computed."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
