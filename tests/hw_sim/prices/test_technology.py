"""Prices: a schema that refuses in one sentence, and what ships with the package."""

import json
import math
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.machine import Resource
from hw_sim.prices.price import STATUSES, Price
from hw_sim.prices.sums import quantile
from hw_sim.prices.technology import (
    Technology,
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
    price = technology.price("energy", "mac")
    assert isinstance(price, Price)
    assert (price.value, price.high) == pytest.approx((1e-12, 2e-12))


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
        ({"value": '"one"'}, "has value 'one', expected zero, or from"),
        ({"low": "-1.0"}, "has low -1.0, expected zero, or from"),
        ({"colour": '"red"'}, "unknown field 'colour'"),
        ({"event": "thought"}, "there is no such event"),
        ({"event": "mcc"}, r"no such event; known: mac, .*; did you mean mac\?$"),
        ({"vlaue": "2.0", "value": None}, r"unknown field 'vlaue'; .*; did you mean value\?$"),
        ({"scales": '"age"'}, "has scales 'age'"),
        ({"source": '""'}, "has source '', expected words"),
        ({"section": "latency"}, "has unit 'pJ'; known: ps, ns"),
        ({"unit": '["pJ"]'}, r"energy of 'mac' has unit \['pJ'\]; known: fJ"),
        ({"unit": "{}"}, "energy of 'mac' has unit {}; known: fJ"),
        ({"status": "[1]"}, r"has status \[1\]; known"),
        ({"scales": "[[1]]"}, r"has scales \[\[1\]\]; known: none"),
        (
            {
                "section": "endurance",
                "event": "weight_write",
                "unit": '"writes"',
                "value": "0",
                "low": "0",
            },
            "has value 0, expected more",
        ),
        ({"high": "0x" + "f" * 400}, "has high 4446"),
        ({"high": "0x" + "f" * 3800}, "has high <int of 15200 bits>"),
        ({"high": "9" * 400}, "has high 9999"),
        ({"high": "inf"}, "has high inf, expected zero, or from"),
        ({"value": "nan"}, "has value nan, expected zero, or from"),
        ({"low": "1e-320"}, "has low 1e-320, expected zero, or from"),
        ({"low": "true"}, "has low True, expected zero, or from"),
        ({"source": r'"a\u0000b"'}, r"has source 'a\\x00b', expected words"),
        ({"node": "1979-05-27"}, r"has node datetime\.date\(1979, 5, 27\), expected words"),
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
        ('[mine]\ntitle = "Mine"\ncolour = 1', "unknown entry 'colour'; known: title"),
        ('[mine]\ntitle = "Mine"\nenergy = 5', "technology 'mine' has energy 5, expected a table"),
        ('[mine]\ntitle = "Mine"\nenergy = [{}]', r"has energy \[{}\], expected a table"),
        ("[mine]\ntitle = 3", "has title 3, expected words"),
        ('[mine]\ntitle = "Mine"\nnote = [1]', r"has note \[1\], expected words"),
        ('[mine]\ntitle = "Mine"\nreference_bits = true', "has reference_bits True, expected"),
        ('[mine]\ntitle = "Mine"\nreference_bits = 0x' + "f" * 400, "has reference_bits 4446"),
        ('["a\\nb"]\ntitle = "Mine"', r"technology 'a\\nb': its name has"),
        ("mine = " + "[" * 3000, "is nested too deeply"),
        ("mine = " + "9" * 3900, r"technology 'mine' is 9999.*\.\.\., expected a table"),
        ("mine = " + "9" * 5000, "has a line of 5,007 characters"),
        (".".join("a" * 30_000) + " = 1", "has a line of 60,003 characters, expected at most"),
        (".".join("a" * 1500) + " = 1", "technology 'a' has the unknown entry 'a'"),
        ("# a comment\n" * 30_000, "has 360,000 bytes, expected at most 262,144"),
        ("mine = 1\0", "is not TOML"),
    ):
        path.write_text(text)
        with pytest.raises(TechnologyError, match=message):
            load_technologies(path)
    for name in ("none.toml", "", "a\0b.toml"):
        with pytest.raises(TechnologyError, match="cannot be read"):
            load_technologies(tmp_path / name)


TEXT = files("hw_sim.prices").joinpath("technologies.toml").read_text(encoding="utf-8")
SHIPPED = {name: tomllib.loads(TEXT)[name] for name in ("digital_45nm", "rram_crossbar")}


def _places(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(node, dict):
        for key, below in node.items():
            yield (*path, key)
            yield from _places(below, (*path, key))


def _toml(value: Any) -> str:
    """Write a value as TOML, tables inline: the module of the standard library only reads."""
    match value:
        case bool():
            return str(value).lower()
        case dict():
            inside = ", ".join(
                f"{json.dumps(key)} = {_toml(below)}" for key, below in value.items()
            )
            return f"{{ {inside} }}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(value).replace("\x7f", "\\u007f")
        case int():
            return hex(value) if value >= 0 else str(value)
        case datetime():
            return value.isoformat()
    return repr(value)


def _lines(table: dict[str, Any], names: str = "", depth: int = 3) -> Iterator[str]:
    """Write a document with one line for each price."""
    for key, below in table.items():
        name = f"{names}{json.dumps(key)}"
        if isinstance(below, dict) and below and depth > 1:
            yield from _lines(below, f"{name}.", depth - 1)
        else:
            yield f"{name} = {_toml(below)}"


def test_the_shipped_document_survives_being_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("\n".join(_lines(SHIPPED)), encoding="utf-8")
    shipped = shipped_technologies()
    assert load_technologies(path) == {name: shipped[name] for name in SHIPPED}


TEXTS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=5)
ODD = st.recursive(
    st.one_of(
        st.sampled_from(["pJ", "unit", "none", "", "\0", "\n", 0, 1, True, 10**400, -(10**400)]),
        st.sampled_from([1e308, 5e-324, 1e-18, 1e18, 0.0, -0.0, math.inf, math.nan]),
        st.floats(), st.integers(), TEXTS, st.datetimes(),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(list(_places(SHIPPED))), ODD, st.sampled_from(["replace", "add", "name"]))
def test_whatever_stands_in_a_file_it_is_usable_or_refused_in_one_sentence(
    tmp_path: Path, place: tuple[str, ...], odd: Any, how: str
) -> None:
    content = deepcopy(SHIPPED)
    parent = content
    for key in place[:-1]:
        parent = parent[key]
    if how == "replace":
        parent[place[-1]] = odd
    elif how == "add":
        parent["odd"] = odd
    else:
        parent[str(odd)[:50]] = parent.pop(place[-1])
    path = tmp_path / "my.toml"
    path.write_text("\n".join(_lines(content)), encoding="utf-8")
    try:
        found = load_technologies(path)
    except TechnologyError as error:
        sentence = str(error)
    else:
        _check_usable(found)
        sentence = f"{path} is read."
    assert sentence.startswith(str(path))
    assert sentence.endswith(".")
    assert sentence.isprintable()
    assert len(sentence) < len(str(path)) + 400


def _check_usable(found: dict[str, Technology]) -> None:
    """Do with every price what a bill does; a warning of numpy is an error."""
    for technology in found.values():
        assert 1 <= technology.reference_bits <= 1024
        for section, price in technology.listed():
            drawn = quantile(price, np.linspace(0.0, 1.0, 9))
            assert np.isfinite(drawn).all()
            assert price.low <= price.value <= price.high
            assert math.isfinite(1e15 * price.value)
            if section == "endurance":
                assert 1 / price.value > 0


@pytest.mark.parametrize("value", ["1e-18", "1e18", "0"])
def test_the_ends_of_the_range_of_prices_belong_to_it(value: str, tmp_path: Path) -> None:
    ends = {"value": value, "low": value, "high": value}
    (found,) = load_technologies(_file(tmp_path / "mine.toml", **ends)).values()
    (price,) = found.price("energy", "mac").listed()
    assert price.value == pytest.approx(float(value) * 1e-12)


@pytest.mark.parametrize("value", ["9e-19", "1.1e18"])
def test_a_price_beyond_the_range_is_refused(value: str, tmp_path: Path) -> None:
    ends = {"value": value, "low": value, "high": value}
    with pytest.raises(TechnologyError, match="expected zero, or from 1e-18 to 1e"):
        load_technologies(_file(tmp_path / "mine.toml", **ends))


@pytest.mark.parametrize(
    ("count", "fits"), [(1, True), (10**12, True), (0, False), (10**12 + 1, False)]
)
def test_a_count_of_resources_has_both_ends(count: int, fits: bool, tmp_path: Path) -> None:
    path = _file(tmp_path / "mine.toml", "latency", unit='"ns"')
    with path.open("a") as file:
        file.write(f'[mine.machine]\nmac = {{ per = "chip", count = {count} }}\n')
    if fits:
        (found,) = load_technologies(path).values()
        assert found.machine.stages == {"mac": Resource("chip", count)}
        return
    with pytest.raises(TechnologyError, match=f"has count {count}, expected from 1"):
        load_technologies(path)


@pytest.mark.parametrize(("bits", "fits"), [(1, True), (1024, True), (0, False), (1025, False)])
def test_the_width_that_prices_are_stated_for_has_both_ends(
    bits: int, fits: bool, tmp_path: Path
) -> None:
    path = _file(tmp_path / "mine.toml")
    path.write_text(path.read_text().replace("[mine]\n", f"[mine]\nreference_bits = {bits}\n"))
    if fits:
        assert load_technologies(path)["mine"].reference_bits == bits
        return
    with pytest.raises(TechnologyError, match="reference_bits"):
        load_technologies(path)
