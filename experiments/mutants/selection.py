"""Which tests concern which function: measured once by running them, and kept until they change."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.mutants.errors import MutantsError
from experiments.mutants.mutant import Mutant
from experiments.mutants.workplace import PytestRun
from experiments.records import write_text

SLOWEST_S = 2.0
"""A test that takes longer, uncompiled and traced, is left out."""
PATIENCE = 2
BUDGET_S = 20.0
"""Tests of a mutant are cut off where they would take longer than this in all, by default."""


@dataclass(frozen=True)
class Ran:
    """What one test did when nothing was wrong: its time, and the functions that it entered."""

    seconds: float
    functions: tuple[str, ...]


@dataclass
class Measured:
    """What is known of one file of tests."""

    digest: str
    collecting: tuple[str, ...] = ()
    """Functions that are entered before any test, to collect them."""
    ran: dict[str, Ran] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Every test, without parameters."""


def digest_of(paths: Iterable[Path]) -> str:
    """Return a hash of the content of files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def measure(file: str, digest: str, run: Callable[[list[str]], PytestRun]) -> Measured:
    """Run a file of tests, again and again without those that have run, until all have.

    `run` takes the tests to leave out. A test during which the process ends was too slow; when
    two cases of one have been, the others are not waited for.
    """
    known = Measured(digest)
    while True:
        done = [*known.ran, *known.slow, *known.failed, *known.skipped]
        outcome = run(done)
        pending = _note(known, outcome.events)
        if pending is None:
            if outcome.code not in (0, 1, 5):  # all passed, some failed, none left
                raise MutantsError(f"{file} cannot be collected without compilation.")
            return known
        known.slow.append(pending)
        name = pending.partition("[")[0]
        if sum(test.partition("[")[0] == name for test in known.slow) == PATIENCE:
            known.slow.append(name)


def _note(known: Measured, events: Iterable[Mapping[str, Any]]) -> str | None:
    """Add what happened; return the test that was running when the events broke off."""
    pending: str | None = None
    seconds: dict[str, float] = {}
    for event in events:
        test = event.get("test", "")
        match event["event"]:
            case "collected":
                known.names = sorted({name.partition("[")[0] for name in event["tests"]})
            case "collecting":
                known.collecting = tuple(event["functions"])
            case "start":
                pending = test
            case "end":
                pending, seconds[test] = None, event["seconds"]
            case "failed":
                known.failed[test] = event["reason"]
            case "skipped":
                known.skipped.append(test)
            case "entered":
                if test not in known.failed and test not in known.skipped:
                    known.ran[test] = Ran(seconds[test], tuple(event["functions"]))
    return pending


def concerned_tests(mutant: Mutant, files: Mapping[str, Measured], budget: float) -> dict[str, Ran]:
    """Return the tests that can notice a mutant, those that concern it most first.

    These are the tests that enter its function. A module, the body of a class and what they call
    is entered when tests are collected: then it is all tests of such a file, those first that enter
    something of the mutated file. Before all come those of the test file that mirrors the mutated
    one; of equals the quickest.
    """
    name, inside = f"{mutant.file}:{mutant.function}", f"{mutant.file}:"
    chosen: list[tuple[bool, int, float, str]] = []
    ran = {
        test: (file, found) for file, known in files.items() for test, found in known.ran.items()
    }
    for test, (file, found) in ran.items():
        if name in found.functions:
            rank = 0
        elif name in files[file].collecting:
            rank = 1 if any(function.startswith(inside) for function in found.functions) else 2
        else:
            continue
        chosen.append((not mirrors(file, mutant.file), rank, found.seconds, test))
    return _affordable({test: ran[test][1] for *_, test in sorted(chosen)}, budget)


def mirrors(test_file: str, file: str) -> bool:
    """Whether `tests/engine/compiled/test_products*.py` mirrors `engine/compiled/products.py`."""
    test, code = Path(test_file), Path(file)
    return test.parent == "tests" / code.parent and test.stem.startswith(f"test_{code.stem}")


def _affordable(tests: Mapping[str, Ran], budget: float) -> dict[str, Ran]:
    kept, total = {}, 0.0
    for test, ran in tests.items():
        total += ran.seconds
        if total > budget:
            break
        kept[test] = ran
    return kept


def save_measured(path: Path, files: Mapping[str, Measured]) -> None:
    """Write what was measured, to spare the next run the time."""
    write_text(path, json.dumps({file: asdict(known) for file, known in files.items()}))


def load_measured(path: Path) -> dict[str, Measured]:
    """Read what was measured; nothing where it is not there or cannot be read."""
    try:
        return {file: _known(entry) for file, entry in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _known(entry: Mapping[str, Any]) -> Measured:
    ran = {t: Ran(r["seconds"], tuple(r["functions"])) for t, r in entry["ran"].items()}
    return Measured(**{**entry, "ran": ran, "collecting": tuple(entry["collecting"])})
