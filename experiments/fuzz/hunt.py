"""One turn of the fuzzer: try a property on many examples, and shrink what fails."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

from experiments.fuzz.catalogue import THEORIES
from experiments.fuzz.profiles import PROFILES
from experiments.fuzz.strategies import Case


@dataclass(frozen=True)
class Turn:
    """What one turn saw: how many examples, with which features, and what failed."""

    name: str
    examples: int
    features: frozenset[str]
    seconds: float
    failure: "Failure | None" = None


@dataclass(frozen=True)
class Failure:
    """The smallest example on which a property does not hold, as data, and what was said."""

    name: str
    message: str
    example: dict[str, Any]


def take_turn(
    name: str, number: int, examples: int | None = None, database: Path | None = None
) -> Turn:
    """Try the property called `name` on new examples, drawn with the seed `number`.

    Examples that failed before and lie in the database are tried first.
    """
    began, count = time.perf_counter(), 0
    features: set[str] = set()
    last: list[Any] = []

    def trial(example: Any) -> None:
        nonlocal count
        count += 1
        last[:] = [example]
        if isinstance(example, Case):
            features.update(example.features())
        THEORIES[name].check(example)

    failure = None
    try:
        _search(trial, name, number, examples, database)()
    except Exception as error:  # whatever a property raises is what was looked for
        message = f"{type(error).__name__}: {error}".strip()
        failure = Failure(name, message, _as_data(last[0]) if last else {})
    seconds = time.perf_counter() - began
    return Turn(name, count, frozenset(features), seconds, failure)


def _search(
    trial: Callable[[Any], None],
    name: str,
    number: int,
    examples: int | None,
    database: Path | None,
) -> Callable[[], None]:
    """Let Hypothesis draw; the last example it tries after a failure is the smallest one."""
    kept: ExampleDatabase | None = None
    if database is not None:  # Hypothesis tells functions apart by their text, here all the same
        kept = DirectoryBasedExampleDatabase(database / name)
    profile = PROFILES["fuzz"]
    limits = settings(
        profile,
        max_examples=examples or profile.max_examples,
        database=kept,
        report_multiple_bugs=False,
    )
    seeded = seed(number)(given(THEORIES[name].examples)(trial))
    search: Callable[[], None] = limits(seeded)  # after the seed, which would drop the database
    return search


def _as_data(example: Any) -> dict[str, Any]:
    return example.as_text() if isinstance(example, Case) else dict(example)
