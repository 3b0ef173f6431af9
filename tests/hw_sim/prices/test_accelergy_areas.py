"""Areas of Accelergy's tables: which component becomes which part, and what a bill makes of it."""

from pathlib import Path
from typing import Any

import pytest

from engine.model.builders import looped_mlp
from experiments.hardware.contest import check_prices
from hw_sim.chips.catalogue import CHIPS
from hw_sim.counts import OpCounts, WordCount
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology, shipped_technologies
from hw_sim.prices.yaml_file import load_yaml
from tests.hw_sim.prices.hand_table import ANALOG, VERSION_4

yaml = pytest.importorskip("yaml", reason="PyYAML is an extra")

SPADS = {"memory_bit": {"weights_spad": 200, "psum_spad": 10}}


def areas_of(**areas: float) -> dict[str, Any]:
    """A table as Accelergy writes it: one row for each component."""
    rows = [{"name": f"system_top_level.{name}[1..168]", "area": a} for name, a in areas.items()]
    return {"version": "0.4", "tables": rows}


DIGITAL = areas_of(DRAM=0.0, weights_spad=400.0, psum_spad=30.0, mac=300.0, small_mac=250.0)
MACRO = areas_of(multiplier=90.0, adder=10.0, adc=1200.0, row_dac=200.0, cim_unit=0.5)


def loaded(folder: Path, ert: Any, art: Any, **settle: Any) -> Technology:
    path = folder / "chip.yaml"
    path.write_text(yaml.safe_dump({"ERT": ert, "ART": art, "settle": settle}))
    return load_yaml(path)


def square_micrometres(technology: Technology) -> dict[str, tuple[float, float, float]]:
    found = {part: price.at({}) for part, price in technology.prices["area"].items()}
    return {part: (1e12 * p.low, 1e12 * p.value, 1e12 * p.high) for part, p in found.items()}


def test_parts_by_the_names_of_components(tmp_path: Path) -> None:
    """A smaller multiplier is the value, bits are shares of the memories that are named."""
    found = loaded(tmp_path, VERSION_4, DIGITAL, areas=SPADS)
    assert square_micrometres(found) == {
        "neuron": pytest.approx((250.0, 250.0, 300.0)),
        "memory_bit": pytest.approx((2.0, 2.0, 3.0)),
    }
    source = found.price("area", "neuron").at({})
    assert source.source == "Accelergy table chip.yaml: system_top_level.small_mac[1..168]"
    assert source.status == "read"
    assert "areas" not in found.note


def test_converters_and_cells(tmp_path: Path) -> None:
    """A neuron has a product of two parts, and one of the converters."""
    found = square_micrometres(loaded(tmp_path, ANALOG, MACRO, areas={"tile": "cim_unit"}))
    assert found == {
        "cell": pytest.approx((0.5, 0.5, 0.5)),
        "converter": pytest.approx((200.0, 700.0, 1200.0)),
        "neuron": pytest.approx((300.0, 800.0, 1300.0)),
        "tile": pytest.approx((0.5, 0.5, 0.5)),
    }


def test_a_bill_by_hand(tmp_path: Path) -> None:
    """6 units and 3 outputs, and words of 8 bits, learning words of 16."""
    technology = loaded(tmp_path, VERSION_4, DIGITAL, areas=SPADS)
    design = Design(looped_mlp(4, 6, 3), 8, 8, WordCount(50, 100, 300))
    area = Bill(technology, design, OpCounts()).area()
    assert area is not None
    assert 1e12 * area.nominal == pytest.approx(9 * 250.0 + 2.0 * design.memory_bits)
    assert design.memory_bits == 8 * (50 + 100) + 16 * 300


def test_without_a_table_there_is_no_area(tmp_path: Path) -> None:
    """Not even that of the technology that stands in for energies: it is another chip."""
    path = tmp_path / "chip.yaml"
    path.write_text(yaml.safe_dump({"ERT": VERSION_4, "settle": {"others": "digital_45nm"}}))
    found = load_yaml(path)
    assert not found.prices["area"]
    assert "areas" in found.note


def test_a_part_without_an_area_is_named_before_any_work(tmp_path: Path) -> None:
    """Unless another technology stands in for it."""
    events = {"activation": "mac.compute", "compare": "mac.compute", "divide": "mac.compute"}
    events |= {"random": "mac.compute", "addition": "mac.compute"}
    settings = {"digital": CHIPS["digital"].settings}
    found = loaded(tmp_path, VERSION_4, DIGITAL, events=events)
    with pytest.raises(
        TechnologyError, match=r"no area price for 'memory_bit'; name .* components in 'areas'"
    ):
        check_prices(["digital"], settings, {"mine": found}, ["mine"])
    helped = loaded(tmp_path, VERSION_4, DIGITAL, others="digital_45nm")
    check_prices(["digital"], settings, {"mine": helped}, ["mine"])
    shipped = shipped_technologies()["digital_45nm"]
    assert helped.price("area", "memory_bit") == shipped.price("area", "memory_bit")
    assert 1e12 * helped.price("area", "neuron").at({}).value == pytest.approx(250.0)


BAD: dict[str, tuple[Any, Any, str]] = {
    "no table": (3, {}, "ART is 3, expected a table with tables"),
    "no list": ({"tables": None}, {}, "ART has tables None, expected a list of components"),
    "no component": ({"tables": [7]}, {}, "table is 7, expected a table with name and area"),
    "no name": ({"tables": [{"area": 1.0}]}, {}, "has a component None, expected system.name"),
    "no area": ({"tables": [{"name": "a.mac"}]}, {}, "a.mac has area None, expected zero, or"),
    "negative": (areas_of(mac=-1.0), {}, "has area -1.0, expected zero, or"),
    "areas": (DIGITAL, 3, "areas is 3, expected a table of components by part"),
    "part": (DIGITAL, {"mac": "mac"}, "has part 'mac'; known: neuron, memory_bit"),
    "component": (DIGITAL, {"neuron": "pe"}, "neuron is 'pe', expected one of DRAM, weights"),
    "list": (DIGITAL, {"neuron": ["mac"]}, r"neuron is \['mac'\], expected one of DRAM"),
    "nothing": (DIGITAL, {"memory_bit": {}}, "memory_bit is {}, expected one of DRAM"),
    "none held": (DIGITAL, {"memory_bit": {"psum_spad": 0}}, "has number 0, expected from 1"),
    "no ART": (None, SPADS, "ART is None, expected a table with tables"),
}


@pytest.mark.parametrize(("table", "areas", "said"), BAD.values(), ids=BAD)
def test_a_bad_table_gets_one_sentence(tmp_path: Path, table: Any, areas: Any, said: str) -> None:
    with pytest.raises(TechnologyError, match=said) as caught:
        loaded(tmp_path, VERSION_4, table, areas=areas)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
