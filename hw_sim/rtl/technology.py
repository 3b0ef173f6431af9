"""What was measured of the gates of a core, as a technology that a bill can be made with."""

import re
from importlib.resources import files

from hw_sim.rtl.activity import RESTS, SETTLES, Activity
from hw_sim.rtl.plan import Plan
from hw_sim.rtl.synthesis import Synthesis

BASE = "digital_45nm"
"""Whose prices stand for all that is not in a core: memories, tables, divider, border."""
NAME = "verilog_osu018"
NODE = "0.18 um"
WIRES = 2.0
"""How much more wires may come to, which no figure here has: the high end of a price."""
NOTE = (
    "Products and their time, idle power and area of a neuron are those of the gates of this very "
    f"circuit in {NODE}, without wires; everything else is {BASE}, so the nodes are mixed."
)


def technology_text(plan: Plan, synthesis: Synthesis, gross: Activity, net: Activity) -> str:
    """Return a TOML file: the prices of a core, and those of `BASE` for all else.

    `gross` is the activity with the delays of the library, `net` without them.
    """
    text = files("hw_sim.prices").joinpath("technologies.toml").read_text(encoding="utf-8")
    part = re.search(rf"^\[{BASE}\]\n.*?(?=^\[(?!{BASE}[.\]]))", text, re.DOTALL | re.MULTILINE)
    assert part is not None, "the shipped prices have the base"
    found = part[0].replace(f"[{BASE}", f"[{NAME}")
    widths = "/".join(map(str, (plan.config.state_bits, plan.config.weight_bits)))
    title = f"Verilog core of {widths} bits in OSU {NODE}, all else as {BASE}"
    found = re.sub(r"^title = .*$", f'title = "{title}"', found, count=1, flags=re.MULTILINE)
    found = re.sub(r"^note = .*$", f'note = "{NOTE}"', found, count=1, flags=re.MULTILINE)
    for section, (name, line) in _prices(synthesis, gross, net):
        head = re.escape(f"[{NAME}.{section}]\n")
        found, times = re.subn(
            rf"({head}(?:(?!\[).*\n)*?){name} = .*\n", rf"\g<1>{name} = {line}\n", found
        )
        assert times == 1, f"the base has one {name} in {section}"
    return found


def _prices(
    synthesis: Synthesis, gross: Activity, net: Activity
) -> list[tuple[str, tuple[str, str]]]:
    """Return section, name and text of every price of a core."""
    product, least = (a.energy_pj[SETTLES] - a.energy_pj[RESTS] for a in (gross, net))
    idle_uw = gross.energy_pj[RESTS] / synthesis.delay_ps * 1e6
    leaks_uw, delay_ns = synthesis.leakage_nw * 1e-3, synthesis.delay_ps * 1e-3
    area = synthesis.area_um2
    wires = f"high: {WIRES:g} times, for wires"
    toggles = (
        f"all changes of all nets, by the loads and losses of the cells; low: no delays; {wires}"
    )
    path = f"longest path by abc; {wires}"
    rest = "a cycle at rest over the longest path: the clock is not gated; low: leakage alone"
    cells = f"cells by yosys and abc, without memories; {wires}"
    return [
        ("energy", ("mac", _price(product, least, "pJ", toggles))),
        ("latency", ("mac", _price(delay_ns, delay_ns, "ns", path))),
        ("power", ("neuron", _price(idle_uw, leaks_uw, "uW", f"{rest}; {wires}"))),
        ("area", ("neuron", _price(area, area, "um2", cells))),
    ]


def _price(value: float, low: float, unit: str, source: str) -> str:
    numbers = f"value = {value:.6g}, low = {low:.6g}, high = {WIRES * value:.6g}"
    return f'{{ {numbers}, unit = "{unit}", node = "{NODE}", source = "{source}", status = "ran" }}'
