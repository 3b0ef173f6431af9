"""The faults that mutation testing makes: what they change, what they leave alone, their names."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from experiments.mutants.mutant import Mutant, mutants_of

ROOT = Path(__file__).parents[3]


def changes(text: str, operator: str) -> list[str]:
    found = mutants_of("a.py", dedent(text))
    return [mutant.change for mutant in found if mutant.edit.operator == operator]


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("compare", "x = a < b", ["x = a <= b"]),
        ("compare", "x = a <= (b)", ["x = a < (b)"]),
        ("compare", "x = a is  not b", ["x = a is b"]),
        ("compare", "x = a in (b)", ["x = a not in (b)"]),
        ("compare", "x = 0 < a != b", ["x = 0 <= a != b", "x = 0 < a == b"]),
        ("arithmetic", "x = (a) - (b)", ["x = (a) + (b)"]),
        ("arithmetic", "x = a // b", ["x = a * b"]),
        ("arithmetic", "x = a << b", ["x = a >> b"]),
        ("arithmetic", "x += a", ["x -= a"]),
        ("arithmetic", "x = 'a' + b", []),
        ("operand", "x = (a + b) * c", ["x = (a + b)", "x = ((a)) * c"]),
        ("sign", "x = -a", ["x = (a)"]),
        ("sign", "x = not a", ["x = (a)"]),
        ("sign", "x = np.abs(a - b)", ["x = (a - b)"]),
        ("boolean", "x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
        ("constant", "x = 0, 2.5, 0.0, True, None", [
            "x = 1, 2.5, 0.0, True, None", "x = 0, 5.0, 0.0, True, None",
            "x = 0, 2.5, 1.0, True, None", "x = 0, 2.5, 0.0, False, None",
        ]),
        ("condition", "x = a if b > c else d", ["x = a if not (b > c) else d"]),
        ("condition", "x = a if not b else d", []),
        ("condition", "x = a if b == c else d", []),
        ("partner", "x = np.max(a)", ["x = np.min(a)"]),
        ("partner", "x = min(a, b)", ["x = max(a, b)"]),
        ("range", "x = range(a, b + 1, c)", ["x = range(a, b + 1 - 1, c)"]),
        ("arguments", "x = f(a, b, c)", ["x = f(b, a, c)"]),
        ("arguments", "x = max(a, b), f(*a, b), f(a, a)", []),
        ("slice", "x = a[b:c]", ["x = a[:c]", "x = a[b:]"]),
        ("statement", "f(a)", ["pass"]),
        ("statement", "a[0] = b", ["pass"]),
        ("statement", "a = b", []),
    ],
)  # fmt: skip
def test_an_operator_makes_these_faults_and_no_other(
    operator: str, before: str, after: list[str]
) -> None:
    expected = [f"{' '.join(before.split())} -> {text}" for text in after]
    assert changes(before + "\n", operator) == expected


def test_statements_that_jump_are_turned_or_left_out() -> None:
    text = """
        def f(a):
            for b in a:
                if b:
                    continue
                break
            if a:
                return
            raise ValueError("1 + 1")
    """
    assert changes(text, "statement") == [
        "continue -> break",
        "break -> continue",
        "return -> pass",
        'raise ValueError("1 + 1") -> pass',
    ]
    assert changes(text, "early") == ["for b in a: -> return for b in a:"]


def test_what_computes_nothing_is_left_alone() -> None:
    text = """
        from typing import TYPE_CHECKING
        Name: TypeAlias = A[0] | B
        fast = njit(cache=True, fastmath=2.0)

        @dataclass(frozen=True)
        class C:
            '''Has 1 + 1.'''
            a: Literal[1]

        @njit(parallel=True)
        def f(a: Literal[1]) -> Literal[2]:
            zip(a, strict=True)
            raise ValueError(f"{1 + 1} is not {a < 2}")

        if __name__ == "__main__":
            f(1 + 1)
    """
    found = {mutant.edit.operator for mutant in mutants_of("a.py", dedent(text))}
    assert found <= {"statement", "early"}


TEXT = """
    SIZE = 1

    class C:
        SHARE = 0.5

        def f(self, a):
            return a + 1

    def g(a):
        def h(b):
            return b - 1
        return h(a) * 2
    """


def names(text: str) -> dict[str, str]:
    return {mutant.id: mutant.change for mutant in mutants_of("a.py", dedent(text))}


def test_a_mutant_is_named_after_its_function_and_stays_so_when_lines_move() -> None:
    found = names(TEXT)
    assert {name.split(":")[1] for name in found} == {"<module>", "C", "C.f", "g", "g.h"}
    assert found["a.py:g.h:arithmetic:1"] == "return b - 1 -> return b + 1"
    assert names('"""New words."""\n\n' + dedent(TEXT).replace("def g", "\n# why\ndef g")) == found


def test_another_fault_in_a_function_renames_no_fault_elsewhere() -> None:
    found, more = names(TEXT), names(TEXT.replace("a + 1", "a + 1 + 1"))
    assert {k: v for k, v in more.items() if ":C.f:" not in k} == {
        k: v for k, v in found.items() if ":C.f:" not in k
    }
    assert len(more) > len(found)


def _numbered(file: str) -> list[Mutant]:
    return mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "file", ["engine/compiled/products.py", "hw_sim/prices/bill.py", "golden/reference.py"]
)
def test_each_mutant_of_the_project_parses_is_new_and_has_one_name(file: str) -> None:
    found = _numbered(file)
    assert len({mutant.id for mutant in found}) == len(found) > 50
    assert len({mutant.mutated for mutant in found}) == len(found)
    same = ast.dump(ast.parse(found[0].text))
    for mutant in found[::10]:
        assert ast.dump(ast.parse(mutant.mutated)) != same, mutant.id


def test_a_diff_shows_the_line_with_the_fault_and_no_other() -> None:
    mutant = next(
        m for m in _numbered("engine/learning/optimizer.py") if "SGD.update:arith" in m.id
    )
    signs = [line for line in mutant.diff.splitlines() if line[0] in "+-"][2:]
    assert signs == [
        "-        velocity *= self.momentum",
        "+        velocity /= self.momentum",
    ]
