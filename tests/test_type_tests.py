"""Few places ask for the class of a coupling or a read-out: whatever does has to be listed here.

All else reads the link of a coupling and the reading of a read-out, so that a new one runs
everywhere.
"""

import ast
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path

import pytest

import engine.couplings

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "hw_sim", "adapters", "golden", "experiments")
MOST = 5

BY_DESIGN = {
    "engine/compiled/registry.py": "finds the kernels of a coupling by its exact type",
    "golden/scalar.py": "the judge has formulas of its own for every class",
    "golden/scalar_tokens.py": "the judge has formulas of its own for every class",
}
"""Files in which class is what it is about."""

LISTED = {
    (
        "experiments/fuzz/strategies.py",
        "attention_bound",
        "Attention",
    ): "its bound is a formula of its own, derived in docs/maths.md, and no link says it",
    (
        "experiments/fuzz/strategies.py",
        "attention_bound",
        "Hopfield",
    ): "as for attention: another formula",
    (
        "experiments/transformer/parts.py",
        "attentions_of",
        "Attention",
    ): "the report draws what tokens attend to, which nothing else has",
    (
        "experiments/transformer/parts.py",
        "readout_of",
        "TokenReadout",
    ): "tokens become targets, and outputs tokens, in this read-out alone",
}
"""File, function and class of every type test, with its reason."""


def _classes() -> dict[str, str]:
    """Return every coupling and read-out by name, with the file that defines it."""
    found = {}
    for module in pkgutil.iter_modules(engine.couplings.__path__, "engine.couplings."):
        for name, kind in getmembers(import_module(module.name), isclass):
            if hasattr(kind, "potential") or hasattr(kind, "nudge"):
                found[name] = f"{kind.__module__.replace('.', '/')}.py"
    return found


CLASSES = _classes()


def _type_tests(tree: ast.Module, classes: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the function and the class of every place that asks whether a thing is of a class."""
    names = {name: {name} for name in classes}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                if alias.asname and alias.name in classes:
                    names[alias.asname] = {alias.name}
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Name() | ast.Attribute() | ast.Tuple() | ast.BinOp() as value,
            ):  # another name for one class or several
                names[name] = _mentioned(value, names)
    yield from _found_in(tree, "<module>", names)


def _found_in(
    node: ast.AST, function: str, names: Mapping[str, set[str]]
) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    for asked in _asked(node):
        for name in sorted(_mentioned(asked, names)):
            yield function, name
    for child in ast.iter_child_nodes(node):
        yield from _found_in(child, function, names)


def _asked(node: ast.AST) -> list[ast.expr]:
    """Return what names the classes that a node asks for; nothing if it asks for none."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return [kinds]
        case ast.MatchClass(cls=kind):
            return [kind]
        case ast.Compare(left=left, comparators=others):  # type(x) is C, x.__class__ in (C, D)
            return [left, *others]
        case ast.Dict(keys=keys):  # a table by class
            return [key for key in keys if key is not None]
    return []


def _mentioned(node: ast.AST, names: Mapping[str, set[str]]) -> set[str]:
    """Return the classes that an expression names, be it as a text to hold a name against."""
    found: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found |= names.get(name, set())
    return found


def _all_type_tests() -> list[tuple[str, str, str]]:
    """Return file, function and class of each, but for the files that are left out."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if file in BY_DESIGN:
                continue
            outside = {name: home for name, home in CLASSES.items() if home != file}
            tests = _type_tests(ast.parse(path.read_text(encoding="utf-8")), outside)
            found += [(file, function, name) for function, name in tests]
    return found


def test_every_type_test_is_listed_with_its_reason_once() -> None:
    assert sorted(_all_type_tests()) == sorted(LISTED)
    assert all(len(reason) > 10 for reason in LISTED.values())


def test_the_list_is_short() -> None:
    assert len(LISTED) <= MOST


def test_the_classes_are_found() -> None:
    assert {"Attention", "Dense", "Bias", "Position", "TokenReadout", "SquaredError"} <= set(
        CLASSES
    )
    assert CLASSES["Position"] == "engine/couplings/tokens.py"
    assert not {"Link", "Heads", "Reading"} & set(CLASSES)


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(c, Dense)",
        "isinstance(c, Bias | Dense)",
        "isinstance(c, (int, dense.Dense))",
        "issubclass(type(c), Dense)",
        "type(c) is Dense",
        "Dense != c.__class__",
        "type(c) in {Dense, int}",
        "type(c).__name__ == 'Dense'",
        "[k for k in cs if isinstance(k, Dense)]",
        "{Dense: 1}[type(c)]",
        "match c:\n  case Dense(name=n): pass",
        "kinds = (Dense, int)\nisinstance(c, kinds)",
        "from engine import Dense as D\nisinstance(c, D)",
    ],
)
def test_a_type_test_is_seen(line: str) -> None:
    assert ("<module>", "Dense") in set(_type_tests(ast.parse(line), CLASSES))


@pytest.mark.parametrize(
    "line",
    [
        "c = Dense('W', ('a', 'b'))",
        "def f(c: Dense) -> Bias: return Bias('b', c.layers[0])",
        "isinstance(c, int)",
        "class Mine(Dense): pass",
        "networks = [Dense, Bias]\nlen(networks) == 2",
        "hasattr(c, 'link')",
    ],
)
def test_a_mere_use_is_not(line: str) -> None:
    assert list(_type_tests(ast.parse(line), CLASSES)) == []
