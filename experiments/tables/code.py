"""The fingerprint of code: it changes with what the code does, not with what it says of itself."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from engine.fingerprint import fingerprint


def code_fingerprint(patterns: Iterable[str], root: Path) -> str:
    """Return a hash of the files that match, by path; of Python without comments and docstrings."""
    files = code_files(patterns, root)
    return fingerprint({path.relative_to(root).as_posix(): _content(path) for path in files})


def _content(path: Path) -> str:
    return _read(path, path.stat().st_mtime_ns)


def code_files(patterns: Iterable[str], root: Path) -> list[Path]:
    """Return the files that match any of the patterns."""
    return sorted({p for pattern in patterns for p in root.glob(pattern) if p.is_file()})


@cache
def _read(path: Path, written: int) -> str:
    """Return what counts of a file, once for each time at which it was `written`."""
    text = path.read_text(encoding="utf-8")
    return bare(text) if path.suffix == ".py" else text


def bare(text: str) -> str:
    """Return code without comments, docstrings and empty lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in _texts(ast.parse(text)):
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _texts(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield every statement that is nothing but a constant: docstrings, of attributes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
