"""Technologies that extend a shipped one."""

from pathlib import Path

import numpy as np
import pytest

from engine.equilibrium import Relaxation
from engine.model.builders import looped_mlp
from engine.model.params import initial_params
from hw_sim.chips.digital import DigitalBackend
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology, load_technologies, shipped_technologies

BASE = shipped_technologies()["digital_45nm"]
HEAD = '[mine]\nextends = "digital_45nm"\ntitle = "Mine"\n'
ROW = 'value = 7, low = 5, high = 9, source = "me", status = "ran"'
PRICE = f'{{ {ROW}, unit = "pJ", node = "28 nm" }}'
TIME = PRICE.replace("pJ", "ns")


def _loaded(tmp_path: Path, text: str) -> Technology:
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    (found,) = load_technologies(path).values()
    return found


def _bill(technology: Technology) -> Bill:
    """What one relaxation of a small network on the digital chip costs."""
    network = looped_mlp(6, 5, 3)
    chip = DigitalBackend(network, initial_params(network, np.random.default_rng(0), np.float64))
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (4, 6))
    chip.settle(chip.clamp(x), relaxation=Relaxation(5, 0.0))
    words = chip.footprint.count(network)
    return Bill(technology, Design(network, 8, 8, words), chip.counts)


def test_what_states_nothing_costs_what_the_shipped_one_costs(tmp_path: Path) -> None:
    mine = _loaded(tmp_path, HEAD)
    assert (mine.name, mine.title, mine.note) == ("mine", "Mine", "Extends digital_45nm.")
    assert mine.listed() == BASE.listed()
    assert mine.machine == BASE.machine
    assert _bill(mine).energy() == _bill(BASE).energy()


def test_one_price_replaces_that_one_alone(tmp_path: Path) -> None:
    mine = _loaded(tmp_path, f"{HEAD}[mine.energy]\nmac = {PRICE}\n")
    before, after = (grouped(_bill(of).energy_parts(), "kind") for of in (BASE, mine))
    assert after.pop("mac") / before.pop("mac") == pytest.approx(7 / 0.3)  # multiplier and adder
    assert after == pytest.approx(before)


def test_a_table_replaces_that_of_the_same_name(tmp_path: Path) -> None:
    table = """[mine.tables.sram]
unit = "pJ"
node = "28 nm"
between = "log-log"
beyond = "extend"
"""
    rows = ", ".join(f"{{ at = {at}, {ROW} }}" for at in (1, 9))
    text = f"{HEAD}{table}rows = [{rows}]\n"
    parts = grouped(_bill(_loaded(tmp_path, text)).energy_parts(), "kind")
    counts = grouped(dict(_bill(BASE).counts), "kind")
    assert parts["state_read"] == pytest.approx(7e-12 * counts["state_read"])
    assert parts["mac"] == pytest.approx(0.3e-12 * counts["mac"])


def test_a_stage_and_what_hides_are_replaced_by_name(tmp_path: Path) -> None:
    text = f"{HEAD}[mine.latency]\nmac = {TIME}\n[mine.machine]\noverlaps = false\n"
    machine = _loaded(tmp_path, f'{text}[mine.machine.behind]\nactivation = ["compare"]\n').machine
    assert machine.stages == BASE.machine.stages
    assert not machine.overlaps
    hidden = dict(BASE.machine.behind)
    assert hidden.pop("state_write") == "activation"
    assert machine.behind == hidden


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD.replace("45", "46"), "has extends 'digital_46nm'; known: digital_45nm, "),
        (HEAD.replace('"digital_45nm"', "[1]"), r"has extends \[1\]; known: digital_45nm"),
        (f"{HEAD}reference_bits = 16", "reference_bits 16 and extends .* whose prices are for 8"),
        (f"{HEAD}energy = 5", "energy is 5, expected a table of its entries"),
        (f"{HEAD}machine = {{ behind = 5 }}", "machine behind is 5, expected a table"),
        (f"{HEAD}colour = 1", "unknown entry 'colour'"),
        (HEAD.replace('title = "Mine"', ""), "has no title"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TechnologyError, match=message):
        _loaded(tmp_path, text)
