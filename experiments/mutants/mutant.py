"""A mutant: one fault in one file, with a name that stays when lines move."""

import ast
import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.mutants.operators import Edit, Source, edits_of

OPTIONS = {"njit", "dataclass", "TypeVar", "NewType", "namedtuple", "NamedTuple", "overload"}
"""Calls whose arguments say how code is built, not what it computes."""

CHECKS = {"strict", "check_finite", "overwrite_a", "clean", "maxsize"}
"""Arguments that check or spare something, and change no result."""


@dataclass(frozen=True)
class Mutant:
    """One edit of `text`, the content of `file`; `function` is the name of what holds it."""

    file: str
    function: str
    number: int
    edit: Edit
    text: str

    @property
    def id(self) -> str:
        """File, function, operator, and which of these it is: no line number."""
        return f"{self.file}:{self.function}:{self.edit.operator}:{self.number}"

    @property
    def mutated(self) -> str:
        """The content of the file with the fault."""
        return self.text[: self.edit.first] + self.edit.text + self.text[self.edit.last :]

    @property
    def change(self) -> str:
        """The lines of the fault as they were and as they are, in one line.

        The list of equivalents holds it against the id.
        """
        first = self.text.rfind("\n", 0, self.edit.first) + 1
        end = self.text.find("\n", self.edit.last)
        last = len(self.text) if end < 0 else end
        before = self.text[first:last]
        after = self.mutated[first : last + len(self.mutated) - len(self.text)]
        return f"{' '.join(before.split())} -> {' '.join(after.split())}"

    @property
    def diff(self) -> str:
        """A unified diff with three lines around the fault."""
        lines = difflib.unified_diff(
            self.text.splitlines(), self.mutated.splitlines(), self.file, self.file, lineterm=""
        )
        return "\n".join(lines)


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its syntax tree."""
    source, count = Source(text), Counter[tuple[str, str]]()
    found, seen = [], {text}
    for function, node in _walk(ast.parse(text), ()):
        for edit in edits_of(node, source):
            count[function, edit.operator] += 1
            mutant = Mutant(file, function, count[function, edit.operator], edit, text)
            if mutant.mutated not in seen:
                seen.add(mutant.mutated)
                found.append(mutant)
    return found


def _walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes that compute, each with the name of the function or class it is in."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names = (*names, node.name)
    if not _is_guard(node):
        yield ".".join(names) or "<module>", node
        for child in _children(node):
            yield from _walk(child, names)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that are executed: no annotations, decorators, or messages."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Call) and _name(node.func) in OPTIONS:
        return
    if isinstance(node, ast.Call) and _name(node.func) == "isinstance":
        yield node.args[0]
        return
    if isinstance(node, ast.keyword) and node.arg in CHECKS:
        return
    unseen: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        unseen += node.decorator_list
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        unseen += [node.returns]
    if isinstance(node, ast.arg | ast.AnnAssign):
        unseen += [node.annotation]
    if isinstance(node, ast.AnnAssign) and _name(node.annotation) == "TypeAlias":
        unseen += [node.value]
    for child in ast.iter_child_nodes(node):
        if not any(child is other for other in unseen):
            yield child


def _is_guard(node: ast.AST) -> bool:
    """Whether a node is `if __name__ == "__main__"` or `if TYPE_CHECKING`."""
    if not isinstance(node, ast.If):
        return False
    names = {_name(child) for child in ast.walk(node.test)}
    return bool(names & {"__name__", "TYPE_CHECKING"})


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
