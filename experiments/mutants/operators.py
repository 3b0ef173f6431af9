"""The faults: each operator turns one node of a syntax tree into replacements of its text."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

BOUNDARY = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
DROPPABLE = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
PARTNERS = ("min max", "floor ceil", "any all", "minimum maximum", "argmin argmax", "zeros ones")
SWAPPED = {
    name: other
    for first, second in (pair.split() for pair in PARTNERS)
    for name, other in ((first, second), (second, first))
}
SYMMETRIC = {"min", "max", "minimum", "maximum", "isinstance", "multiply", "add", "cast"}
"""Calls whose first two arguments are not swapped: it changes nothing, or only the types."""


@dataclass(frozen=True)
class Source:
    """A file as text, with the place of every node in it."""

    text: str

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends, in characters."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._place(node.lineno, node.col_offset), self._place(
            node.end_lineno, node.end_col_offset
        )

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        first, last = self.span(node)
        return self.text[first:last]

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._lines)]

    def _place(self, line: int, byte: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:byte].decode())


@dataclass(frozen=True)
class Edit:
    """Replace the characters from `first` to `last` by `text`."""

    operator: str
    first: int
    last: int
    text: str


def edits_of(node: ast.AST, source: Source) -> Iterator[Edit]:
    """Yield every fault of one node, not of those inside it, in a fixed order."""
    for kind, faults in FAULTS.items():
        if isinstance(node, kind):
            yield from faults(node, source)


def _whole(operator: str, node: ast.expr | ast.stmt, text: str, source: Source) -> Edit:
    return Edit(operator, *source.span(node), text)


def _between(operator: str, ends: tuple[int, int], old: str, new: str, source: Source) -> Edit:
    """Replace the token `old` in the gap between two operands, which may hold brackets."""
    words = r"\s+".join(re.escape(word) for word in old.split())
    found = re.search(words, source.text[slice(*ends)])
    assert found is not None, source.text[slice(*ends)]
    return Edit(operator, ends[0] + found.start(), ends[0] + found.end(), new)


def _compare(node: ast.Compare, source: Source) -> Iterator[Edit]:
    sides = [node.left, *node.comparators]
    for left, right, kind in zip(sides, sides[1:], node.ops, strict=False):
        old = COMPARISONS[type(kind)]
        ends = source.span(left)[1], source.span(right)[0]
        yield _between("compare", ends, old, BOUNDARY[old], source)


def _binary(node: ast.BinOp, source: Source) -> Iterator[Edit]:
    if any(_is_text(side) for side in (node.left, node.right)):
        return
    if type(node.op) in ARITHMETIC:
        old, new = ARITHMETIC[type(node.op)]
        ends = source.span(node.left)[1], source.span(node.right)[0]
        yield _between("arithmetic", ends, old, new, source)
    if isinstance(node.op, DROPPABLE):
        yield _whole("operand", node, f"({source.of(node.left)})", source)


def _augmented(node: ast.AugAssign, source: Source) -> Iterator[Edit]:
    if type(node.op) in ARITHMETIC and not _is_text(node.value):
        old, new = ARITHMETIC[type(node.op)]
        ends = source.span(node.target)[1], source.span(node.value)[0]
        yield _between("arithmetic", ends, f"{old}=", f"{new}=", source)
    yield _whole("statement", node, "pass", source)


def _unary(node: ast.UnaryOp, source: Source) -> Iterator[Edit]:
    if isinstance(node.op, ast.USub | ast.Not):
        yield _whole("sign", node, f"({source.of(node.operand)})", source)


def _boolean(node: ast.BoolOp, source: Source) -> Iterator[Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        ends = source.span(left)[1], source.span(right)[0]
        yield _between("boolean", ends, old, new, source)


def _constant(node: ast.Constant, source: Source) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield _whole("constant", node, str(not value), source)
    elif isinstance(value, int):
        yield _whole("constant", node, str(value + 1), source)
    elif isinstance(value, float):
        yield _whole("constant", node, repr(2 * value or 1.0), source)


def _condition(node: ast.If | ast.While | ast.IfExp, source: Source) -> Iterator[Edit]:
    """Negate the test, unless another operator does."""
    test = node.test
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    equality = isinstance(test, ast.Compare) and not isinstance(
        test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE
    )
    if not (negated or equality or isinstance(test, ast.Constant)):
        yield _whole("condition", test, f"not ({source.of(test)})", source)


def _call(node: ast.Call, source: Source) -> Iterator[Edit]:
    name, span = _called(node), source.span(node.func)
    if name in SWAPPED:
        yield Edit("partner", span[1] - len(name), span[1], SWAPPED[name])
    if name in ("abs", "fabs") and len(node.args) == 1:
        yield _whole("sign", node, f"({source.of(node.args[0])})", source)
    if name == "range":
        stop = node.args[min(1, len(node.args) - 1)]
        yield _whole("range", stop, f"{source.of(stop)} - 1", source)
    if len(node.args) > 1 and name not in SYMMETRIC:
        first, second = node.args[:2]
        texts = source.of(first), source.of(second)
        starred = any(isinstance(argument, ast.Starred) for argument in (first, second))
        if not starred and texts[0] != texts[1]:
            start, end = source.span(first)[0], source.span(second)[1]
            gap = source.text[source.span(first)[1] : source.span(second)[0]]
            yield Edit("arguments", start, end, texts[1] + gap + texts[0])


def _slice(node: ast.Slice, source: Source) -> Iterator[Edit]:
    for end in (node.lower, node.upper):
        if end is not None:
            yield Edit("slice", *source.span(end), "")


def _statement(node: ast.stmt, source: Source) -> Iterator[Edit]:
    """Leave out a statement that acts by what it does, not by the name it binds."""
    if isinstance(node, ast.Break | ast.Continue):
        other = "continue" if isinstance(node, ast.Break) else "break"
        yield _whole("statement", node, other, source)
        return
    acts = isinstance(node, ast.Raise | ast.Delete)
    acts = acts or (isinstance(node, ast.Return) and node.value is None)
    acts = acts or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    acts = acts or (
        isinstance(node, ast.Assign)
        and all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets)
    )
    if acts:
        yield _whole("statement", node, "pass", source)


def _function(node: ast.FunctionDef, source: Source) -> Iterator[Edit]:
    """Return at once from a function that returns nothing."""
    inner = [child for child in ast.walk(node) if child is not node]
    yields = any(isinstance(child, ast.Yield | ast.YieldFrom) for child in inner)
    values = any(isinstance(child, ast.Return) and child.value is not None for child in inner)
    documented = ast.get_docstring(node, clean=False) is not None
    body = node.body[1:] if documented else node.body
    if yields or values or len(body) < 2:
        return
    first, indent = source.span(body[0])[0], " " * body[0].col_offset
    yield Edit("early", first, first, f"return\n{indent}")


def _called(node: ast.Call) -> str:
    """Return the last part of the name of what is called, or nothing."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


FAULTS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Edit]]] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.AugAssign: _augmented,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Constant: _constant,
    (ast.If, ast.While, ast.IfExp): _condition,
    ast.Call: _call,
    ast.Slice: _slice,
    (ast.Break, ast.Continue, ast.Raise, ast.Delete, ast.Return, ast.Expr, ast.Assign): _statement,
    ast.FunctionDef: _function,
}
"""The faults of each kind of node."""
