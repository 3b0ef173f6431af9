"""An energy table of Accelergy as a technology: what becomes which price, and what is refused."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hw_sim.chips.digital import DIGITAL
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology, shipped_technologies
from hw_sim.prices.yaml_file import load_yaml
from tests.hw_sim.prices.hand_architecture import CHIP
from tests.hw_sim.prices.hand_table import ANALOG, VERSION_3, VERSION_4

yaml = pytest.importorskip("yaml", reason="PyYAML is an extra")


def written(folder: Path, table: Any, **sections: Any) -> Path:
    path = folder / "chip.yaml"
    path.write_text(yaml.safe_dump({"ERT": table} | sections))
    return path


def prices(technology: Technology) -> dict[str, tuple[float, float, float]]:
    """Low, value and high of every energy, in pJ."""
    found = {kind: price.at({}) for kind, price in technology.prices["energy"].items()}
    return {kind: (1e12 * p.low, 1e12 * p.value, 1e12 * p.high) for kind, p in found.items()}


def approximately(expected: dict[str, tuple[float, float, float]]) -> dict[str, Any]:
    return {kind: pytest.approx(values) for kind, values in expected.items()}


def test_a_table_of_version_4(tmp_path: Path) -> None:
    """The scratchpad of its words is the value, the shared buffer the other end of the range."""
    found = load_yaml(written(tmp_path, VERSION_4))
    assert found.name == "system_top_level"
    assert prices(found) == approximately(
        {
            "mac": (0.3, 0.3, 0.3),
            "weight_read": (2.0, 2.0, 18.0),
            "weight_write": (1.5, 1.5, 14.0),
            "trace_read": (2.0, 2.0, 18.0),
            "trace_write": (1.5, 1.5, 14.0),
            "state_read": (0.25, 0.25, 18.0),
            "state_write": (0.2, 0.2, 14.0),
            "off_chip": (512.0, 512.0, 512.0),
        }
    )
    source = found.price("energy", "weight_read").at({})
    assert source.source == (
        "Accelergy table chip.yaml: system_top_level.weights_spad[1..168].read"
    )
    assert (source.status, source.scales) == ("read", "none")


def test_a_table_of_version_3_takes_means_over_its_arguments(tmp_path: Path) -> None:
    assert prices(load_yaml(written(tmp_path, VERSION_3))) == approximately(
        {
            "mac": (1.0, 4.0, 4.0),  # the first action; gated and reused ones are the range
            "weight_read": (4.0, 7.0, 10.0),
            "weight_write": (3.0, 6.0, 9.0),
            "trace_read": (4.0, 7.0, 10.0),
            "trace_write": (3.0, 6.0, 9.0),
            "state_read": (6.0, 6.0, 6.0),
            "state_write": (5.0, 5.0, 5.0),
        }
    )


def test_converters_cells_and_a_product_of_two_parts(tmp_path: Path) -> None:
    found = prices(load_yaml(written(tmp_path, ANALOG)))
    expected = {
        "conversion": (0.5, 1.0, 1.5),
        "cell_read": (0.002, 0.002, 0.002),
        "mac": (0.3, 0.3, 0.3),
        "addition": (0.1, 0.1, 0.1),
        "state_read": (3.0, 3.0, 3.0),
    }
    assert {kind: found[kind] for kind in expected} == approximately(expected)
    assert "weight_read" not in found  # a buffer of inputs holds no weights


def test_the_file_may_say_which_event_an_action_is(tmp_path: Path) -> None:
    events = {
        "activation": "shared_glb.read",
        "mac": ["mac.compute", "system_top_level.psum_spad.update"],
    }
    found = prices(load_yaml(written(tmp_path, VERSION_4, settle={"events": events})))
    assert found["activation"] == pytest.approx((18.0, 18.0, 18.0))
    assert found["mac"] == pytest.approx((0.7, 0.7, 0.7))


def test_what_is_missing_is_named_with_the_way_to_say_it(tmp_path: Path) -> None:
    found = load_yaml(written(tmp_path, VERSION_4))
    with pytest.raises(TechnologyError) as caught:
        found.price("energy", "divide")
    assert str(caught.value) == (
        "technology 'system_top_level' has no energy price for 'divide'; name actions in "
        "'settle: events' or components in 'areas', or a technology for the rest in 'others'."
    )


def test_another_technology_may_stand_in_for_the_rest(tmp_path: Path) -> None:
    """With its own sources."""
    found = load_yaml(written(tmp_path, VERSION_4, settle={"others": "digital_45nm"}))
    for kind in DIGITAL.events:
        found.price("energy", kind)
        assert not found.takes_time(kind)
    shipped = shipped_technologies()["digital_45nm"]
    assert found.price("energy", "divide") == shipped.price("energy", "divide")
    assert found.price("energy", "mac").at({}).value == pytest.approx(0.3e-12)
    assert "digital_45nm" in found.note


def test_words_grow_with_their_bits_where_their_width_is_said(tmp_path: Path) -> None:
    found = load_yaml(written(tmp_path, VERSION_4, settle={"bits": 16}))
    half = {"weight_bits": 8, "state_bits": 8}
    for kind, value in (("weight_read", 1.0), ("state_read", 0.125), ("trace_read", 2.0)):
        assert 1e12 * found.price_at("energy", kind, half).value == pytest.approx(value)
    assert 1e12 * found.price_at("energy", "mac", half).value == pytest.approx(0.3)


def test_a_zero_is_no_estimate(tmp_path: Path) -> None:
    table = deepcopy(VERSION_4)
    table["tables"][2]["actions"][1]["energy"] = 0.0  # of the inputs: read
    found = prices(load_yaml(written(tmp_path, table)))
    assert found["state_read"] == pytest.approx((0.5, 0.5, 18.0))


def test_an_architecture_of_sanafe_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(yaml.safe_dump({"architecture": CHIP}))
    assert load_yaml(path).title == "SANA-FE architecture mine"
    for key, said in (("CRT", "neither an 'ERT' .* nor an 'archi"), ("ART", "an 'ART' .* alone")):
        path.write_text(yaml.safe_dump({key: {"tables": []}}))
        with pytest.raises(TechnologyError, match=said):
            load_yaml(path)


def first(**entries: Any) -> dict[str, Any]:
    """The table with its first component changed."""
    table = deepcopy(VERSION_4)
    table["tables"][0] |= entries
    return table


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no table": (3, {}, "ERT is 3, expected a table with tables"),
    "no list": ({"tables": {"a.b": {}}}, {}, "expected a list of components .version 0.3 on"),
    "empty": ({"tables": []}, {}, r"has tables \[\]"),
    "no component": ({"tables": [7]}, {}, "table is 7, expected a table"),
    "no name": (first(name=None), {}, "has a component None, expected system.name"),
    "bare name": (first(name="mac"), {}, "has a component 'mac'"),
    "control": (first(name="a.\x07"), {}, "has a component"),
    "no actions": (first(actions=None), {}, "has actions None, expected a list"),
    "no action": (first(actions=["read"]), {}, "action is 'read', expected a table"),
    "unnamed": (first(actions=[{"energy": 1.0}]), {}, "has an action None"),
    "no energy": (first(actions=[{"name": "read"}]), {}, "'read' has energy None"),
    "negative": (first(actions=[{"name": "read", "energy": -1}]), {}, "has energy -1"),
    "text": (first(actions=[{"name": "read", "energy": "much"}]), {}, "has energy 'much'"),
    "infinite": (first(actions=[{"name": "read", "energy": float("inf")}]), {}, "has energy inf"),
    "nothing known": ({"tables": [{"name": "a.b", "actions": [{"name": "c", "energy": 1.0}]}]},
                      {}, "no component that is known by its name"),
    "no action at all": ({"tables": [{"name": "a.b", "actions": []}]}, {}, "has no actions"),
    "settle": (VERSION_4, {"settle": 3}, "settle is 3, expected a table"),
    "entry": (VERSION_4, {"settle": {"event": {}}}, "the unknown entry 'event'"),
    "events": (VERSION_4, {"settle": {"events": 3}}, "events is 3, expected a table"),
    "event": (VERSION_4, {"settle": {"events": {"read": "mac.compute"}}}, "has event 'read'"),
    "wait": (VERSION_4, {"settle": {"events": {"barrier": "mac.compute"}}}, "'barrier'"),
    "action": (VERSION_4, {"settle": {"events": {"mac": "mac.add"}}}, "mac is 'mac.add', expec"),
    "two": (VERSION_4, {"settle": {"events": {"mac": "read"}}}, "mac is 'read', expected one of"),
    "number": (VERSION_4, {"settle": {"events": {"mac": 0.3}}}, "mac is 0.3, expected one of"),
    "others": (VERSION_4, {"settle": {"others": "mine"}}, "has others 'mine'; known: digital_45"),
    "bits": (VERSION_4, {"settle": {"bits": 0}}, "has bits 0, expected from 1"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "sections", "said"), BAD.values(), ids=BAD)
def test_a_bad_table_gets_one_sentence(
    tmp_path: Path, table: Any, sections: dict[str, Any], said: str
) -> None:
    with pytest.raises(TechnologyError, match=said) as caught:
        load_yaml(written(tmp_path, table, **sections))
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith((".", "?"))


UNFOLDING = ["k0: &k0 [1]", *(f"k{k}: &k{k} [*k{k - 1}, *k{k - 1}]" for k in range(1, 40))]


@pytest.mark.parametrize("lines", [UNFOLDING, ["k39: &k39 [*k39]"]])
def test_a_file_that_unfolds_without_end_is_refused(tmp_path: Path, lines: list[str]) -> None:
    """Before anything shows it: as text it would fill every memory."""
    path = tmp_path / "chip.yaml"
    path.write_text("\n".join([*lines, "ERT: *k39"]))
    with pytest.raises(TechnologyError, match=r"repeats itself: it has over 1,000,000 entries"):
        load_yaml(path)
