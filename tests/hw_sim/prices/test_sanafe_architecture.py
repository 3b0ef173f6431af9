"""An architecture of SANA-FE as a technology: its numbers, and one sentence where it has none."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hw_sim.chips.spiking import SPIKING
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import shipped_technologies
from hw_sim.prices.yaml_file import load_yaml
from tests.hw_sim.prices.hand_architecture import CHIP

yaml = pytest.importorskip("yaml", reason="PyYAML is an extra")


def written(folder: Path, chip: Any) -> Path:
    path = folder / "chip.yaml"
    path.write_text(yaml.safe_dump({"architecture": chip}))
    return path


def changed(*keys: Any, value: Any) -> dict[str, Any]:
    """The chip with one entry changed, or without it."""
    chip = deepcopy(CHIP)
    owner: Any = chip
    for key in keys[:-1]:
        owner = owner[key]
    owner[keys[-1]] = value
    return chip


def test_every_number_is_that_of_the_file(tmp_path: Path) -> None:
    found = load_yaml(written(tmp_path, CHIP))
    assert found.name == "mine"
    expected = {
        "energy": {
            "mac": (11e-12, 21e-12, 21e-12),  # and a dendrite each time
            "activation": (7e-12, 7e-12, 14e-12),
            "spike_out": (7e-12, 7e-12, 14e-12),
            "message": (12e-12,) * 3,
            "hop": (2e-12, 3e-12, 4e-12),
        },
        "latency": {
            "busy_synapse": (4e-9, 4e-9, 6e-9),
            "busy_update": (7e-9, 7e-9, 14e-9),
            "busy_spike": (7e-9, 7e-9, 14e-9),
            "busy_send": (4e-9,) * 3,
            "busy_receive": (2e-9,) * 3,
            "barrier": (1e-7,) * 3,
        },
    }
    for section, kinds in expected.items():
        for kind, values in kinds.items():
            price = found.price_at(section, kind, {"tiles": 1})
            assert (price.low, price.value, price.high) == pytest.approx(values), kind
            assert (price.status, price.source) == ("read", "SANA-FE architecture chip.yaml")
    assert found.price_at("latency", "barrier", {"tiles": 2}).value == pytest.approx(3e-7)


def test_what_the_file_does_not_describe_keeps_its_own_source(tmp_path: Path) -> None:
    """So that training has a bill, too."""
    found = load_yaml(written(tmp_path, CHIP))
    for kind in SPIKING.events:
        found.price("energy", kind)
    assert found.price("energy", "trace_write") == shipped_technologies()["loihi_like"].price(
        "energy", "trace_write"
    )


def test_a_dendrite_behind_the_buffer_is_updated_with_the_soma(tmp_path: Path) -> None:
    late = changed("tile", 0, "core", 0, "attributes", "buffer_position", value="dendrite")
    found = load_yaml(written(tmp_path, late))
    assert found.price("energy", "mac").value == pytest.approx(20e-12)
    assert found.price("energy", "activation").value == pytest.approx(8e-12)
    assert found.price("latency", "busy_synapse").value == pytest.approx(3e-9)
    assert found.price("latency", "busy_update").value == pytest.approx(8e-9)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, (0.0, 0.0)),
        ({"latency_sync": 2e-7}, (2e-7, 2e-7)),
        ({"latency_sync": "2e-7"}, (2e-7, 2e-7)),  # what YAML makes of it without a point
        ({"sync_model": "table", "latency_sync": [9e-7, 1e-7, 3e-7]}, (1e-7, 3e-7)),
        ({"sync_model": "table", "latency_sync": {0: 1e-7, 5: 3e-7}}, (1e-7, 1e-7)),
        ({"sync_model": "table", "latency_sync": {4: 1e-7}}, (1e-7, 1e-7)),
    ],
)
def test_the_barrier_of_one_tile_and_of_three(
    tmp_path: Path, attributes: dict[str, Any], expected: tuple[float, float]
) -> None:
    """As SANA-FE looks it up: the last entry up to the number of tiles, or the first."""
    found = load_yaml(written(tmp_path, changed("attributes", value=attributes)))
    times = [found.price_at("latency", "barrier", {"tiles": n}).value for n in (1, 3)]
    assert times == pytest.approx(expected)


CORE = ("tile", 0, "core", 0)
BAD = {
    "no table": ((), 3, "architecture is 3, expected a table"),
    "no name": (("name",), None, "its name has to be words"),
    "no tile": (("tile",), [], "has tile .*, expected a list of units"),
    "no core": (("tile", 0, "core"), None, "has core None, expected a list"),
    "no hop": (("tile", 0, "attributes"), {}, "has energy_north_hop None"),
    "no soma": ((*CORE, "soma"), 7, "core has soma 7, expected a list"),
    "no unit": ((*CORE, "soma"), [7], "soma is 7, expected a table"),
    "no number": ((*CORE, "synapse", 0, "attributes"), {}, "has energy_process_spike None"),
    "negative": ((*CORE, "axon_in", 0, "attributes", "energy_message_in"), -1.0, "has energy_mes"),
    "text": ((*CORE, "axon_in", 0, "attributes", "energy_message_in"), "much", "'much'"),
    "truth": ((*CORE, "axon_in", 0, "attributes", "energy_message_in"), True, "True"),
    "huge": ((*CORE, "axon_in", 0, "attributes", "energy_message_in"), 1e300, "1e.300"),
    "buffer": ((*CORE, "attributes", "buffer_position"), "axon_out", "'axon_out'"),
    "inside": ((*CORE, "attributes", "buffer_inside_unit"), True, "buffer before the 'soma'"),
    "model": (("attributes", "sync_model"), "none", "has sync_model 'none'"),
    "tiles": (("attributes", "latency_sync"), {"two": 1e-7}, "times by tiles"),
    "barrier of zero": (("attributes", "latency_sync"), {1: 1e-7, 2: 0.0}, "row 2 has a zero"),
}


@pytest.mark.parametrize(("keys", "value", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_gets_one_sentence(
    tmp_path: Path, keys: tuple[Any, ...], value: Any, said: str
) -> None:
    chip = changed(*keys, value=value) if keys else value
    with pytest.raises(TechnologyError, match=said) as caught:
        load_yaml(written(tmp_path, chip))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "is not YAML"),
        ("- 1", r"is \[1\], expected a table"),
        ("", "is None, expected a table"),
        ("[" * 5000, "nested too deeply|is not YAML"),
        ("a: !!python/object:os.system 1", "is not YAML"),
        ("\x07", "is not YAML"),
    ],
)
def test_what_is_no_architecture_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(text)
    with pytest.raises(TechnologyError, match=said) as caught:
        load_yaml(path)
    assert str(caught.value).isprintable()


def test_a_missing_file_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TechnologyError, match="cannot be read"):
        load_yaml(tmp_path / "none.yaml")
