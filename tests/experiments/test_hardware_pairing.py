"""Which chips a technology prices: its own, or those that it says how to price."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.hardware.__main__ import _parser
from experiments.hardware.chosen import Chosen
from experiments.hardware.pairing import chips_of, technologies_of
from hw_sim.chips.catalogue import CHIPS
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import Technology, shipped_technologies

SHIPPED = shipped_technologies()
HEAD = '[{name}]\n{extends}title = "Mine"\n[{name}.energy]\n'
PRICE = (
    '{event} = {{ value = 1, low = 1, high = 1, unit = "pJ", node = "28 nm", source = "me", '
    'status = "ran" }}\n'
)


def _file(folder: Path, *events: str, name: str = "mine", extends: str = "") -> str:
    path, begun = folder / f"{name}.toml", f'extends = "{extends}"\n' if extends else ""
    rows = "".join(PRICE.format(event=event) for event in events)
    path.write_text(HEAD.format(name=name, extends=begun) + rows, encoding="utf-8")
    return str(path)


def _chosen(*given: str) -> Chosen:
    return Chosen(_parser().parse_args(given))


def test_a_shipped_technology_is_for_its_own_chip() -> None:
    for name, technology in SHIPPED.items():
        assert chips_of(technology, SHIPPED) == [
            chip for chip in CHIPS if name in CHIPS[chip].technologies
        ]


def test_one_that_extends_another_is_for_the_same_chip_and_for_those_it_adds() -> None:
    """What the shipped one could price as well is not added."""
    loihi = replace(SHIPPED["loihi_like"], name="mine", extends="loihi_like")
    assert chips_of(loihi, {**SHIPPED, "mine": loihi}) == ["spiking"]
    logic = SHIPPED["digital_45nm"]
    cells = {**logic.prices["energy"], **SHIPPED["rram_crossbar"].prices["energy"]}
    more = replace(
        logic, name="mine", extends="digital_45nm", prices={**logic.prices, "energy": cells}
    )
    assert chips_of(more, {**SHIPPED, "mine": more}) == ["digital", "crossbar"]


def test_technologies_choose_the_chips_and_each_is_priced_in_its_own(tmp_path: Path) -> None:
    mine = _file(tmp_path, "mac", extends="digital_45nm")
    chosen = _chosen("--technology", mine, "--technology", "rram_crossbar")
    chosen.check()
    assert chosen.substrates == ["digital", "crossbar"]
    pairs = [technologies_of(s, chosen.technologies, chosen.priced_in) for s in chosen.substrates]
    assert pairs == [["mine"], ["rram_crossbar"]]
    assert _chosen("--technology", mine, "--technology", mine).priced_in == ["mine"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--substrate", "crossbar", "--technology", "{mine}"],
         "technology 'mine' is of the digital chip, and only crossbar is run."),
        (["--substrate", "digital", "--substrate", "crossbar", "--technology", "gpu"],
         "the crossbar chip is priced by none of the technologies that were asked for."),
        (["--technology", "{bare}"], "; --substrate says which chips it is for."),
        (["--technology", "{taken}"], "technology 'gpu' has the name of another one"),
        (["--technology", "{mine}", "--tiles", "8x8"], "--tiles is of the crossbar chip"),
        (["--technology", "{mine}", "--set", "crossbar.stuck=0"], "crossbar.stuck is of the cro"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tmp_path: Path, given: list[str], sentence: str) -> None:
    paths = {
        "mine": _file(tmp_path, "mac", extends="digital_45nm"),
        "bare": _file(tmp_path, "mac", name="bare"),
        "taken": _file(tmp_path, "mac", name="gpu", extends="digital_45nm"),
    }
    chosen = _chosen(*(word.format(**paths) for word in given))
    with pytest.raises((TechnologyError, ValueError)) as refused:
        chosen.check()
    assert sentence in str(refused.value)


def test_what_extends_nothing_may_price_any_chip() -> None:
    own: Technology = replace(SHIPPED["gpu"], name="own")
    assert chips_of(own, {**SHIPPED, "own": own}) == list(CHIPS)
