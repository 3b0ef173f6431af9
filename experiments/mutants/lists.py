"""The reviewed lists: equivalent mutants, and what needs the compiler. Both are checked."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.mutants.errors import MutantsError
from experiments.mutants.mutant import Mutant

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Lists:
    """Reasons of equivalents by id; tests of compiled functions; tests not run, with reasons."""

    equivalent: Mapping[str, str]
    compiled: Mapping[str, tuple[str, ...]]
    uncompiled: Mapping[str, str]

    def tests_compiled(self, mutant: Mutant) -> tuple[str, ...]:
        """Return the tests that a mutant has to be compiled for, or none."""
        name = f"{mutant.file}:{mutant.function}"
        for function, tests in self.compiled.items():
            if name == function or name.startswith(f"{function}."):
                return tests
        return ()


def load_lists(mutants: Mapping[str, Mutant], folder: Path = HERE) -> Lists:
    """Read the lists; refuse an entry that does not fit the code."""
    equivalent = {}
    for entry in _entries(folder / "equivalent.toml", "equivalent", {"id", "change", "reason"}):
        mutant = mutants.get(entry["id"])
        if mutant is None:
            raise MutantsError(f"the equivalent mutant {entry['id']} is listed but does not exist.")
        if mutant.change != entry["change"]:
            raise MutantsError(
                f"the equivalent mutant {entry['id']} is listed as '{entry['change']}' but is "
                f"'{mutant.change}': judge it again."
            )
        if not entry["reason"].strip():
            raise MutantsError(f"the equivalent mutant {entry['id']} is listed without a reason.")
        equivalent[entry["id"]] = entry["reason"]
    path, functions = folder / "compiler.toml", {f"{m.file}:{m.function}" for m in mutants.values()}
    compiled = {}
    for entry in _entries(path, "compiled", {"function", "tests"}):
        name = entry["function"]
        if not any(known == name or known.startswith(f"{name}.") for known in functions):
            raise MutantsError(f"the compiled function {name} is listed but has no mutant.")
        compiled[name] = tuple(entry["tests"])
    uncompiled = {e["test"]: e["reason"] for e in _entries(path, "uncompiled", {"test", "reason"})}
    return Lists(equivalent, compiled, uncompiled)


def check_tests(lists: Lists, known: Mapping[str, Collection[str]]) -> None:
    """Refuse a list that names a test that is not in its file; `known` has the names by file."""
    for test in lists.uncompiled:
        file = test.partition("::")[0]
        if file in known and test not in known[file]:
            raise MutantsError(f"the test {test} is listed in compiler.toml but does not exist.")


def _entries(path: Path, table: str, keys: set[str]) -> list[dict[str, Any]]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get(table, [])
    except tomllib.TOMLDecodeError as error:
        raise MutantsError(f"{path.name} is not TOML: {error}.") from None
    for entry in found:
        if set(entry) != keys:
            raise MutantsError(f"{path.name} has an entry of {sorted(entry)}, not {sorted(keys)}.")
    return list(found)
