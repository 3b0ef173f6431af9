"""The properties by name and sentence, read from their files: to import them takes seconds."""

import ast
from pathlib import Path

from experiments.source import literal, parsed


def sentences(folder: Path = Path(__file__).parent) -> dict[str, str]:
    """Return the sentence of every property by its name; `catalogue` has the properties."""
    return {
        function.name: str(literal(decorator.args[0]))
        for path in sorted(folder.glob("*.py"))
        for function in parsed(path).body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", None) == "theory"
    }
