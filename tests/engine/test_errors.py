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
