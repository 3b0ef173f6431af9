"""A saved report is compared, and anything else is refused in one sentence, whatever it holds."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.hardware.__main__ import main
from experiments.hardware.compare import compare_reports, priced_table
from experiments.hardware.report_files import FORMAT
from experiments.reporting.number_text import NONE

RANGE = {"nominal": 2.0, "low": 1.0, "high": 3.0}
CONTEST = {
    "substrate": "digital", "technology": "digital_45nm", "rival": "backprop", "energy_j": RANGE,
    "ratio": RANGE, "inference_energy_j": RANGE, "latency_s": RANGE,
}  # fmt: skip
RUN = {"learner": "eqprop", "substrate": "digital", "seed": 42, "accuracy": 0.5}
REPORT = {"format": FORMAT, "priced": [["Task", "Digits"]], "runs": [RUN], "contests": [CONTEST]}


def compare(path: Path, text: str) -> tuple[int, str]:
    """Run the command on a report and a text."""
    good, odd = path / "good.json", path / "odd.json"
    good.write_text(json.dumps(REPORT), encoding="utf-8")
    odd.write_text(text, encoding="utf-8")
    with redirect_stdout(io.StringIO()) as printed:
        code = main(["--compare", str(good), str(odd), "--out", str(path / "out")])
    return code, printed.getvalue()


def check_refusal(path: Path, code: int, printed: str) -> None:
    assert code == 2
    assert printed.startswith(f"Error: {path / 'odd.json'} ")
    assert printed.endswith(".\n")
    assert printed[:-1].isprintable()
    assert len(printed) < len(str(path)) + 300


def test_every_measure_is_compared(tmp_path: Path) -> None:
    other = json.loads(json.dumps(REPORT).replace("2.0", "3.0"))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(REPORT))
    second.write_text(json.dumps(other))
    priced, measures, plain = compare_reports(first, second)
    assert priced.rows == (("nothing", NONE, NONE),)
    assert priced.caption == "The same in both: Task."
    rows = measures.rows
    ratios = {row[1]: row[-1] for row in rows}
    assert ratios == {
        "test accuracy, seed 42": "1", "training energy": "1.5",
        "training energy over backprop, feed-forward": "1.5",
        "inference energy": "1.5", "training time": "1.5",
    }  # fmt: skip
    assert rows[0][:3] == ("EqProp on digital", "test accuracy, seed 42", "50.00 %")
    assert rows[1][2:4] == ("2 J", "3 J")
    assert plain.rows[0][2] == "0.5"
    assert plain.rows[1][1:4] == ("training energy, J", "2", "3")


def test_what_was_priced_differently_is_said_item_by_item() -> None:
    first = {"Task": "Digits", "Chip digital": "weight_bits 12, state_bits 10, table_bits 12"}
    second = {"Chip digital": "weight_bits 8, state_bits 10, table_bits 9", "Seeds": "3"}
    assert priced_table(first, second).rows == (
        ("Task", "Digits", NONE),
        ("Chip digital", "weight_bits 12,\ntable_bits 12", "weight_bits 8,\ntable_bits 9"),
        ("Seeds", NONE, "3"),
    )


def test_a_number_that_was_not_finite_when_it_was_saved_is_left_open(tmp_path: Path) -> None:
    code, printed = compare(tmp_path, json.dumps(REPORT).replace("2.0", "null"))
    assert code == 0
    assert "nan" not in printed
    # In place of the value and of its ratio; and two where nothing differs.
    assert printed.count(NONE) == 2 * 4 + 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("", "cannot be read as a report: Expecting value"),
        ("9" * 5000, "cannot be read as a report: Exceeds the limit"),
        ("[]", "its format is not"),
        ('{"format": []}', "its format is not"),
        (json.dumps({"format": FORMAT}), "its priced are None, expected a list"),
        (json.dumps(REPORT | {"runs": None}), "its runs are None, expected a list"),
        (json.dumps(REPORT | {"priced": [["Task"]]}), "expected two texts"),
        (json.dumps(REPORT | {"runs": [3]}), "entry 1 of its runs is 3, expected a table"),
        (json.dumps(REPORT | {"runs": [{}]}), "entry 1 of its runs has no learner"),
        (json.dumps(REPORT | {"runs": [RUN, RUN | {"seed": "x"}]}), "entry 2 of its runs has seed"),
        (json.dumps(REPORT | {"runs": [RUN | {"accuracy": [1]}]}), "has accuracy [1], expected a"),
        (json.dumps(REPORT | {"contests": [CONTEST | {"ratio": 1}]}), "ratio in entry 1 of its"),
        (json.dumps(REPORT | {"contests": [CONTEST | {"rival": "\x1b[2J"}]}), "expected words"),
    ],
    ids=range(15),
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, message: str) -> None:
    code, printed = compare(tmp_path, text)
    check_refusal(tmp_path, code, printed)
    assert message in printed


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places(node[key], (*path, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([10**400, -(10**400), 1e308, 5e-324, 0, "\0", "[red]", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(places(REPORT))), JSON, st.booleans())
def test_any_value_in_any_place_is_compared_or_refused(
    tmp_path: Path, place: tuple[Any, ...], odd: Any, deep: bool
) -> None:
    content: Any = {"": deepcopy(REPORT)}
    parent = content
    for key in ("", *place)[:-1]:
        parent = parent[key]
    parent[("", *place)[-1]] = {"nominal": odd} if deep else odd
    code, printed = compare(tmp_path, json.dumps(content[""]))
    if code == 0:
        assert "training energy" in printed
    else:
        check_refusal(tmp_path, code, printed)
