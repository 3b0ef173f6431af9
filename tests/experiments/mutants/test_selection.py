"""Which tests a mutant meets, in which order, and how long a verdict on it holds."""

from dataclasses import replace

import pytest

from experiments.mutants.campaign import judge
from experiments.mutants.errors import MutantsError
from experiments.mutants.inside import TIMED_OUT
from experiments.mutants.mutant import Mutant, mutants_of
from experiments.mutants.selection import Measured, Ran, concerned_tests, measure, mirrors
from experiments.mutants.verdict import MutantVerdict, append_verdict, load_verdicts, still_holds
from experiments.mutants.workplace import PytestRun

SOURCE = "SIZE = 2\n\ndef f(a):\n    return a + 1\n"
NEAR, FAR, OTHER = "tests/engine/test_a.py", "tests/engine/test_b.py", "tests/test_c.py"


def mutant(name: str) -> Mutant:
    return next(m for m in mutants_of("engine/a.py", SOURCE) if m.function == name)


def measured(tests: dict[str, Ran], collecting: tuple[str, ...] = ()) -> Measured:
    return Measured("", collecting, tests)


FILES = {
    OTHER: measured({"c1": Ran(1.0, ("engine/a.py:f",)), "c2": Ran(0.1, ())}),
    FAR: measured(
        {"b1": Ran(0.1, ("engine/b.py:g",)), "b2": Ran(0.2, ("engine/a.py:f",))},
        ("engine/a.py:<module>",),
    ),
    NEAR: measured({"a1": Ran(3.0, ("engine/a.py:f",)), "a2": Ran(2.0, ("engine/a.py:f",))}),
}


def test_tests_that_enter_the_function_meet_it_the_mirrored_file_first() -> None:
    assert list(concerned_tests(mutant("f"), FILES, 100.0)) == ["a2", "a1", "b2", "c1"]


def test_what_runs_at_import_concerns_the_whole_file_that_imports_it() -> None:
    assert list(concerned_tests(mutant("<module>"), FILES, 100.0)) == ["b2", "b1"]


def test_a_budget_cuts_off_what_concerns_a_mutant_least() -> None:
    assert list(concerned_tests(mutant("f"), FILES, 5.2)) == ["a2", "a1", "b2"]


def test_a_test_file_mirrors_by_folder_and_beginning() -> None:
    assert mirrors("tests/engine/compiled/test_products_small.py", "engine/compiled/products.py")
    assert not mirrors("tests/hw_sim/test_kernels.py", "engine/compiled/products.py")
    assert not mirrors("tests/engine/learning/test_train.py", "engine/compiled/products.py")


def events(*tests: str, ends: bool = True) -> list[dict]:
    found: list[dict] = [{"event": "collected", "tests": ["t[1]", "t[2]", "t[3]", "u"]}]
    for test in tests:
        found.append({"event": "start", "test": test})
        if ends or test != tests[-1]:
            found.append({"event": "end", "test": test, "seconds": 0.5})
            found.append({"event": "entered", "test": test, "functions": ["engine/a.py:f"]})
    return found


def test_a_test_during_which_the_process_ends_is_slow_and_the_others_go_on() -> None:
    """Two slow cases are enough to leave out the third."""
    answers = iter(
        [
            PytestRun(TIMED_OUT, events("t[1]", ends=False)),
            PytestRun(TIMED_OUT, events("t[2]", ends=False)),
            PytestRun(0, events("u")),
        ]
    )
    asked = []

    def run(skip: list[str]) -> PytestRun:
        asked.append(skip)
        return next(answers)

    known = measure(NEAR, "", run)
    assert asked == [[], ["t[1]"], ["t[1]", "t[2]", "t"]]
    assert known.ran == {"u": Ran(0.5, ("engine/a.py:f",))}
    assert known.names == ["t", "u"]


def test_a_file_that_cannot_be_collected_is_named() -> None:
    with pytest.raises(MutantsError, match=f"{NEAR} cannot be collected"):
        measure(NEAR, "", lambda skip: PytestRun(2, []))


@pytest.mark.parametrize(
    ("code", "happened", "expected"),
    [
        (0, [], ("survived", "all tests pass")),
        (5, [], ("survived", "its tests are gone")),
        (1, [("start", "t"), ("failed", "t")], ("killed", "t")),
        (TIMED_OUT, [("start", "t"), ("end", "t"), ("start", "u")], ("killed", "u")),
        (None, [("start", "t")], ("killed", "t")),
        (2, [], ("killed", "the tests cannot be collected")),
    ],
)
def test_a_mutant_is_killed_by_a_failure_a_hang_or_a_crash(
    code: int | None, happened: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    outcome = PytestRun(code, [{"event": event, "test": test} for event, test in happened])
    assert judge(outcome, tested=True) == expected
    assert judge(outcome, tested=False) == ("survived", "no test enters it")


KILLED = MutantVerdict("id", "killed", f"{NEAR}::test", 1.0, "source", "hash of near")
SURVIVED = MutantVerdict("id", "survived", "all tests pass", 1.0, "source", "hash of all")


def test_the_dead_stay_dead_while_their_killer_stays_the_same() -> None:
    assert still_holds(KILLED, {NEAR: "hash of near"}, "hash of all and more")
    assert not still_holds(KILLED, {NEAR: "changed"}, "hash of all")
    assert not still_holds(KILLED, {}, "hash of all")


def test_a_survivor_is_tried_again_when_any_of_its_tests_change() -> None:
    assert still_holds(SURVIVED, {NEAR: "changed"}, "hash of all")
    assert not still_holds(SURVIVED, {NEAR: "hash of near"}, "hash of all and more")


def test_verdicts_are_kept_by_the_mutated_source_and_a_torn_line_is_passed_over(tmp_path) -> None:
    path = tmp_path / "out/verdicts.jsonl"
    assert load_verdicts(path) == {}
    later = replace(SURVIVED, status="killed")
    for verdict in (SURVIVED, replace(KILLED, source="other"), later):
        append_verdict(path, verdict)
    with path.open("a") as file:
        file.write('\n{"id": "a", "sta')
    append_verdict(path, replace(KILLED, source="last"))
    assert load_verdicts(path) == {
        "source": later,
        "other": replace(KILLED, source="other"),
        "last": replace(KILLED, source="last"),
    }
