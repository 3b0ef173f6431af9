"""What became of a mutant, and the file that keeps it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from experiments.mutants.mutant import Mutant

Status = Literal["killed", "survived"]


@dataclass(frozen=True)
class MutantVerdict:
    """Whether the tests noticed a mutant, and which of them did.

    `source` is a hash of the mutated file. `tests` is one of the test file that killed it, or of
    all tests that it survived: a new test leaves the dead dead, and gives survivors another trial.
    """

    id: str
    status: Status
    by: str
    """The test that failed, or why there is none."""
    seconds: float
    source: str
    tests: str


def source_hash(mutant: Mutant) -> str:
    """Return a hash of the file with the fault."""
    return hashlib.sha256(f"{mutant.file}\n{mutant.mutated}".encode()).hexdigest()[:16]


def append_verdict(path: Path, verdict: MutantVerdict) -> None:
    """Add a line to the file, at once: an interrupt loses nothing that is done.

    The line begins with its break, for the last one may have been torn.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(asdict(verdict)))


def load_verdicts(path: Path) -> dict[str, MutantVerdict]:
    """Return the last verdict on each mutated file, by its hash; torn lines are passed over."""
    found: dict[str, MutantVerdict] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for line in lines:
        try:
            verdict = MutantVerdict(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[verdict.source] = verdict
    return found


def still_holds(verdict: MutantVerdict, files: Mapping[str, str], chosen: str) -> bool:
    """Whether a verdict would be the same now: `files` and `chosen` are hashes of the tests."""
    if verdict.status == "survived":
        return verdict.tests == chosen
    return verdict.tests in (files.get(verdict.by.partition("::")[0], ""), chosen)
