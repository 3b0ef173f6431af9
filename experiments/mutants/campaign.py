"""Measure the tests, then try mutant after mutant on several copies of the tree at once."""

import hashlib
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

from experiments.mutants.errors import MutantsError
from experiments.mutants.inside import TIMED_OUT
from experiments.mutants.lists import Lists, check_tests
from experiments.mutants.mutant import Mutant
from experiments.mutants.selection import (
    BUDGET_S,
    SLOWEST_S,
    Measured,
    concerned_tests,
    digest_of,
    load_measured,
    measure,
    mirrors,
    save_measured,
)
from experiments.mutants.verdict import MutantVerdict, Status, source_hash, still_holds
from experiments.mutants.workplace import FOLDERS, PytestRun, Workplace

Task = TypeVar("Task")
Result = TypeVar("Result")
Place: TypeAlias = Callable[[bool], Workplace]
"""Gives the workplace of a thread, compiled or not."""

TESTS = (
    "tests/test_conformance*.py",
    "tests/engine/**/test_*.py",
    "tests/golden/test_*.py",
    "tests/hw_sim/**/test_*.py",
    "tests/experiments/test_statistics.py",
)
FORMAT = 2
"""Of what is measured: another number measures all anew."""
SPARE_S = 5.0
"""A mutant may take so much longer than ten times what the test takes; then it hangs."""
NO_TESTS = 5
"""Exit code of pytest that found none."""
COMPILED_S = 240.0
"""Time for a test that has to compile first."""


class Staff:
    """Copies of the tree with their servers; `compiled` ones are made when one is needed."""

    def __init__(self, root: Path, workers: int) -> None:
        self._root, self._workers = root, workers
        self.warm_with: Sequence[str] = ()
        """Files of tests that every new copy collects once."""
        self._idle: queue.SimpleQueue[dict[bool, Workplace]] = queue.SimpleQueue()
        self._all: list[Workplace] = []
        for _ in range(workers):
            self._idle.put({})

    def each(
        self, work: Callable[[Place, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """Yield what `work` makes of each task, as it is done; `work` asks for its workplace."""
        pending: set[Future[Result]] = set()
        rest = iter(tasks)
        with ThreadPoolExecutor(self._workers) as threads:
            try:
                while True:
                    for task in rest:
                        pending.add(threads.submit(self._do, work, task))
                        if len(pending) >= self._workers:
                            break
                    if not pending:
                        return
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                if pending:  # stopped in the middle
                    self.close()

    def _do(self, work: Callable[[Place, Task], Result], task: Task) -> Result:
        places = self._idle.get()

        def place(compiled: bool) -> Workplace:
            if compiled not in places:
                places[compiled] = Workplace(self._root, compiled)
                self._all.append(places[compiled])
                places[compiled].warm(self.warm_with)
            return places[compiled]

        try:
            return work(place, task)
        finally:
            self._idle.put(places)

    def close(self) -> None:
        """Close all copies."""
        while self._all:
            self._all.pop().close()


@dataclass
class Campaign:
    """A tree, its lists, and what is known of its tests."""

    root: Path
    out: Path
    lists: Lists
    staff: Staff
    patterns: Sequence[str] = TESTS
    """Where the tests are."""
    budget: float = BUDGET_S
    """Seconds of tests for one mutant."""

    @cached_property
    def test_files(self) -> dict[str, str]:
        """Every file of tests, with a hash of it and of the helpers beside it."""
        helpers = {p for p in (self.root / "tests").rglob("*.py") if "test_" not in p.name}
        paths = (path for pattern in self.patterns for path in sorted(self.root.glob(pattern)))
        return {
            path.relative_to(self.root).as_posix(): digest_of({path, *helpers}) for path in paths
        }

    def learn(self, say: Callable[[str], None]) -> dict[str, Measured]:
        """Run all tests on the code as it is, where that is not known; refuse if one fails."""
        cache = self.out / "tests.json"
        code = digest_of(path for name in FOLDERS[:-1] for path in (self.root / name).rglob("*.py"))
        digests = {file: f"{FORMAT}-{code}-{digest}" for file, digest in self.test_files.items()}
        kept = load_measured(cache)
        known = {f: kept[f] for f, d in digests.items() if f in kept and kept[f].digest == d}
        missing = [file for file in digests if file not in known]
        for file, found in self.staff.each(self._measure, [(f, digests[f]) for f in missing]):
            known[file] = found
            if not found.failed:
                kept[file] = found
                save_measured(cache, kept)
            left = f", {len(found.slow)} left out as slow" if found.slow else ""
            say(f"{file}: {len(found.ran)} tests{left}")
        self.staff.warm_with = list(digests)
        self._check(known)
        check_tests(self.lists, {file: known[file].names for file in digests})
        return {file: known[file] for file in digests}

    def _measure(self, place: Place, task: tuple[str, str]) -> tuple[str, Measured]:
        file, digest = task
        omitted = [test for test in self.lists.uncompiled if test.startswith(f"{file}::")]

        def run(skip: Sequence[str]) -> PytestRun:
            return place(False).measure(file, SLOWEST_S, [*omitted, *skip])

        return file, measure(file, digest, run)

    def _check(self, known: Mapping[str, Measured]) -> None:
        failed = {t: why for file in known.values() for t, why in file.failed.items()}
        if failed:
            first, why = next(iter(failed.items()))
            raise MutantsError(
                f"{len(failed)} tests fail on the code as it is, run without compilation; the "
                f"first is {first} ({' '.join(why.split())[-120:]}). Mend them, or list them in "
                "experiments/mutants/compiler.toml."
            )
        if not any(file.ran for file in known.values()):
            raise MutantsError("no test was found that runs without compilation.")

    def check_compiled(self, mutants: Sequence[Mutant]) -> None:
        """Run the tests of compiled functions on the code as it is; refuse if one fails."""
        tests = {test for m in mutants for test in self.lists.tests_compiled(m)}

        def run(place: Place, test: str) -> tuple[str, PytestRun]:
            return test, place(True).run({test: COMPILED_S})

        for test, outcome in self.staff.each(run, sorted(tests)):
            if outcome.code != 0:
                raise MutantsError(f"{test} fails on the code as it is, compiled.")

    def chosen(self, mutant: Mutant, known: Mapping[str, Measured]) -> dict[str, float]:
        """Return the tests of a mutant, each with the time it may take."""
        compiled = self.lists.tests_compiled(mutant)
        if compiled:
            return dict.fromkeys(compiled, COMPILED_S)
        tests = concerned_tests(mutant, known, self.budget)
        return {test: SPARE_S + 10.0 * ran.seconds for test, ran in tests.items()}

    @staticmethod
    def _parts(mutant: Mutant, tests: Mapping[str, float]) -> list[dict[str, float]]:
        """Cut off the tests that mirror the file: most need no other, and collecting takes time."""
        near = {t: s for t, s in tests.items() if mirrors(t.partition("::")[0], mutant.file)}
        return [part for part in (near, {t: tests[t] for t in tests if t not in near}) if part]

    def hash_of(self, tests: Iterable[str]) -> str:
        """Return a hash of tests: their names, and the content of their files."""
        names = sorted(tests)
        files = sorted({name.partition("::")[0] for name in names})
        return _hash([*names, *(self.test_files.get(file, "") for file in files)])

    def holds(self, verdict: MutantVerdict, tests: Iterable[str]) -> bool:
        """Whether a verdict from another time still holds."""
        return still_holds(verdict, self.test_files, self.hash_of(tests))

    def attempt(self, place: Place, task: tuple[Mutant, Mapping[str, float]]) -> MutantVerdict:
        """Run the tests of a mutant to the first that fails."""
        mutant, tests = task
        started = time.monotonic()
        status, by = judge(PytestRun(0, []), tested=False)
        for part in self._parts(mutant, tests):
            outcome = place(bool(self.lists.tests_compiled(mutant))).run(part, mutant)
            status, by = judge(outcome, tested=True)
            if status == "killed":
                break
        file = by.partition("::")[0]
        against = self.test_files.get(file) or self.hash_of(tests)
        seconds = round(time.monotonic() - started, 2)
        return MutantVerdict(mutant.id, status, by, seconds, source_hash(mutant), against)


def judge(outcome: PytestRun, tested: bool) -> tuple[Status, str]:
    """Say whether the tests noticed, and which did."""
    if not tested:
        return "survived", "no test enters it"
    if outcome.code == NO_TESTS:
        return "survived", "its tests are gone"
    if outcome.code == 0:
        return "survived", "all tests pass"
    failed = [event["test"] for event in outcome.events if event["event"] == "failed"]
    started = [event["test"] for event in outcome.events if event["event"] == "start"]
    if failed:
        return "killed", failed[0]
    if outcome.code in (TIMED_OUT, None) and started:
        return "killed", started[-1]
    return "killed", "the tests cannot be collected"


def _hash(parts: Iterable[str]) -> str:
    """Return a short hash of several strings."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
