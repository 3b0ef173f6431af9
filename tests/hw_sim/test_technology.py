"""Prices: a schema that refuses in one sentence, and what ships with the package."""

from pathlib import Path

import pytest

from hw_sim.technology import (
    STATUSES,
    TechnologyError,
    load_technologies,
    shipped_technologies,
)

ENTRY = {
    "value": "1.0", "low": "0.5", "high": "2.0", "unit": '"pJ"', "node": '"45 nm"',
    "source": '"a book"', "status": '"read"',
}  # fmt: skip


def _file(path: Path, section: str = "energy", event: str = "mac", **changed: str | None) -> Path:
    fields = {name: value for name, value in (ENTRY | changed).items() if value is not None}
    inline = ", ".join(f"{name} = {value}" for name, value in fields.items())
    energy = "" if section == "energy" else f"[mine.energy]\nmac = {{ {_plain()} }}\n"
    path.write_text(f'[mine]\ntitle = "Mine"\n{energy}[mine.{section}]\n{event} = {{ {inline} }}\n')
    return path


def _plain() -> str:
    return ", ".join(f"{name} = {value}" for name, value in ENTRY.items())


def test_six_technologies_ship_with_sources_and_ranges() -> None:
    found = shipped_technologies()
    assert set(found) == {
        "digital_45nm", "digital_7nm", "loihi_like", "rram_crossbar", "gpu", "microcontroller",
    }  # fmt: skip
    for technology in found.values():
        for _, price in technology.listed():
            assert price.status in STATUSES
            assert price.low <= price.value <= price.high
            # What nobody checked must not look certain.
            if price.status == "recalled" and price.value > 0:
                assert price.high >= 1.7 * price.low, (technology.name, price)


def test_a_user_file_is_read_in_si_units(tmp_path: Path) -> None:
    technology = load_technologies(_file(tmp_path / "my.toml"))["mine"]
    assert technology.price("energy", "mac").value == pytest.approx(1e-12)
    assert technology.price("energy", "mac").high == pytest.approx(2e-12)


def test_a_missing_price_names_the_event(tmp_path: Path) -> None:
    technology = load_technologies(_file(tmp_path / "my.toml"))["mine"]
    message = "technology 'mine' has no energy price for 'hop'"
    with pytest.raises(TechnologyError, match=message):
        technology.price("energy", "hop")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"unit": None}, "energy of 'mac' has no unit"),
        ({"source": None}, "has no source"),
        ({"unit": '"kg"'}, "has unit 'kg'; known: fJ, pJ, nJ, uJ"),
        ({"status": '"sure"'}, "has status 'sure'"),
        ({"low": "3.0"}, "not in order"),
        ({"low": "0"}, "its range is logarithmic"),
        ({"value": '"one"'}, "has value 'one', expected zero or more"),
        ({"low": "-1.0"}, "has low -1.0, expected zero or more"),
        ({"colour": '"red"'}, "unknown field 'colour'"),
        ({"event": "thought"}, "there is no such event"),
        ({"scales": '"age"'}, "has scales 'age'"),
        ({"source": '""'}, "has source '', expected words"),
        ({"section": "latency"}, "has unit 'pJ'; known: ps, ns"),
    ],
)
def test_a_bad_file_gets_one_sentence(
    tmp_path: Path, changed: dict[str, str | None], message: str
) -> None:
    with pytest.raises(TechnologyError, match=message):
        load_technologies(_file(tmp_path / "my.toml", **changed))  # type: ignore[arg-type]


def test_what_is_no_technology_at_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    for text, message in (
        ("= 3", "is not TOML"),
        ("", "holds no technology"),
        ("mine = 3", "technology 'mine' is 3, expected a table"),
        ('[mine]\ntitle = "Mine"', "has no energy prices"),
        ("[mine]\nnote = 'x'", "has no title"),
        ('[mine]\ntitle = "Mine"\ncolour = 1', "unknown entry 'colour'"),
    ):
        path.write_text(text)
        with pytest.raises(TechnologyError, match=message):
            load_technologies(path)
    with pytest.raises(TechnologyError, match="cannot be read"):
        load_technologies(tmp_path / "none.toml")
