import numpy as np
import pytest

from engine.errors import LONGEST_SHOWN, shown

DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("pJ", "'pJ'"),
        ("a\nb\0", r"'a\nb\x00'"),
        (["pJ"], "['pJ']"),
        (1 << 20_000, "<int of 20001 bits>"),
        ([1 << 20_000], "<list>"),
        (DEEP, "<list>"),
        ("a" * 1000, "'" + "a" * (LONGEST_SHOWN - 1) + "..."),
    ],
    ids=["text", "controls", "list", "huge", "list-of-huge", "deep", "long"],
)
def test_any_value_fits_into_a_sentence(value: object, text: str) -> None:
    assert shown(value) == text


def test_arrays_and_objects_that_fail_to_describe_themselves_do_too() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shown(np.zeros((3, 4))) == "an array of float64 (3, 4)"
    assert shown(Mute()) == "<Mute>"
